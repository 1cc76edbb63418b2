#!/usr/bin/python3
"""Makes what the tests compare with, by other implementations: OpenSSL's AES, through `cryptography`; Serpent, Twofish
and Camellia of Nettle (libnettle.so.8); Adiantum written out below, on OpenSSL's AES.

    make.py                 writes runs.txt, and prints the self-test's digests (src/self_test.rs)
    make.py ieee            writes ieee1619.rsp
    make.py sp800-38a       writes sp800-38a.rsp
    make.py nist DIRECTORY  writes nist.rsp from NIST's files in DIRECTORY
    make.py gcm DIRECTORY   writes gcm.rsp from NIST's files in DIRECTORY
    make.py adiantum DIRECTORY  writes adiantum.rsp from the authors' files in DIRECTORY

Origins:

- ieee1619.rsp: IEEE Std 1619-2007, Annex B, vectors 1 to 14, whose keys, tweaks and plaintexts
  follow the rules below; the rest of the annex is about ciphertext stealing, which no disk sector
  needs. The ciphertexts are computed here; the first and the last bytes of each were compared
  with the standard's.
- sp800-38a.rsp: NIST SP 800-38A, Appendix F.1 (ECB), F.2 (CBC) and F.5 (CTR), whose keys, IVs and
  plaintext are below. The ciphertexts are computed here; the first block of each was compared with
  the publication's.
- dm-crypt.txt: from the kernel, in a virtual machine; its head says how.
- adiantum.rsp: from the files Adiantum_XChaCha12_32_AES256.json and Adiantum_XChaCha20_32_AES256.json below
  test_vectors/ours/Adiantum of https://github.com/google/adiantum (MIT License), the first vectors of whole blocks with
  tweaks of 32 bytes.
- nist.rsp: from NIST's XTSVS files XTSGenAES128.rsp and XTSGenAES256.rsp, in both forms of tweak,
  as the Python package cryptography-vectors 50.0.2 has them, below ciphers/AES/XTS: of each form,
  key size, direction and length the first 8 vectors of whole blocks. NIST's files are in the
  public domain.
- gcm.rsp: from NIST's GCMVS files gcmEncryptExtIV128.rsp, gcmEncryptExtIV256.rsp, gcmDecrypt128.rsp and
  gcmDecrypt256.rsp, as the same package has them, below ciphers/AES/GCM: of each file and each pair of lengths the
  first 3 vectors with an IV of 96 bits and a tag of 128, and the first that is to fail.
"""

import ctypes
import hashlib
import json
import pathlib
import sys

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

HERE = pathlib.Path(__file__).parent
SECTORS = 40


def aes(key, data):
    return Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(data)


def nettle(set_key, crypt):
    """Encryption in ECB by two functions of Nettle, of which the first may have the key's bits in its name."""
    library = ctypes.CDLL("libnettle.so.8")

    def encrypt(key, data):
        context = ctypes.create_string_buffer(1 << 13)
        result = ctypes.create_string_buffer(len(data))
        sizes = [] if "{}" in set_key else [ctypes.c_size_t(len(key))]
        getattr(library, set_key.format(len(key) * 8))(context, *sizes, key)
        crypt_name = crypt.format(256 if len(key) == 24 else len(key) * 8)
        getattr(library, crypt_name)(context, ctypes.c_size_t(len(data)), result, data)
        return result.raw

    return encrypt


BLOCK_CIPHERS = {
    "aes": aes,
    "serpent": nettle("nettle_serpent_set_key", "nettle_serpent_encrypt"),
    "twofish": nettle("nettle_twofish_set_key", "nettle_twofish_encrypt"),
    "camellia": nettle("nettle_camellia{}_set_encrypt_key", "nettle_camellia{}_crypt"),
}


def ecb(cipher, key, iv, data):
    return BLOCK_CIPHERS[cipher](key, data)


def cbc(cipher, key, iv, data):
    if cipher == "aes":
        return Cipher(algorithms.AES(key), modes.CBC(iv)).encryptor().update(data)
    result = bytearray()
    for at in range(0, len(data), 16):
        iv = ecb(cipher, key, None, xor(data[at : at + 16], iv))
        result += iv
    return bytes(result)


