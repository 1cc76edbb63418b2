# A client for what curl and openssl do not do: `python3 tls_client.py pipelined|garbled|many ...`.

import selectors
import socket
import ssl
import sys

ADDRESS = ("127.0.0.1", 8443)


def context():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


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

    def shake_hands(self):
        """Up to the client's last message, which is not sent."""
        while True:
            try:
                return self.tls.do_handshake()
            except ssl.SSLWantReadError:
                self.send(self.outward.read())
                self.inward.write(self.socket.recv(65536))

    def send(self, records):
        self.socket.sendall(records)

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
                received = self.socket.recv(65536)
                if not received:
                    return data, False
                self.inward.write(received)


def pipelined(version, path, contents, way):
    """Requests right behind the handshake: in the same packet, or cut in the middle of a record."""
    maker = context()
    maker.minimum_version = maker.maximum_version = getattr(ssl.TLSVersion, version)
    session = Memory(maker)
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


def garbled(version, path, contents):
    """A record that was changed on the way, behind one that was not."""
    maker = context()
    maker.minimum_version = maker.maximum_version = getattr(ssl.TLSVersion, version)
    session = Memory(maker)
    session.shake_hands()
    session.tls.write(request(path))
    session.send(session.outward.read())
    expected, data = open(contents, "rb").read(), b""
    while not data.endswith(expected):
        try:
            data += session.tls.read(65536)
        except ssl.SSLWantReadError:
            session.inward.write(session.socket.recv(65536))
    session.tls.write(request(path))
    record = bytearray(session.outward.read())
    record[-1] ^= 1
    session.send(record)
    try:
        data, whole = session.read_to_the_end()
    except ssl.SSLError as error:
        assert "BAD_RECORD_MAC" in error.reason, error
    else:
        raise AssertionError(f"{version}: {len(data)} bytes, {whole}, and no alert")


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
    stat = dict(line.split() for line in open("/proc/net/tls_stat"))
    assert int(stat["TlsCurrTxSw"]) >= count, stat
    assert int(stat["TlsCurrRxSw"]) >= count, stat
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
    case ["garbled", version, path, contents]:
        garbled(version, path, contents)
    case ["many", count, path, contents]:
        many(int(count), path, contents)
    case _:
        sys.exit("pipelined VERSION PATH FILE together|byte-by-byte, garbled VERSION PATH FILE, or many COUNT PATH FILE")
