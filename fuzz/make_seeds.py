#!/usr/bin/env python3
"""Writes the seeds: headers that cryptsetup makes, and sessions and texts as clients and users send
them. Needs cryptsetup, mke2fs and nothing else.

    python3 fuzz/make_seeds.py
"""

import base64
import itertools
import json
import ssl
import struct
import subprocess
import tempfile
from pathlib import Path

SEEDS = Path(__file__).resolve().parent / "seeds"
KEY = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"


def seed(target, name, data):
    folder = SEEDS / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data if isinstance(data, bytes) else data.encode())


def header(folder, *options):
    """An image that cryptsetup formatted."""
    image = Path(folder, "image")
    image.unlink(missing_ok=True)
    with open(image, "wb") as file:
        file.truncate(32 << 20)
    cryptsetup("luksFormat", "--batch-mode", "--key-file", "key", *options, "image", folder=folder)
    return image


def cryptsetup(*arguments, folder):
    subprocess.run(["cryptsetup", *arguments], cwd=folder, check=True)


def luks(folder):
    Path(folder, "key").write_text("correct horse")
    cheap = ["--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000"]
    for name, options in {
        "aes-xts": [],
        "aes-cbc-essiv": ["--cipher", "aes-cbc-essiv:sha256", "--key-size", "128", "--hash", "sha1"],
    }.items():
        image = header(folder, "--type", "luks1", *cheap[2:], *options)
        seed("luks1_header", name, image.read_bytes()[8:592])
    argon2 = ["--pbkdf-force-iterations", "4", "--pbkdf-memory", "32", "--pbkdf-parallel", "1"]
    for name, options in {
        "pbkdf2": cheap,
        "argon2id": argon2,
        "argon2i-4096": ["--pbkdf", "argon2i", *argon2, "--sector-size", "4096"],
        "labelled": [*cheap, "--label", "a label", "--subsystem", "a subsystem"],
    }.items():
        image = header(folder, "--type", "luks2", *options)
        if name == "labelled":
            cryptsetup("token", "add", "--key-description", "x", "image", folder=folder)
            cryptsetup("config", "--priority", "prefer", "--key-slot", "0", "image", folder=folder)
        raw = image.read_bytes()[: 32 << 10]
        seed("luks2_json", name, raw[4096 : raw.index(b"\0", 4096)])
        seed("luks2_binary", name, raw[:512] + raw[0x4000 : 0x4000 + 512])
    document = json.loads((SEEDS / "luks2_json" / "labelled").read_text())
    document["config"]["flags"] = ["allow-discards", "no-read-workqueue"]
    document["config"]["requirements"] = {"mandatory": ["online-reencrypt-v2"]}
    document["segments"]["1"] = {**document["segments"]["0"], "flags": ["backup-final"]}
    document["segments"]["0"]["integrity"] = {
        "type": "hmac(sha256)", "journal_encryption": "none", "journal_integrity": "none"
    }
    document["keyslots"]["7"] = {
        "type": "reencrypt", "key_size": 1, "mode": "encrypt", "direction": "forward",
        "area": {"type": "none", "offset": "290816", "size": "4096"},
    }
    seed("luks2_json", "reencrypt", json.dumps(document, separators=(",", ":")))
    numbers = "[0.1,-0.0,1e20,5e-324,2.2250738585072011e-308,1.7976931348623157e308,7.2057594037927933e16,-9223372036854775809]"
    plain = (SEEDS / "luks2_json" / "pbkdf2").read_text()
    token = '"tokens":{"0":{"type":"x","keyslots":[],"n":%s}}' % numbers
    seed("luks2_json", "numbers", plain.replace('"tokens":{}', token))


