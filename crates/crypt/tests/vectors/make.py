#!/usr/bin/python3
"""Makes what the tests compare with, by another implementation: OpenSSL, through `cryptography`.

    make.py                 writes runs.txt, and prints the self-test's digests (src/registry.rs)
    make.py ieee            writes ieee1619.rsp
    make.py nist DIRECTORY  writes nist.rsp from NIST's files in DIRECTORY

Origins:

- ieee1619.rsp: IEEE Std 1619-2007, Annex B, vectors 1 to 14, whose keys, tweaks and plaintexts
  follow the rules below; the rest of the annex is about ciphertext stealing, which no disk sector
  needs. The ciphertexts are computed here; the first and the last bytes of each were compared
  with the standard's.
- nist.rsp: from NIST's XTSVS files XTSGenAES128.rsp and XTSGenAES256.rsp, in both forms of tweak,
  as the Python package cryptography-vectors 50.0.2 has them, below ciphers/AES/XTS: of each form,
  key size, direction and length the first 8 vectors of whole blocks. NIST's files are in the
  public domain.
"""

import hashlib
import pathlib
import sys

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

HERE = pathlib.Path(__file__).parent
SECTORS = 40


def xts(key, tweak, data):
    return Cipher(algorithms.AES(key), modes.XTS(tweak)).encryptor().update(data)


def iv(mode, number):
    number %= 1 << 64
    return {
        "null": bytes(16),
        "plain": (number % (1 << 32)).to_bytes(16, "little"),
        "plain64": number.to_bytes(16, "little"),
        "plain64be": number.to_bytes(16, "big"),
    }[mode]


def key(size):
    return bytes((i * 37 % 256) ^ 0x5A for i in range(size))


def plaintext(size):
    return bytes((i * 7 + i // 251) % 256 for i in range(size))


def encrypt(key_size, sector, mode, step, first, sectors):
    """The ciphertext of a run of `plaintext`, sector by sector."""
    data = plaintext(sectors * sector)
    return b"".join(
        xts(key(key_size), iv(mode, first + n * step), data[n * sector : (n + 1) * sector])
        for n in range(sectors)
    )


def runs():
    yield f"# Made by make.py: SHA-256 of the ciphertext of {SECTORS} sectors."
    yield "# key bytes, sector bytes, IV, IV sectors per sector, first IV sector, digest"
    for key_size in (32, 64):
        for sector in (512, 1024, 2048, 4096):
            for mode in ("null", "plain", "plain64", "plain64be"):
                for step in sorted({1, sector // 512}):
                    for first in (0, (1 << 32) - 16, (1 << 64) - 16):
                        digest = hashlib.sha256(
                            encrypt(key_size, sector, mode, step, first, SECTORS)
                        ).hexdigest()
                        yield f"{key_size} {sector} {mode} {step} {first} {digest}"


def fnv1a(data):
    digest = 0xCBF29CE484222325
    for byte in data:
        digest = ((digest ^ byte) * 0x100000001B3) % (1 << 64)
    return digest


def self_test():
    for key_size in (32, 64):
        yield f"{key_size}: {fnv1a(encrypt(key_size, 512, 'plain64', 1, 0x1FFFFFFF0, 17)):#018x}"


def ieee():
    e = bytes.fromhex("27182818284590452353602874713526")
    pi = bytes.fromhex("31415926535897932384626433832795")
    e2 = bytes.fromhex("2718281828459045235360287471352662497757247093699959574966967627")
    pi2 = bytes.fromhex("3141592653589793238462643383279502884197169399375105820974944592")
    byte = lambda value: bytes([value])
    count = bytes(range(256)) * 2
    yield 1, bytes(32), 0, bytes(32)
    yield 2, byte(0x11) * 16 + byte(0x22) * 16, 0x3333333333, byte(0x44) * 32
    yield 3, bytes(range(0xFF, 0xEF, -1)) + byte(0x22) * 16, 0x3333333333, byte(0x44) * 32
    data = count
    numbers = {0: 4, 1: 5, 2: 6, 0xFD: 7, 0xFE: 8, 0xFF: 9}
    for tweak in range(0x100):  # each plaintext is the ciphertext of the tweak before
        if tweak in numbers:
            yield numbers[tweak], e + pi, tweak, data
        data = xts(e + pi, tweak.to_bytes(16, "little"), data)
    for number, tweak in enumerate((0xFF, 0xFFFF, 0xFFFFFF, 0xFFFFFFFF, 0xFFFFFFFFFF), 10):
        yield number, e2 + pi2, tweak, count


def ieee_file():
    yield "# IEEE Std 1619-2007, Annex B; see make.py."
    for number, whole_key, tweak, data in ieee():
        tweak = tweak.to_bytes(16, "little")
        yield ""
        yield f"COUNT = {number}"
        yield f"Key = {whole_key.hex()}"
        yield f"i = {tweak.hex()}"
        yield f"PT = {data.hex()}"
        if number == 1:  # OpenSSL refuses two equal keys
            yield "CT = 917cf69ebd68b2ec9b9fe9a3eadda692cd43d2f59598ed858c02c2652fbf922e"
        else:
            yield f"CT = {xts(whole_key, tweak, data).hex()}"


def nist_file(directory):
    yield "# A part of NIST's XTSVS vectors; see make.py."
    for form in ("tweak-128hexstr", "tweak-dataunitseqno"):
        for name in ("XTSGenAES128.rsp", "XTSGenAES256.rsp"):
            taken = {}
            direction = None
            text = pathlib.Path(directory, form, name).read_text()
            for record in text.replace("\r", "").split("\n\n"):
                lines = [line for line in record.split("\n") if line and line[0] != "#"]
                if lines and lines[0][0] == "[":
                    direction = lines[0]
                    continue
                fields = dict(line.split(" = ") for line in lines)
                bits = int(fields.get("DataUnitLen", 1))
                kind = direction, bits
                if bits % 128 or bits != 4 * len(fields["PT"]) or taken.get(kind, 0) == 8:
                    continue
                taken[kind] = taken.get(kind, 0) + 1
                yield ""
                yield f"# {form}/{name} {direction}"
                yield from lines


def write(name, lines):
    HERE.joinpath(name).write_text("\n".join(lines) + "\n")


if sys.argv[1:] == ["ieee"]:
    write("ieee1619.rsp", ieee_file())
elif sys.argv[1:2] == ["nist"] and len(sys.argv) == 3:
    write("nist.rsp", nist_file(sys.argv[2]))
elif not sys.argv[1:]:
    write("runs.txt", runs())
    print("\n".join(self_test()))
else:
    sys.exit(__doc__)
