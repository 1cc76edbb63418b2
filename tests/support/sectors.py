"""Encrypts or decrypts part of a volume's payload, independently of Scrim.

    sectors.py decrypt IMAGE START AT LENGTH SECTOR CIPHER KEY > plaintext
    sectors.py encrypt IMAGE START AT LENGTH SECTOR CIPHER KEY < plaintext

START is where the payload starts on IMAGE, AT and LENGTH the part of the payload, all in bytes and
AT and LENGTH multiples of SECTOR; CIPHER is a specification such as aes-cbc-essiv:sha256; KEY is a
file with the volume key. The IV counts in units of 512 bytes whatever SECTOR is, as dm-crypt's does.
"""

import hashlib
import sys

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

what, image, start, at, length, sector, spec, key = sys.argv[1:]
start, at, length, sector = int(start), int(at), int(length), int(sector)
with open(key, "rb") as file:
    key = file.read()
cipher, mode, iv = {
    "aes": ("aes", "cbc", "plain"),
    "aes-ecb": ("aes", "ecb", "null"),
    "cipher_null-ecb": ("cipher_null", "ecb", "null"),
}.get(spec) or spec.split("-", 2)
MODES = {"xts": modes.XTS, "cbc": modes.CBC, "ctr": modes.CTR, "ecb": lambda iv: modes.ECB()}


def digest(name):
    """The key of ESSIV."""
    name = {"sha3-256": "sha3_256", "blake2s-256": "blake2s256"}.get(name, name)
    return hashlib.new(name, key).digest()


if iv.startswith("essiv:"):
    essiv = Cipher(algorithms.AES(digest(iv.split(":")[1])), modes.ECB()).encryptor()
eboiv = Cipher(algorithms.AES(key), modes.ECB()).encryptor() if iv == "eboiv" else None
IV = {
    "null": lambda number: bytes(16),
    "plain": lambda number: (number & 0xFFFFFFFF).to_bytes(16, "little"),
    "plain64": lambda number: number.to_bytes(16, "little"),
    "plain64be": lambda number: number.to_bytes(16, "big"),
    "benbi": lambda number: (number * 32 + 1).to_bytes(16, "big"),
    "essiv": lambda number: essiv.update(number.to_bytes(16, "little")),
    "eboiv": lambda number: eboiv.update((number * sector).to_bytes(16, "little")),
}[iv.split(":")[0]]


def turn(data):
    if cipher == "cipher_null":
        yield data
        return
    # Looked up and made once: a volume has thousands of sectors.
    aes, mode_of, iv_of = algorithms.AES(key), MODES[mode], IV
    for offset in range(0, length, sector):
        turned = Cipher(aes, mode_of(iv_of((at + offset) // 512)))
        turner = turned.encryptor() if what == "encrypt" else turned.decryptor()
        yield turner.update(data[offset : offset + sector]) + turner.finalize()


with open(image, "r+b" if what == "encrypt" else "rb") as file:
    file.seek(start + at)
    if what == "encrypt":
        file.write(b"".join(turn(sys.stdin.buffer.read(length))))
    else:
        sys.stdout.buffer.write(b"".join(turn(file.read(length))))