def texts():
    seed("table_lines", "crypt", f"0 2048 crypt aes-xts-plain64 {KEY} 0 /dev/sdb1 32768 2 allow_discards sector_size:4096\n")
    seed("table_lines", "more", "0 8 linear /tmp/a\\ b\\\\c 8\n8 1 zero\n\n9 7 error\n")
    seed("table_lines", "null", "0 8 crypt cipher_null-ecb - 0 /x 0 1 iv_large_sectors\n")
    seed("table_lines", "flags", f"0 8 crypt aes {KEY} 8 /x 8 5 same_cpu_crypt submit_from_crypt_cpus no_read_workqueue no_write_workqueue high_priority\n")
    seed("table_lines", "added", f"0 8 crypt aes {KEY} 8 /x 8 1 sector_size:4096 2 force_inline allow_discards\n")
    specs = [
        "aes", "aes-plain", "aes-xts-plain64", "aes-xts-plain64be", "aes-cbc-essiv:sha256", "aes-ctr-benbi",
        "aes-cbc-eboiv", "aes-ecb", "cipher_null-ecb", "aes-cbc-essiv:streebog256",
        "capi:xts(aes)-plain64", "capi:essiv(cbc(aes),sha256)-plain64", "capi:xts-aes-portable-plain64",
        "capi:ecb(cipher_null)-null",
    ]
    for number, spec in enumerate(specs):
        seed("cipher_specs", f"{number:02}", spec)
    for driver in range(4):
        for length in (0, 15, 256, 1100):
            start = bytes([length % 2, driver, 13, 5 * driver, length % 251])
            seed("gcm", f"{driver}-{length}", start + bytes(i % 251 for i in range(13 + length)))
    words = ["status", "statistics", "table", "table-showkeys", "inactive", "inactive-showkeys"]
    for word in [*words, "suspend", "forget", "resume", "release", "clear", "close", "close-force", "close-deferred", "close-cancel"]:
        seed("control_requests", word, f"scrim 1 {word}\n")
    with_values = [
        "hold 60", "resume-key 64", "resize 8", "reload 100", "reload-force 1048576", "refresh queued 010001",
        "header 0 4096", "mount 100", "umount 100",
    ]
    for words in with_values:
        seed("control_requests", words.split()[0], f"scrim 1 {words}\n")


