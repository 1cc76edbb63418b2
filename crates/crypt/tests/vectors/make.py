#!/usr/bin/python3
"""Makes what the tests compare with, by another implementation: OpenSSL, through `cryptography`.

    make.py                 writes runs.txt, and prints the self-test's digests (src/registry.rs)
    make.py ieee            writes ieee1619.rsp
    make.py sp800-38a       writes sp800-38a.rsp
    make.py nist DIRECTORY  writes nist.rsp from NIST's files in DIRECTORY

Origins:

- ieee1619.rsp: IEEE Std 1619-2007, Annex B, vectors 1 to 14, whose keys, tweaks and plaintexts
  follow the rules below; the rest of the annex is about ciphertext stealing, which no disk sector
  needs. The ciphertexts are computed here; the first and the last bytes of each were compared
  with the standard's.
- sp800-38a.rsp: NIST SP 800-38A, Appendix F.1 (ECB), F.2 (CBC) and F.5 (CTR), whose keys, IVs and
  plaintext are below. The ciphertexts are computed here; the first block of each was compared with
  the publication's.
- dm-crypt.txt: from the kernel, in a virtual machine; its head says how.
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


def ecb(key, data):
    return Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(data)


def cbc(key, iv, data):
    return Cipher(algorithms.AES(key), modes.CBC(iv)).encryptor().update(data)


def ctr(key, iv, data):
    return Cipher(algorithms.AES(key), modes.CTR(iv)).encryptor().update(data)


def xts(key, tweak, data):
    if len(key) != 48:
        return Cipher(algorithms.AES(key), modes.XTS(tweak)).encryptor().update(data)
    # OpenSSL has no XTS with AES-192: by IEEE Std 1619, 5.3.2, on its AES.
    power = int.from_bytes(ecb(key[24:], tweak), "little")
    tweaks = bytearray()
    for _ in range(0, len(data), 16):
        tweaks += power.to_bytes(16, "little")
        power = (power << 1) ^ (0x87 if power >> 127 else 0)
        power %= 1 << 128
    return xor(ecb(key[:24], xor(data, tweaks)), tweaks)


def xor(one, other):
    number = int.from_bytes(one, "little") ^ int.from_bytes(other, "little")
    return number.to_bytes(len(one), "little")


MODES = {"xts": xts, "cbc": cbc, "ctr": ctr, "ecb": lambda key, iv, data: ecb(key, data)}


def essiv_hash(name, data):
    name, _, bits = name.partition("-")
    if name in ("blake2b", "blake2s"):
        return getattr(hashlib, name)(data, digest_size=int(bits) // 8).digest()
    return hashlib.new(name + ("_" + bits if bits else ""), data).digest()


def iv(rule, mode, key, number, sector):
    """The IV of a sector, by the rules of the kernel's dm-crypt."""
    number %= 1 << 64
    rule, _, options = rule.partition(":")
    if rule == "essiv":
        return ecb(essiv_hash(options, key), number.to_bytes(16, "little"))
    if rule == "eboiv":
        offset = number * sector % (1 << 64)
        return MODES[mode](key, offset.to_bytes(16, "little"), bytes(16))
    block = 1 if mode == "ctr" else 16
    return {
        "": bytes(16),
        "null": bytes(16),
        "plain": (number % (1 << 32)).to_bytes(16, "little"),
        "plain64": number.to_bytes(16, "little"),
        "plain64be": number.to_bytes(16, "big"),
        "benbi": ((number * (512 // block) + 1) % (1 << 64)).to_bytes(16, "big"),
    }[rule]


def key(size):
    return bytes((i * 37 % 256) ^ 0x5A for i in range(size))


def plaintext(size):
    return bytes((i * 7 + i // 251) % 256 for i in range(size))


def encrypt(mode, rule, key_size, sector, step, first, sectors):
    """The ciphertext of a run of `plaintext`, sector by sector."""
    data = plaintext(sectors * sector)
    whole_key = key(key_size)
    return b"".join(
        MODES[mode](
            whole_key,
            iv(rule, mode, whole_key, first + n * step, sector),
            data[n * sector : (n + 1) * sector],
        )
        for n in range(sectors)
    )


FIRSTS = 0, (1 << 32) - 16, (1 << 64) - 16
AES = 16, 24, 32
HASHES = "sha256", "sha3-256", "blake2b-256", "blake2s-256", "blake2s-128", "sm3"


def run(mode, rule, key_size, sector, step):
    digest = hashlib.sha256()
    for first in FIRSTS:
        digest.update(encrypt(mode, rule, key_size, sector, step, first, SECTORS))
    spec = f"aes-{mode}" + (f"-{rule}" if rule else "")
    return f"{spec} {key_size} {sector} {step} {digest.hexdigest()}"


def runs():
    yield f"# Made by make.py: SHA-256 of the ciphertexts of three runs of {SECTORS} sectors each."
    yield f"# Their first IV sectors are {FIRSTS[0]}, {FIRSTS[1]} and {FIRSTS[2]}."
    yield "# specification, key bytes, sector bytes, IV sectors per sector, digest"
    rules = ["null", "plain", "plain64", "plain64be", "benbi", "essiv:sha256"]
    for mode in MODES:
        for rule in [""] if mode == "ecb" else rules if mode == "ctr" else rules + ["eboiv"]:
            for size in AES:
                for sector in (512, 1024, 2048, 4096):
                    for step in sorted({1, sector // 512}):
                        yield run(mode, rule, size * (2 if mode == "xts" else 1), sector, step)
    for name in HASHES[1:]:
        yield run("cbc", f"essiv:{name}", 32, 512, 1)


def fnv1a(data):
    digest = 0xCBF29CE484222325
    for byte in data:
        digest = ((digest ^ byte) * 0x100000001B3) % (1 << 64)
    return digest


def self_test():
    for mode in MODES:
        for size in AES:
            size *= 2 if mode == "xts" else 1
            data = encrypt(mode, "plain64", size, 512, 1, 0x1FFFFFFF0, 17)
            yield f"{mode}(aes) {size}: {fnv1a(data):#018x}"
    yield f"ecb(cipher_null) 0: {fnv1a(plaintext(17 * 512)):#018x}"


def sp800_38a_file():
    yield "# NIST SP 800-38A, Appendix F; see make.py."
    data = bytes.fromhex(
        "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"
        "30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710"
    )
    keys = (
        "2b7e151628aed2a6abf7158809cf4f3c",
        "8e73b0f7da0e6452c810f32b809079e562f8ead2522c6b7b",
        "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4",
    )
    ivs = {
        "ecb": bytes(16),
        "cbc": bytes(range(16)),
        "ctr": bytes(range(0xF0, 0x100)),
    }
    number = 0
    for mode, iv in ivs.items():
        for one in keys:
            number += 1
            yield ""
            yield f"COUNT = {number}"
            yield f"Mode = {mode}(aes)"
            yield f"Key = {one}"
            yield f"i = {iv.hex()}"
            yield f"PT = {data.hex()}"
            yield f"CT = {MODES[mode](bytes.fromhex(one), iv, data).hex()}"


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
elif sys.argv[1:] == ["sp800-38a"]:
    write("sp800-38a.rsp", sp800_38a_file())
elif sys.argv[1:2] == ["nist"] and len(sys.argv) == 3:
    write("nist.rsp", nist_file(sys.argv[2]))
elif not sys.argv[1:]:
    write("runs.txt", runs())
    print("\n".join(self_test()))
else:
    sys.exit(__doc__)
