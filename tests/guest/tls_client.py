# A client for what curl and openssl do not do:
# `python3 tls_client.py pipelined|split|garbled|dataless|records|stalled|many ...`.

import ctypes
import hashlib
import hmac
import selectors
import socket
import ssl
import sys
import tempfile
import time

ADDRESS = ("127.0.0.1", 8443)
CHANGE_CIPHER_SPEC, ALERT, HANDSHAKE, DATA = 20, 21, 22, 23

# Most bytes of plaintext in a record.
PLAIN_MAX = 1 << 14
# Seconds that the server has for each step; an emulated machine is slow.
PATIENCE = 60


def context():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def only(version):
    """By this version alone."""
    maker = context()
    maker.minimum_version = maker.maximum_version = getattr(ssl.TLSVersion, version)
    return maker


def request(path, last=False):
    end = "Connection: close\r\n" if last else ""
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{end}\r\n".encode()


class Memory:
    """A session whose records are moved by hand."""

    def __init__(self, context):
        self.inward, self.outward = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.inward, self.outward, server_hostname="localhost")
        self.socket = socket.create_connection(ADDRESS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.settimeout(PATIENCE)
        # The server's first flight, from its first byte on.
        self.first = b""

    def shake_hands(self):
        """Up to the client's last message, which is not sent."""
        while True:
            try:
                return self.tls.do_handshake()
            except ssl.SSLWantReadError:
                self.send(self.outward.read())
                received = self.socket.recv(65536)
                self.first = self.first or received
                self.inward.write(received)

    def take(self):
        """Whether something more has come."""
        received = self.socket.recv(65536)
        self.inward.write(received)
        return bool(received)

    def send(self, records):
        self.socket.sendall(records)

    def read_to(self, end):
        """All data up to these bytes."""
        data = bytearray()
        while not data.endswith(end):
            try:
                data += self.tls.read(65536)
            except ssl.SSLWantReadError:
                assert self.take(), f"it ended after {len(data)} bytes"

    def ends_by(self, alert):
        """The connection ends by this alert, and is not reset: that would raise an error."""
        try:
            data, whole = self.read_to_the_end()
        except ssl.SSLError as error:
            assert alert in error.reason, error
        else:
            raise AssertionError(f"{len(data)} bytes, {whole}, and not {alert}")
        while self.socket.recv(65536):
            pass
        self.socket.close()

    def read_to_the_end(self):
        """All data, and whether close_notify was behind it."""
        data = b""
        while True:
            try:
                piece = self.tls.read(65536)
                if not piece:
                    return data, True
                data += piece
            except ssl.SSLZeroReturnError:
                return data, True
            except ssl.SSLWantReadError:
                if not self.take():
                    return data, False


def pipelined(version, path, contents, way):
    """Requests right behind the handshake: in the same packet, or cut in the middle of a record."""
    session = Memory(only(version))
    session.shake_hands()
    last = session.outward.read()
    if version == "TLSv1_2":
        # The server has the last word there; what is sent now is behind the handshake all the same.
        session.send(last)
        last = b""
    session.tls.write(request(path))
    session.tls.write(request(path, last=True))
    records = last + session.outward.read()
    if way == "together":
        session.send(records)
    else:
        # Each byte in a packet of its own, from the handshake's last record on.
        for byte in records:
            session.send(bytes([byte]))
    data, whole = session.read_to_the_end()
    expected = open(contents, "rb").read()
    assert data.count(expected) == 2, f"{version} {way}: {len(data)} bytes, {data.count(expected)} files"
    assert whole, f"{version} {way}: without close_notify"


def split(version, path, contents, seconds):
    """The first request's record comes in two pieces, so long apart; the first with the end of TLS 1.3's handshake."""
    session = Memory(only(version))
    session.shake_hands()
    last = session.outward.read()
    session.tls.write(request(path, last=True))
    records = last + session.outward.read()
    session.send(records[:-7])
    time.sleep(float(seconds))
    session.send(records[-7:])
    data, whole = session.read_to_the_end()
    assert whole and data.endswith(open(contents, "rb").read()), f"{version}: {len(data)} bytes, {whole}"


def garbled(version, path, contents, way):
    """A record that was changed on the way, or is none, behind one that was not: a while later, or in one flight."""
    session = Memory(only(version))
    session.shake_hands()
    session.send(session.outward.read())
    session.tls.write(request(path))
    good = session.outward.read()
    session.tls.write(request(path))
    bad = bytearray(session.outward.read())
    if way == "no-record":
        bad[1:3] = b"\x09\x09"
        alert = "PROTOCOL_VERSION"
    else:
        bad[-1] ^= 1
        alert = "BAD_RECORD_MAC"
    session.send(good if way == "later" else good + bad)
    session.read_to(open(contents, "rb").read())
    if way == "later":
        session.send(bad)
    session.ends_by(alert)


def record(kind, body):
    """A record as it goes over the wire."""
    return bytes([kind, 3, 3]) + len(body).to_bytes(2, "big") + body


class Sealer:
    """Makes a client's records by hand, with AES-128-GCM: RFC 8446, section 5.2; RFC 5288, section 3."""

    def __init__(self, version, key, iv, number):
        self.version, self.key, self.iv, self.number = version, key, iv, number
        self.crypto = ctypes.CDLL("libcrypto.so.3")
        self.crypto.EVP_CIPHER_CTX_new.restype = ctypes.c_void_p
        self.crypto.EVP_aes_128_gcm.restype = ctypes.c_void_p
        self.context = ctypes.c_void_p(self.crypto.EVP_CIPHER_CTX_new())

    @staticmethod
    def of_tls13(secret):
        """The client's first one after a handshake: RFC 8446, section 7.3."""

        def expand(label, length):
            label = b"tls13 " + label
            info = length.to_bytes(2, "big") + bytes([len(label)]) + label + b"\x00\x01"
            return hmac.digest(secret, info, hashlib.sha256)[:length]

        return Sealer("TLSv1_3", expand(b"key", 16), expand(b"iv", 12), 0)

    @staticmethod
    def of_tls12(master, client_random, server_random):
        """The client's, behind its Finished: RFC 5246, section 6.3."""
        seed = b"key expansion" + server_random + client_random
        link, block = seed, b""
        while len(block) < 40:
            link = hmac.digest(master, link, hashlib.sha256)
            block += hmac.digest(master, link + seed, hashlib.sha256)
        return Sealer("TLSv1_2", block[:16], block[32:36], 1)

    def seal(self, kind, content, padding=0):
        number, self.number = self.number, self.number + 1
        if self.version == "TLSv1_3":
            return self.seal_inner(number, content + bytes([kind]) + bytes(padding))
        explicit = number.to_bytes(8, "big")
        known = explicit + bytes([kind, 3, 3]) + len(content).to_bytes(2, "big")
        return record(kind, explicit + self.encrypt(self.iv + explicit, known, content))

    def seal_inner(self, number, inner):
        """A record of TLS 1.3 with this inside, its kind included."""
        known = b"\x17\x03\x03" + (len(inner) + 16).to_bytes(2, "big")
        nonce = int.from_bytes(self.iv, "big") ^ number
        return record(DATA, self.encrypt(nonce.to_bytes(12, "big"), known, inner))

    def encrypt(self, nonce, known, plain):
        out, tag, count = ctypes.create_string_buffer(len(plain)), ctypes.create_string_buffer(16), ctypes.c_int()
        crypto, context, count = self.crypto, self.context, ctypes.byref(count)
        cipher = ctypes.c_void_p(crypto.EVP_aes_128_gcm())
        done = crypto.EVP_EncryptInit_ex(context, cipher, None, self.key, nonce)
        done &= crypto.EVP_EncryptUpdate(context, None, count, known, len(known))
        done &= crypto.EVP_EncryptUpdate(context, out, count, plain, len(plain))
        done &= crypto.EVP_EncryptFinal_ex(context, None, count)
        done &= crypto.EVP_CIPHER_CTX_ctrl(context, 0x10, 16, tag)
        assert done == 1
        return out.raw + tag.raw


def by_hand(version, path, expected):
    """A session whose first request was answered, and what makes the client's records from then on."""
    maker = only(version)
    if version == "TLSv1_2":
        maker.set_ciphers("ECDHE-ECDSA-AES128-GCM-SHA256")
    with tempfile.NamedTemporaryFile("r") as log:
        maker.keylog_filename = log.name
        session = Memory(maker)
        session.shake_hands()
        session.send(session.outward.read())
        lines = {words[0]: words[1:] for words in map(str.split, log) if words[0] != "#"}
    if version == "TLSv1_2":
        client_random, master = map(bytes.fromhex, lines["CLIENT_RANDOM"])
        # Behind the headers of record and message, and the version.
        sealer = Sealer.of_tls12(master, client_random, session.first[11:43])
    else:
        sealer = Sealer.of_tls13(bytes.fromhex(lines["CLIENT_TRAFFIC_SECRET_0"][1]))
    session.send(sealer.seal(DATA, request(path)))
    session.read_to(expected)
    return session, sealer


def faults(sealer):
    """What no client may send after a handshake, and the alert that each is answered by."""

    def altered():
        sealed = bytearray(sealer.seal(DATA, b"x"))
        sealed[-1] ^= 1
        return bytes(sealed)

    # By TLS 1.2 with AES-GCM the kernel looks at a record once its nonce has come too.
    behind = b"" if sealer.version == "TLSv1_3" else bytes(8)
    yield "an altered record", altered, "BAD_RECORD_MAC"
    yield "a record without a tag", lambda: record(DATA, b"") + behind, None
    yield "a record of random bytes", lambda: record(DATA, bytes(100)), "BAD_RECORD_MAC"
    yield "plaintext that is too long", lambda: sealer.seal(DATA, bytes(PLAIN_MAX + 1)), "RECORD_OVERFLOW"
    yield "a record that is too long", lambda: record(DATA, bytes(PLAIN_MAX + 257)), "RECORD_OVERFLOW"
    yield "the head of one", lambda: b"\x17\x03\x03\xff\xff" + behind, "RECORD_OVERFLOW"
    yield "an empty alert", lambda: sealer.seal(ALERT, b""), "UNEXPECTED_MESSAGE"
    yield "an empty message", lambda: sealer.seal(HANDSHAKE, b""), "UNEXPECTED_MESSAGE"
    yield "ChangeCipherSpec", lambda: sealer.seal(CHANGE_CIPHER_SPEC, b"\x01"), "UNEXPECTED_MESSAGE"
    yield "an unknown kind", lambda: sealer.seal(99, b"x"), "UNEXPECTED_MESSAGE"
    yield "another version", lambda: b"\x17\x09\x09\x00\x64" + bytes(100), "PROTOCOL_VERSION"
    if sealer.version == "TLSv1_3":
        too_padded = lambda: sealer.seal(DATA, b"x", PLAIN_MAX)
        yield "too much padding", too_padded, "RECORD_OVERFLOW"
        yield "nothing but padding", lambda: sealer.seal_inner(sealer.number, bytes(100)), "UNEXPECTED_MESSAGE"
        yield "nothing at all", lambda: sealer.seal_inner(sealer.number, b""), "UNEXPECTED_MESSAGE"
        yield "an open alert", lambda: record(ALERT, b"\x02\x28"), "UNEXPECTED_MESSAGE"
        yield "an open ChangeCipherSpec", lambda: record(CHANGE_CIPHER_SPEC, b"\x01"), "UNEXPECTED_MESSAGE"
    else:
        yield "an open alert", lambda: record(ALERT, b"\x02\x28") + behind, "BAD_RECORD_MAC"


def records(version, path, contents):
    """Each fault in a record ends its connection at once, by its alert; what is allowed is taken."""
    expected = open(contents, "rb").read()
    session, sealer = by_hand(version, path, expected)
    padding = PLAIN_MAX - len(request(path)) if version == "TLSv1_3" else 0
    session.send(sealer.seal(DATA, b"") + sealer.seal(DATA, request(path), padding))
    session.read_to(expected)
    wrong = []
    for number, (name, _, _) in enumerate(faults(sealer)):
        session, sealer = by_hand(version, path, expected)
        _, make, alert = list(faults(sealer))[number]
        session.send(make())
        try:
            session.ends_by(alert or "ALERT")
        except (AssertionError, OSError) as error:
            wrong.append(f"{name}: {error!r}")
    assert not wrong, f"{version}: " + "\n".join(wrong)


def stalled(path, contents):
    """A record that is too long, from a client that for a while takes nothing of an answer."""
    expected = open(contents, "rb").read()
    session, sealer = by_hand("TLSv1_3", path, expected)
    session.send(sealer.seal(DATA, request(path)))
    session.socket.recv(1, socket.MSG_PEEK)
    time.sleep(2)
    session.send(record(DATA, bytes(PLAIN_MAX + 257)))
    time.sleep(5)
    session.read_to(expected)
    session.ends_by("RECORD_OVERFLOW")


def dataless(path, contents, count):
    """Records without content are passed over, and other ones that say nothing end the connection."""
    expected = open(contents, "rb").read()
    session, sealer = by_hand("TLSv1_3", path, expected)
    session.send(b"".join(sealer.seal(DATA, b"") for _ in range(int(count))))
    session.send(sealer.seal(DATA, request(path, last=True)))
    data, whole = session.read_to_the_end()
    assert whole and data.endswith(expected), f"{len(data)} bytes, {whole}"
    session, sealer = by_hand("TLSv1_3", path, expected)
    # user_canceled, a warning.
    session.send(b"".join(sealer.seal(ALERT, b"\x01\x5a") for _ in range(40)))
    session.ends_by("UNEXPECTED_MESSAGE")


def many(count, path, contents):
    """So many connections, all open until the last has its answer."""
    expected = open(contents, "rb").read()
    maker = context()
    maker.set_ecdh_curve("prime256v1")
    open_ones = []
    for _ in range(count):
        plain = socket.create_connection(ADDRESS)
        one = maker.wrap_socket(plain, server_hostname="localhost", suppress_ragged_eofs=False)
        one.sendall(request(path))
        open_ones.append(one)
    print(f"{len(open_ones)} are open", flush=True)
    # The server hands a connection to the kernel once it has the client's last word, one direction after the other.
    for _ in range(300):
        stat = dict(line.split() for line in open("/proc/net/tls_stat"))
        if min(int(stat["TlsCurrTxSw"]), int(stat["TlsCurrRxSw"])) >= count:
            break
        time.sleep(0.1)
    else:
        raise AssertionError(stat)
    chosen = selectors.DefaultSelector()
    for one in open_ones:
        one.setblocking(False)
        chosen.register(one, selectors.EVENT_READ, bytearray())
    while chosen.get_map():
        events = chosen.select(timeout=60)
        assert events, f"{len(chosen.get_map())} of {count} are not answered whole"
        for key, _ in events:
            try:
                piece = key.fileobj.recv(65536)
            except ssl.SSLWantReadError:
                continue
            assert piece, f"it ended after {len(key.data)} bytes"
            key.data.extend(piece)
            if key.data.endswith(expected):
                chosen.unregister(key.fileobj)
    for one in open_ones:
        one.close()


match sys.argv[1:]:
    case ["pipelined", version, path, contents, way]:
        pipelined(version, path, contents, way)
    case ["split", version, path, contents, seconds]:
        split(version, path, contents, seconds)
    case ["garbled", version, path, contents, way]:
        garbled(version, path, contents, way)
    case ["dataless", path, contents, count]:
        dataless(path, contents, count)
    case ["records", version, path, contents]:
        records(version, path, contents)
    case ["stalled", path, contents]:
        stalled(path, contents)
    case ["many", count, path, contents]:
        many(int(count), path, contents)
    case _:
        sys.exit(
            "pipelined VERSION PATH FILE together|byte-by-byte, split VERSION PATH FILE SECONDS, "
            "garbled VERSION PATH FILE later|together|no-record, dataless PATH FILE COUNT, "
            "records VERSION PATH FILE, stalled PATH FILE, or many COUNT PATH FILE"
        )