def sif(objects):
    """A SIF whose descriptors follow its header, with objects of 512 bytes."""
    data = -(-(128 + 4 * 585) // 512) * 512
    header = b"#!/usr/bin/env run-singularity\n".ljust(32, b"\0") + b"SIF_MAGIC\x0001\x0002\0" + bytes(16)
    header += struct.pack("<8q", 0, 0, 4 - len(objects), 4, 128, 4 * 585, data, 512 * len(objects))
    descriptors = b""
    for number, (kind, link, extra) in enumerate(objects):
        place = data + 512 * number
        descriptors += struct.pack("<IBIII7q", kind, 1, number + 1, 0xF0000001, link, place, 512, 512, 0, 0, 0, 0).ljust(201, b"\0")
        descriptors += struct.pack("<II", *extra).ljust(384, b"\0")
    return (header + descriptors).ljust(data, b"\0") + bytes(512 * len(objects))


def parts():
    system, key = (0x4004, 0, (5, 2)), (0x4008, 2, (2, 0x200))
    seed("sif", "sealed", sif([(0x4001, 0, (0, 0)), system, key]))
    seed("sif", "several", sif([(0x4004, 0, (5, 3)), (0x4004, 0, (5, 4))]))
    seed("sif", "plain", sif([(0x4004, 0, (1, 2))]))

    def entry(kind, start, count):
        return struct.pack("<4xB3xII", kind, start, count)

    def sector(*entries):
        return bytes(446) + b"".join(entries).ljust(64, b"\0") + b"\x55\xaa"

    link = sector(entry(0x83, 1, 3), entry(5, 4, 4)).ljust(2048, b"\0") + sector(entry(0x83, 1, 2))
    table = sector(entry(0x83, 1, 3), entry(5, 8, 32)).ljust(4096, b"\0")
    # The last quarter of an input is the end of the disk.
    seed("partition_tables", "mbr", b"\0" + (table + link).ljust(16000, b"\0"))
    for size in (512, 4096):
        header = b"EFI PART" + struct.pack("<IIII4Q16xQIII", 0x10000, 92, 0, 0, 1, 0, 3, 20, 2, 3, 128, 0)
        entries = struct.pack("<16s16sQQ80x", b"t" * 16, b"u" * 16, 4, 5) + bytes(128)
        entries += struct.pack("<16s16sQQ80x", b"t" * 16, b"u" * 16, 8, 9)
        start = sector(entry(0xEE, 1, 0xFFFFFFFF)).ljust(size, b"\0") + header.ljust(size, b"\0") + entries
        seed("partition_tables", f"gpt-{size}", b"\1" + start + bytes(-(-len(start) // 3)))


def option(code, data=b""):
    return b"IHAVEOPT" + struct.pack(">II", code, len(data)) + data


def counted(text):
    return struct.pack(">I", len(text)) + text


def query(name, *kinds):
    return counted(name) + struct.pack(f">H{len(kinds)}H", len(kinds), *kinds)


def contexts(name, *names):
    return counted(name) + struct.pack(">I", len(names)) + b"".join(map(counted, names))


def nbd():
    fixed = struct.pack(">I", 3)
    seed("nbd_handshake", "go", fixed + option(8) + option(10, contexts(b"large", b"base:allocation")) + option(7, query(b"large", 0, 1, 2, 3)))
    seed("nbd_handshake", "list", fixed + option(3) + option(6, query(b"")) + option(9, contexts(b"")) + option(2))
    seed("nbd_handshake", "old", struct.pack(">I", 1) + option(5) + option(99, b"x") + option(1, b"plain"))
    seed("nbd_handshake", "contexts", fixed + option(8) + option(9, contexts(b"plain", b"base:", b"qemu:x")) + option(6, query(b"nobody")))
    half, size = 160 << 10, 320 << 10
    cookies = itertools.count(1)

    def request(kind, offset=0, length=0, flags=0):
        return struct.pack(">IHHQQI", 0x25609513, flags, kind, next(cookies), offset, length)

    data = [
        request(1, 512, 4096), request(0, 0, 8192), request(1, 1000, half, 1), request(0, 3, half),
        request(3), request(6, 4096, 20000), request(0, 0, size), request(7, 0, 4096),
        request(5, 0, size), request(4, 0, 8192, 1), request(0, 0, 100), request(2),
    ]
    odd = [
        request(0, size - 1, 2), request(1, size, 512), request(9), request(0, 0, 0), request(6, 0, 512, 16),
        request(0, 0, 512, 4), request(7, 0, 512, 8), request(3, 1, 1), request(0, 0, 1 << 31), request(1, 0, 1 << 30),
    ]
    for choice in range(4):
        seed("nbd_transmission", f"data-{choice}", bytes([choice]) + b"".join(data))
        seed("nbd_transmission", f"odd-{choice}", bytes([choice]) + b"".join(odd))


def nbd_client():
    """What servers say: the greeting, replies to NBD_OPT_GO or none, and replies to requests."""

    def reply(kind, data=b""):
        return struct.pack(">QIII", 0x3E889045565A9, 7, kind, len(data)) + data

    greeting = b"NBDMAGICIHAVEOPT"
    export = reply(3, struct.pack(">HQH", 0, 1 << 30, 0x16F))
    blocks = reply(3, struct.pack(">HIII", 3, 512, 4096, 1 << 25))
    replies = b"".join(struct.pack(">IIQ", 0x67446698, error, 1 << 32) for error in (0, 5, 28, 108))
    name = reply(3, struct.pack(">H", 1) + b"disk")
    seed("nbd_client", "go", greeting + b"\0\3" + export + name + blocks + reply(1) + replies)
    seed("nbd_client", "old", greeting + b"\0\0" + struct.pack(">QH", 1 << 20, 5) + bytes(124) + replies)
    seed("nbd_client", "unsupported", greeting + b"\0\3" + reply(1 << 31 | 1) + struct.pack(">QH", 512, 1))
    seed("nbd_client", "refused", greeting + b"\0\3" + reply(1 << 31 | 6, b"no such export"))
    for number, uri in enumerate([
        "nbd://example.com:10809/disk", "nbds://[2001:db8::1]/a%20b", "nbd+unix:///disk?socket=/run/a%3Fb",
        "nbds+unix://?socket=s", "NBD://[fe80::1%25eth0]:1//",
        "nbds://h/?tls-type=x509&tls-certificates=/a%20b&tls-hostname=example.com&tls-verify-peer=0",
        "nbds+unix:///?socket=s;tls-hostname=::1;tls-verify-peer=true", "nbds://h/?tls-psk-file=p&tls-username=u",
    ]):
        seed("nbd_uris", str(number), uri)
    for number, name in enumerate([
        "rbd:pool/image", "RBD:pool/space/image@snapshot?conf=/etc/ceph/a%20b.conf&id=disk", "rbd:p/i?id=%41&conf=c",
        "rbd:p/i:conf=c:id=x", "rbd:p//i", "rbd:p/i@", "rbd:p/i?id=client.a", "rbd:p/i?id=%0",
    ]):
        seed("rbd_names", str(number), name)


def fuse():
    """What the kernel sends: a look at the folder, reads and writes of the file, and everything else once."""

    def request(opcode, node, body=b""):
        return struct.pack("<IIQQIIII", 40 + len(body), opcode, opcode << 1, node, 1000, 1000, 1, 0) + body

    def data(opcode, node, offset, size, payload=b""):
        return request(opcode, node, struct.pack("<QQIIQII", 0, offset, size, 0, 0, 0, 0) + payload)

    def allocate(offset, length, mode):
        return request(43, 2, struct.pack("<QQQII", 0, offset, length, mode, 0))

    words = struct.pack("<QQQ", 0, 0, 0)
    look = [request(1, 1, b"disk\0"), request(1, 1, b"..\0"), request(3, 2, words), request(27, 1, bytes(8)),
            data(28, 1, 0, 4096), data(44, 1, 1, 4096), request(29, 1, words)]
    io = [request(14, 2, bytes(8)), data(16, 2, 512, 5, b"hello"), data(15, 2, 0, 4096), data(16, 2, 65533, 6, b"behind"),
          data(15, 2, 65000, 1 << 20), request(20, 2, words), request(25, 2, words), request(18, 2, words)]
    odd = [allocate(4096, 4096, 0x11), allocate(65000, 1 << 40, 0x11), allocate(0, 4096, 3), allocate(0, 1 << 63, 0),
           request(46, 2, struct.pack("<QQII", 0, 5, 3, 0)), request(4, 2, struct.pack("<IIQQ", 8, 0, 0, 65536) + bytes(64)),
           request(42, 1, struct.pack("<IIQQ", 1, 0, 2, 1)), request(26, 0, struct.pack("<IIII", 7, 45, 1 << 17, 1 << 22)),
           request(36, 0, bytes(8)), request(17, 1), request(38, 1), data(16, 2, 0, 1 << 30, b"short")]
    seed("fuse_requests", "look", b"".join(look))
    seed("fuse_requests", "data", b"".join(io))
    seed("fuse_requests", "odd", b"".join(odd))


def http():
    """What clients of HTTP/1 send: heads and content, and the parts of heads that decide about an answer."""
    get = "GET /a%20b?c HTTP/1.1\r\nHost: example.org:8443\r\n"
    for name, text in {
        "get": get + "Range: bytes=0-1\r\nIf-None-Match: \"a\"\r\nConnection: close\r\n\r\nGET",
        "absolute": "HEAD https://[::1]:1/a HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n",
        "options": "\r\nOPTIONS * HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
        "length": get + "Content-Length: 5\r\n\r\nabcdeGET",
        "chunked": get + "Transfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nDigest: x\r\n\r\nGET",
        "doubtful": get + "Transfer-Encoding: gzip, chunked\r\nContent-Length: 5\r\nX : y\n z\r\n\r\n",
    }.items():
        seed("http_heads", name, text)
    for name, text in {
        "one": "bytes=2-4", "from": "bytes=5-", "last": "bytes=-3", "some": "bytes=0-0, 4-5,,-1", "touching": "bytes=0-1,2-3",
    }.items():
        seed("http_ranges", name, struct.pack("<Q", 10) + text.encode())
    date = "Sun, 06 Nov 1994 08:49:37 GMT"
    for name, lines in {
        "range": ["bytes=2-4", date], "parts": ["bytes=0-0,-1"], "match": ["", "", "\"a\", W/\"b\"", "*"],
        "since": ["", "", "", "", date, "Sunday, 06-Nov-94 08:49:36 GMT"], "far": ["bytes=99-"],
        "coding": ["", "", "", "", "", "", "br;q=0.5, gzip;q=1.0, identity;q=0, *;q=0", "application/json"],
    }.items():
        seed("http_fields", name, "\n".join(lines))
    for number, target in enumerate([
        "/", "/f", "/a", "/a/b/?x", "/a/../f", "/%2e%2e/f", "/..%2ff", "/i/f", "/o/f", "/p/etc/passwd", "//a", "/h", "/.h",
        "/a/i/f", "/f%00", "/a/./b/.%2E/f",
    ]):
        seed("http_paths", str(number), target)
def tls():
    """The first messages of clients, by Python's OpenSSL, and what clients say after the handshake."""

    def hello(most):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.maximum_version = most
        context.set_alpn_protocols(["h2", "http/1.1"])
        outgoing = ssl.MemoryBIO()
        client = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="files.example")
        try:
            client.do_handshake()
        except ssl.SSLWantReadError:
            return outgoing.read()

    def say(action, inside):
        return struct.pack(">BB", action, len(inside)) + inside

    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        first = hello(version)
        for piece in (0, 255):
            seed("tls_handshake", f"{version.name}-{piece}", bytes([piece]) + first)
        change = bytes.fromhex("140303000101")
        seed("tls_handshake", f"{version.name}-more", b"\xff" + first + change + first)
    update, goodbye = b"\x18\0\0\1", b"\1\0"
    for suite in range(3):
        talk = say(0, b"GET /\x17") + say(0, update + b"\1\x16") + say(0, b"padded\x17\0\0")
        end = say(0, update + b"\0\x16") + say(0x81, b"x\x17") + say(0, b"\x17") + say(0, goodbye + b"\x15")
        seed("tls_records", f"13-{suite}", bytes([suite]) + talk + end)
        talk = say(0, b"GET /") + say(0x43, b"\1\0\0\2\3\3") + say(0x42, b"\1\x29")
        seed("tls_records", f"12-{suite}", bytes([3 + suite]) + talk + say(0, b"") + say(0x42, goodbye))
    seed("tls_records", "raw", b"\0" + say(0xFF, bytes.fromhex("1703030020") + bytes(32)))


def tickets():
    """Files of ticket keys, and changes of tickets."""
    keys = [base64.b64encode(bytes([number]) * 32).decode() for number in range(17)]
    for name, lines in {
        "none": ["# none"], "one": keys[:1], "comments": ["# ours", keys[0], "", keys[1] + "\r", "# more", keys[2]],
        "most": keys[:16], "too-many": keys, "twice": [*keys[:3], keys[1]], "odd": [keys[0].replace("A=", "B=")],
        "short": [keys[0], base64.b64encode(bytes(31)).decode()],
    }.items():
        seed("ticket_keys", name, "\n".join(lines) + "\n")
    for change in range(8):
        seed("tickets", f"change-{change}", struct.pack("<BHQi", change, 300 * change + 5, 1_800_000_000, 60) + b"a session")
    for name, made, age in [("oldest", 9, 43200), ("too-old", 9, 43201), ("ahead", 1000, -300), ("too-far", 1000, -301)]:
        seed("tickets", name, struct.pack("<BHQi", 0, 0, made, age))
    for name, length in [("longest", 1996), ("too-long", 1997)]:
        seed("tickets", name, struct.pack("<BHQi", 6, 0, 9, 0) + bytes(length))


def ext4(folder):
    """Small file systems, as the places of what is not zero."""
    tree = Path(folder, "tree")
    (tree / "d/e").mkdir(parents=True)
    (tree / "d/f").write_text("file" * 20)
    (tree / "d/e/g").write_text("0123456789" * 150)
    with open(tree / "sparse", "wb") as file:
        file.write(b"start")
        file.seek(20_000)
        file.write(b"end")
    for name, target in {"short": "d/f", "long": "d/" * 40 + "..", "loop": "loop", "up": "../d"}.items():
        (tree / name).symlink_to(target)
    for number in range(12):
        (tree / f"d/e/a long enough name for {number}").touch()
    none = "^has_journal,^resize_inode,^metadata_csum"
    for name, options in {
        "extents": ["-t", "ext4", "-O", none],
        "inline": ["-t", "ext4", "-O", f"{none},inline_data", "-I", "256"],
        "maps": ["-t", "ext2", "-O", "^resize_inode,^dir_index", "-I", "128"],
        "groups": ["-t", "ext4", "-O", f"{none},meta_bg,bigalloc", "-C", "4096"],
        "checked": ["-t", "ext4", "-O", "^has_journal,^resize_inode,metadata_csum"],
    }.items():
        image = Path(folder, "ext4.img")
        image.unlink(missing_ok=True)
        with open(image, "wb") as file:
            file.truncate(256 << 10)
        subprocess.run(
            ["mke2fs", "-q", "-F", "-b", "1024", "-N", "64", *options, "-d", tree, image], check=True
        )
        seed("ext4_files", name, sparse(image.read_bytes()))
    indexed(folder)


def indexed(folder):
    """A folder with an index."""
    tree = Path(folder, "indexed")
    (tree / "many").mkdir(parents=True)
    for number in range(70):
        (tree / f"many/a name of a length that fills a few blocks, {number}").touch()
    image = Path(folder, "indexed.img")
    with open(image, "wb") as file:
        file.truncate(256 << 10)
    options = ["-t", "ext4", "-b", "1024", "-N", "128", "-O", "^has_journal,^resize_inode,^metadata_csum"]
    subprocess.run(["mke2fs", "-q", "-F", *options, "-d", tree, image], check=True)
    # Its code says that it has changed something.
    code = subprocess.run(["e2fsck", "-fyD", image], stdout=subprocess.DEVNULL).returncode
    assert code in (0, 1), code
    seed("ext4_files", "indexed", sparse(image.read_bytes()))


def sparse(image):
    """Offset, length and bytes of what is neither zero nor, as in bitmaps, all ones."""
    parts, at = [], 0
    while at < len(image):
        block = image[at : at + 1024]
        if at % 1024 == 0 and block.count(255) > 800:
            at += 1024
            continue
        if image[at] == 0:
            at += 1
            continue
        end = at
        while end < len(image) and end - at < 255 and any(image[end : end + 6]):
            end += 1
        parts.append(struct.pack("<I", at)[:3] + bytes([end - at]) + image[at:end])
        at = max(end, at + 1)
    return b"".join(parts)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        luks(folder)
        ext4(folder)
    texts()
    parts()
    nbd()
    nbd_client()
    fuse()
    http()
    tls()
    tickets()