def ctr(cipher, key, iv, data):
    if cipher == "aes":
        return Cipher(algorithms.AES(key), modes.CTR(iv)).encryptor().update(data)
    first = int.from_bytes(iv, "big")
    counters = ((first + n) % (1 << 128) for n in range(len(data) // 16))
    return xor(data, ecb(cipher, key, None, b"".join(n.to_bytes(16, "big") for n in counters)))


def xts(cipher, key, tweak, data):
    if cipher == "aes" and len(key) != 48:
        return Cipher(algorithms.AES(key), modes.XTS(tweak)).encryptor().update(data)
    # OpenSSL has no XTS with AES-192: by IEEE Std 1619, 5.3.2, on the cipher alone.
    half = len(key) // 2
    power = int.from_bytes(ecb(cipher, key[half:], None, tweak), "little")
    tweaks = bytearray()
    for _ in range(0, len(data), 16):
        tweaks += power.to_bytes(16, "little")
        power = (power << 1) ^ (0x87 if power >> 127 else 0)
        power %= 1 << 128
    return xor(ecb(cipher, key[:half], None, xor(data, tweaks)), tweaks)


def lrw(cipher, key, iv, data):
    """Draft 5 of IEEE P1619, section 4, with the product bit by bit."""
    tweak_key = int.from_bytes(key[-16:], "big")
    first = int.from_bytes(iv, "big")
    powers = [tweak_key]
    for _ in range(127):
        power = powers[-1] << 1
        powers.append((power ^ 0x87 if power >> 128 else power) % (1 << 128))
    tweaks = bytearray()
    for n in range(len(data) // 16):
        index = (first + n) % (1 << 128)
        product = 0
        for bit in range(128):
            product ^= powers[bit] if index >> bit & 1 else 0
        tweaks += product.to_bytes(16, "big")
    return xor(ecb(cipher, key[:-16], None, xor(data, tweaks)), tweaks)


def chacha_rounds(state, rounds):
    def quarter(a, b, c, d):
        for one, other, third, turn in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            state[one] = (state[one] + state[other]) % (1 << 32)
            word = state[third] ^ state[one]
            state[third] = (word << turn | word >> 32 - turn) % (1 << 32)

    for _ in range(rounds // 2):
        for n in range(4):
            quarter(n, n + 4, n + 8, n + 12)
        for n in range(4):
            quarter(n, (n + 1) % 4 + 4, (n + 2) % 4 + 8, (n + 3) % 4 + 12)


def words(data):
    return [int.from_bytes(data[at : at + 4], "little") for at in range(0, len(data), 4)]


def xchacha(rounds, key, nonce, length):
    """draft-irtf-cfrg-xchacha, with a number of rounds."""
    constants = words(b"expand 32-byte k")
    state = constants + words(key) + words(nonce[:16])
    chacha_rounds(state, rounds)
    subkey = state[:4] + state[12:]
    stream = b""
    for counter in range(-(-length // 64)):
        start = constants + subkey + [counter, 0] + words(nonce[16:])
        state = list(start)
        chacha_rounds(state, rounds)
        for one, other in zip(start, state):
            stream += ((one + other) % (1 << 32)).to_bytes(4, "little")
    return stream[:length]


def poly1305(point, data):
    point = int.from_bytes(point, "little") & 0x0FFFFFFC0FFFFFFC0FFFFFFC0FFFFFFF
    result = 0
    for at in range(0, len(data), 16):
        result += int.from_bytes(data[at : at + 16], "little") + (1 << 128)
        result = result * point % ((1 << 130) - 5)
    return result


def nh(key, data):
    data = words(data)
    for shift in range(0, 16, 4):
        total = 0
        for at in range(0, len(data), 4):
            k = key[at + shift : at + shift + 4]
            a, b, c, d = ((one + other) % (1 << 32) for one, other in zip(data[at : at + 4], k))
            total += a * c + b * d
        yield (total % (1 << 64)).to_bytes(8, "little")


def adiantum(cipher, key, tweak, data):
    """Crowley and Biggers, "Adiantum", section 2, with XChaCha and AES-256."""
    rounds = {"xchacha12,aes": 12, "xchacha20,aes": 20}[cipher]
    parts = xchacha(rounds, key, b"\1" + bytes(23), 32 + 16 + 16 + 1072)
    nh_key = words(parts[64:])

    def digest(bulk):
        hashes = (b"".join(nh(nh_key, bulk[at : at + 1024])) for at in range(0, len(bulk), 1024))
        header = (8 * len(bulk)).to_bytes(16, "little") + tweak
        return poly1305(parts[32:48], header) + poly1305(parts[48:64], b"".join(hashes))

    bulk, last = data[:-16], int.from_bytes(data[-16:], "little")
    middle = aes(parts[:32], ((last + digest(bulk)) % (1 << 128)).to_bytes(16, "little"))
    bulk = xor(bulk, xchacha(rounds, key, middle + b"\1" + bytes(7), len(bulk)))
    last = (int.from_bytes(middle, "little") - digest(bulk)) % (1 << 128)
    return bulk + last.to_bytes(16, "little")


def xor(one, other):
    number = int.from_bytes(one, "little") ^ int.from_bytes(other, "little")
    return number.to_bytes(len(one), "little")


MODES = {"xts": xts, "cbc": cbc, "ctr": ctr, "ecb": ecb, "lrw": lrw, "adiantum": adiantum}


def essiv_hash(name, data):
    name, _, bits = name.partition("-")
    if name in ("blake2b", "blake2s"):
        return getattr(hashlib, name)(data, digest_size=int(bits) // 8).digest()
    return hashlib.new(name + ("_" + bits if bits else ""), data).digest()


def iv(rule, cipher, mode, key, number, sector):
    """The IV of a sector, by the rules of the kernel's dm-crypt."""
    number %= 1 << 64
    rule, _, options = rule.partition(":")
    if rule == "essiv":
        return ecb(cipher, essiv_hash(options, key), None, number.to_bytes(16, "little"))
    if rule == "eboiv":
        offset = number * sector % (1 << 64)
        return MODES[mode](cipher, key, offset.to_bytes(16, "little"), bytes(16))
    size = 32 if mode == "adiantum" else 16
    block = 1 if mode == "ctr" else 16
    return {
        "": bytes(size),
        "null": bytes(size),
        "plain": (number % (1 << 32)).to_bytes(size, "little"),
        "plain64": number.to_bytes(size, "little"),
        "plain64be": number.to_bytes(size, "big"),
        "benbi": ((number * (512 // block) + 1) % (1 << 64)).to_bytes(size, "big"),
    }[rule]


def key(size):
    return bytes((i * 37 % 256) ^ 0x5A for i in range(size))


def plaintext(size):
    return bytes((i * 7 + i // 251) % 256 for i in range(size))


def encrypt(cipher, mode, rule, key_size, sector, step, first, sectors):
    """The ciphertext of a run of `plaintext`, sector by sector."""
    data = plaintext(sectors * sector)
    whole_key = key(key_size)
    return b"".join(
        MODES[mode](
            cipher,
            whole_key,
            iv(rule, cipher, mode, whole_key, first + n * step, sector),
            data[n * sector : (n + 1) * sector],
        )
        for n in range(sectors)
    )


FIRSTS = 0, (1 << 32) - 16, (1 << 64) - 16
KEYS = 16, 24, 32
HASHES = "sha256", "sha3-256", "blake2b-256", "blake2s-256", "blake2s-128", "sm3"


def key_sizes(mode):
    return {
        "xts": [size * 2 for size in KEYS],
        "lrw": [size + 16 for size in KEYS],
        "adiantum": [32],
    }.get(mode, KEYS)


def run(cipher, mode, rule, key_size, sector, step):
    digest = hashlib.sha256()
    for first in FIRSTS:
        digest.update(encrypt(cipher, mode, rule, key_size, sector, step, first, SECTORS))
    spec = f"{cipher}-{mode}" + (f"-{rule}" if rule else "")
    return f"{spec} {key_size} {sector} {step} {digest.hexdigest()}"


def runs():
    yield f"# Made by make.py: SHA-256 of the ciphertexts of three runs of {SECTORS} sectors each."
    yield f"# Their first IV sectors are {FIRSTS[0]}, {FIRSTS[1]} and {FIRSTS[2]}."
    yield "# specification, key bytes, sector bytes, IV sectors per sector, digest"
    for mode in ("xts", "cbc", "ctr", "ecb"):
        for rule in rules(mode):
            for size in key_sizes(mode):
                for sector in (512, 1024, 2048, 4096):
                    for step in sorted({1, sector // 512}):
                        yield run("aes", mode, rule, size, sector, step)
    for name in HASHES[1:]:
        yield run("aes", "cbc", f"essiv:{name}", 32, 512, 1)
    yield from (run("aes", *case) for case in pairs("lrw"))
    for cipher in ("serpent", "twofish", "camellia"):
        for mode in ("xts", "cbc", "ctr", "ecb", "lrw"):
            yield from (run(cipher, *case) for case in pairs(mode))
    for cipher in ("xchacha12,aes", "xchacha20,aes"):
        yield from (run(cipher, *case) for case in pairs("adiantum"))


def rules(mode):
    if mode == "ecb":
        return [""]
    numbers = ["null", "plain", "plain64", "plain64be", "benbi"]
    if mode == "adiantum":
        return numbers
    return numbers + ["essiv:sha256"] + ([] if mode == "ctr" else ["eboiv"])


def pairs(mode):
    """Every IV with every size of key, and sectors of every size in turn."""
    sectors = (512, 1), (4096, 8), (1024, 2), (2048, 1)
    number = 0
    for rule in rules(mode):
        for size in key_sizes(mode):
            yield mode, rule, size, *sectors[number % len(sectors)]
            number += 1


def fnv1a(data):
    digest = 0xCBF29CE484222325
    for byte in data:
        digest = ((digest ^ byte) * 0x100000001B3) % (1 << 64)
    return digest


def self_test():
    ciphers = [(cipher, mode) for cipher in BLOCK_CIPHERS for mode in ("xts", "cbc", "ctr", "ecb", "lrw")]
    ciphers += [(f"xchacha{rounds},aes", "adiantum") for rounds in (12, 20)]
    for cipher, mode in ciphers:
        for size in key_sizes(mode):
            data = encrypt(cipher, mode, "plain64", size, 512, 1, 0x1FFFFFFF0, 17)
            yield f"{mode}({cipher}) {size}: {fnv1a(data):#018x}"
    yield f"ecb(cipher_null) 0: {fnv1a(plaintext(17 * 512)):#018x}"
    for size in (16, 32):
        key = bytes(i ^ 0x5A for i in range(size))
        message = bytes((i * 7 + i // 251) & 255 for i in range(1105))
        sealed = AESGCM(key).encrypt(b"twelve bytes", message, b"a header of 21 bytes.")
        yield f"gcm(aes) {size}: tag {sealed[-16:].hex()}"


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
            yield f"CT = {MODES[mode]('aes', bytes.fromhex(one), iv, data).hex()}"


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
        data = xts("aes", e + pi, tweak.to_bytes(16, "little"), data)
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
            yield f"CT = {xts('aes', whole_key, tweak, data).hex()}"


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


def gcm_file(directory):
    yield "# A part of NIST's GCMVS vectors; see make.py."
    for name in ("gcmEncryptExtIV128", "gcmEncryptExtIV256", "gcmDecrypt128", "gcmDecrypt256"):
        taken = {}
        lengths = {}
        text = pathlib.Path(directory, name + ".rsp").read_text().replace("\r", "")
        for record in text.split("\n\n"):
            lines = [line.strip() for line in record.split("\n") if line and line[0] != "#"]
            for line in lines:
                if line[0] == "[":
                    what, bits = line.strip("[]").split(" = ")
                    lengths[what] = int(bits)
            if not lines or lines[0][0] == "[" or (lengths["IVlen"], lengths["Taglen"]) != (96, 128):
                continue
            kind = lengths["PTlen"], lengths["AADlen"], "FAIL" in lines
            if taken.get(kind, 0) == (1 if "FAIL" in lines else 3):
                continue
            taken[kind] = taken.get(kind, 0) + 1
            yield ""
            yield f"# {name}.rsp"
            yield from lines


def adiantum_file(directory):
    yield "# Vectors of Adiantum's authors; see make.py."
    for rounds in (12, 20):
        file = pathlib.Path(directory, f"Adiantum_XChaCha{rounds}_32_AES256.json")
        left = {16: 3, 128: 2, 512: 2, 1536: 1, 4096: 1}
        for vector in json.loads(file.read_text()):
            tweak, plain = vector["input"]["tweak_hex"], vector["plaintext_hex"]
            if len(tweak) != 64 or not left.get(len(plain) // 2):
                continue
            left[len(plain) // 2] -= 1
            yield ""
            yield f"Rounds = {rounds}"
            yield f"Key = {vector['input']['key_hex']}"
            yield f"Tweak = {tweak}"
            yield f"PT = {plain}"
            yield f"CT = {vector['ciphertext_hex']}"


def write(name, lines):
    HERE.joinpath(name).write_text("\n".join(lines) + "\n")


if sys.argv[1:] == ["ieee"]:
    write("ieee1619.rsp", ieee_file())
elif sys.argv[1:] == ["sp800-38a"]:
    write("sp800-38a.rsp", sp800_38a_file())
elif sys.argv[1:2] == ["nist"] and len(sys.argv) == 3:
    write("nist.rsp", nist_file(sys.argv[2]))
elif sys.argv[1:2] == ["gcm"] and len(sys.argv) == 3:
    write("gcm.rsp", gcm_file(sys.argv[2]))
elif sys.argv[1:2] == ["adiantum"] and len(sys.argv) == 3:
    write("adiantum.rsp", adiantum_file(sys.argv[2]))
elif not sys.argv[1:]:
    write("runs.txt", runs())
    print("\n".join(self_test()))
else:
    sys.exit(__doc__)
