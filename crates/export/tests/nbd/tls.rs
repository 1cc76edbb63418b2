//! The server under TLS, as a client sees it that keeps to the rules.

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use scrim_export::limits::Limits;
use scrim_export::nbd::{Address, ServerFiles, ServerTls};
use scrim_export::{BindErrorKind, Export, Listener};
use scrim_nbd::tls::{ClientFiles, ClientTls, TlsReader, TlsWriter};

use crate::certificates::Authority;
use crate::common::*;

pub(crate) const STARTTLS: u32 = 5;
pub(crate) const ERR_INVALID: u32 = ERR | 3;
pub(crate) const ERR_TLS_REQD: u32 = ERR | 5;

/// A server that asks for TLS and for certificates.
pub(crate) fn served_with(exports: Vec<Export>, limits: Limits) -> Served {
    let directory = tempfile::tempdir().unwrap();
    Authority::new().fill(directory.path());
    let tls = ServerTls::load(&ServerFiles::in_directory(directory.path())).unwrap();
    let address = Address::Unix(directory.path().join("s"));
    let listener = Listener::bind_tls(&address, tls).unwrap();
    assert!(listener.uri("").starts_with("nbds+unix:///?socket="));
    Served::start(directory, listener, exports, limits)
}

pub(crate) fn served() -> Served {
    let exports = vec![export("disk", crypt_volume(64 * MIB).0)];
    served_with(exports, Limits::default())
}

/// A client that the server of `served` accepts.
fn client_tls(served: &Served) -> ClientTls {
    let path = |name: &str| served.directory.path().join(name);
    let files = ClientFiles {
        ca: path("ca-cert.pem"),
        own: Some((path("client-cert.pem"), path("client-key.pem"))),
    };
    ClientTls::load(&files).unwrap()
}

/// A client whose `NBD_OPT_STARTTLS` has been acknowledged.
pub(crate) fn acknowledged(served: &Served) -> Raw {
    let mut raw = served.connect();
    raw.greet(3);
    assert_eq!(raw.option(STARTTLS, b""), [(ACK, vec![])]);
    raw
}

/// A client under TLS, and a second way to its socket.
pub(crate) fn halves(served: &Served) -> (TlsReader, TlsWriter, UnixStream) {
    let raw = acknowledged(served);
    let socket = raw.stream.try_clone().unwrap();
    let (reader, writer) = client_tls(served)
        .handshake("localhost", raw.stream.into())
        .unwrap();
    (reader, writer, socket)
}

/// A client under TLS that sends what it is told to: two threads carry its bytes.
pub(crate) fn secured(served: &Served) -> Raw {
    let (mut reader, writer, _) = halves(served);
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut back = theirs.try_clone().unwrap();
    let mut there = theirs;
    thread::spawn(move || {
        let mut bytes = vec![0; 64 << 10];
        loop {
            match reader.read(&mut bytes) {
                Ok(len) if len > 0 && back.write_all(&bytes[..len]).is_ok() => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                _ => break,
            }
        }
        let _ = back.shutdown(Shutdown::Both);
    });
    thread::spawn(move || {
        let mut bytes = vec![0; 64 << 10];
        while let Ok(len @ 1..) = there.read(&mut bytes) {
            if writer.write_all(&[&bytes[..len]]).is_err() {
                break;
            }
        }
        let _ = writer.shutdown();
    });
    Raw::new(ours)
}

#[test]
fn what_is_written_under_tls_is_read_back_with_both_kinds_of_replies() {
    let served = served();
    for structured in [false, true] {
        let mut raw = secured(&served);
        if structured {
            assert_eq!(raw.option(8, b""), [(ACK, vec![])]);
            raw.structured = true;
        }
        raw.go("disk");
        for (seed, len) in [(1, 1), (2, 512), (3, 16_384), (4, 100_001), (5, 32 << 20)] {
            let data = pattern(seed, len as usize);
            assert_eq!(raw.write(777, &data), 0);
            assert!(raw.read(777, len).unwrap() == data, "{len} bytes");
        }
        assert_eq!(raw.command(FUA, WRITE_ZEROES, 0, 4096), 0);
        assert_eq!(raw.command(0, FLUSH, 0, 0), 0);
    }
    served.wait_until_no_client();
    let status = served.server.status();
    assert!(status.events.is_empty(), "{:?}", status.events);
}

