"""Encrypts or decrypts part of a volume's payload, independently of Scrim.

    xts.py decrypt IMAGE START AT LENGTH SECTOR IV KEY > plaintext
    xts.py encrypt IMAGE START AT LENGTH SECTOR IV KEY < plaintext

START is where the payload starts on IMAGE, AT and LENGTH the part of the payload, all in bytes and
AT and LENGTH multiples of SECTOR; IV is plain, plain64 or plain64be; KEY is a file with the volume
key. The IV counts in units of 512 bytes whatever SECTOR is, as dm-crypt's does.
"""

import sys

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

IV = {
    "plain": lambda number: (number & 0xFFFFFFFF).to_bytes(16, "little"),
    "plain64": lambda number: number.to_bytes(16, "little"),
    "plain64be": lambda number: number.to_bytes(16, "big"),
}

what, image, start, at, length, sector, iv, key = sys.argv[1:]
start, at, length, sector = int(start), int(at), int(length), int(sector)
with open(key, "rb") as file:
    aes = algorithms.AES(file.read())


def turn(data):
    for offset in range(0, length, sector):
        tweak = modes.XTS(IV[iv]((at + offset) // 512))
        cipher = Cipher(aes, tweak)
        turner = cipher.encryptor() if what == "encrypt" else cipher.decryptor()
        yield turner.update(data[offset : offset + sector]) + turner.finalize()


with open(image, "r+b" if what == "encrypt" else "rb") as file:
    file.seek(start + at)
    if what == "encrypt":
        file.write(b"".join(turn(sys.stdin.buffer.read(length))))
    else:
        sys.stdout.buffer.write(b"".join(turn(file.read(length))))