#[test]
fn several_connections_work_side_by_side_and_tell_their_protection() {
    let served = served();
    let mut clients: Vec<Raw> = (0..4).map(|_| secured(&served)).collect();
    for raw in &mut clients {
        raw.go("");
    }
    // Told once a client is in its transmission phase, which it may know before.
    let told = || {
        let clients = served.server.status().clients;
        clients.iter().all(|client| client.tls.is_some())
    };
    while !told() {
        std::thread::yield_now();
    }
    for client in served.server.status().clients {
        let tls = client.tls.unwrap();
        assert_eq!(tls.version, "TLSv1.3");
        assert_eq!(tls.suite, "TLS_AES_128_GCM_SHA256");
    }
    // All write before any is answered.
    for (id, raw) in (0u64..).zip(&mut clients) {
        raw.write_request(0, 1, id * 8 * MIB, &pattern(id, 8 << 20));
    }
    for raw in &mut clients {
        assert_eq!(raw.status(1), 0);
    }
    for (id, raw) in (0u64..).zip(clients.iter_mut().rev()) {
        let place = 3 - id;
        assert!(raw.read(place * 8 * MIB, 8 << 20).unwrap() == pattern(place, 8 << 20));
    }
}

#[test]
fn before_tls_nothing_is_agreed_or_told() {
    let served = served();
    let mut raw = served.connect();
    raw.greet(3);
    let long = vec![0; 20_000];
    for (code, data) in [
        (3, &b""[..]),
        (6, &info_data("disk", &[])),
        (7, &info_data("disk", &[])),
        (8, b""),
        (9, &meta_data("disk", &[])),
        (10, &meta_data("disk", &["base:allocation"])),
        (3, b"malformed"),
        (7, &long),
        (12345, b""),
    ] {
        let replies = raw.option(code, data);
        assert_eq!(replies.len(), 1, "option {code}");
        assert_eq!(replies[0].0, ERR_TLS_REQD, "option {code}");
    }
    let replies = raw.option(STARTTLS, b"data");
    assert_eq!(replies[0].0, ERR_INVALID);
    assert_eq!(raw.option(2, b""), [(ACK, vec![])]);
    assert!(raw.is_closed());

    // This is the option that cannot be refused.
    let mut raw = served.connect();
    raw.greet(3);
    raw.send_option(1, b"disk");
    assert!(raw.is_closed());
    served.wait_until_no_client();
    let events = served.server.status().events;
    assert_eq!(events.len(), 1);
    assert!(events[0].incident.to_string().contains("nbds://"));
}

#[test]
fn under_tls_it_begins_anew_and_is_not_begun_again() {
    let served = served();
    let mut raw = secured(&served);
    let replies = raw.option(10, &meta_data("disk", &["base:allocation"]));
    assert_eq!(replies[0].0, ERR_INVALID, "structured replies come first");
    let replies = raw.option(STARTTLS, b"");
    assert_eq!(replies[0].0, ERR_INVALID);
    assert_eq!(raw.option(3, b"").len(), 2, "and the handshake goes on");
    raw.go("disk");
    assert_eq!(raw.read(0, 512).unwrap().len(), 512);
}

/// A client that does not know that options can be refused cannot begin TLS, nor get an export.
#[test]
fn clients_of_the_first_newstyle_are_not_served() {
    let served = served();
    let mut raw = served.connect();
    raw.greet(0);
    let replies = raw.option(STARTTLS, b"");
    assert_eq!(replies[0].0, ERR | 2);
    raw.send_option(1, b"disk");
    assert!(raw.is_closed());
}

#[test]
fn both_sides_part_in_order() {
    let served = served();
    // The client asks to be let go.
    let (mut reader, writer, _) = halves(&served);
    let mut option = b"IHAVEOPT\0\0\0\x07".to_vec();
    let data = info_data("disk", &[]);
    option.extend(u32::try_from(data.len()).unwrap().to_be_bytes());
    writer.write_all(&[&option, &data]).unwrap();
    // One reply with the size, and the acknowledgement.
    reader.read_exact(&mut [0; 20 + 12 + 20]).unwrap();
    writer.write_all(&[&request(0, DISC, 0, 0, 0)]).unwrap();
    assert_eq!(reader.read(&mut [0; 100]).unwrap(), 0);
    // The server stops.
    let (mut reader, _writer, _) = halves(&served);
    served.wait_until_clients(1);
    served.server.stop(Duration::from_secs(10));
    assert_eq!(reader.read(&mut [0; 100]).unwrap(), 0);
}

#[test]
fn tcp_with_tls_may_be_reached_from_elsewhere() {
    let directory = tempfile::tempdir().unwrap();
    Authority::new().fill(directory.path());
    let tls = ServerTls::load(&ServerFiles::in_directory(directory.path())).unwrap();
    // Addresses that no machine has: the system refuses them, the policy does not.
    for wanted in ["192.0.2.1:0", "[2001:db8::1]:0"] {
        let address = Address::Tcp(wanted.parse().unwrap());
        let error = Listener::bind_tls(&address, tls.clone()).err().unwrap();
        assert!(matches!(error.kind, BindErrorKind::System(_)), "{error}");
        let error = Listener::bind(&address).err().unwrap();
        assert!(matches!(error.kind, BindErrorKind::NotLoopback), "{error}");
    }
}
