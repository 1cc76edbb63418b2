//! A server that means harm: it is left, nothing is believed, and nothing hangs.

use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use scrim_backend::{Access, Backend, Durability, RemoteBackend, RemoteOptions};
use scrim_nbd::wire::SIMPLE_REPLY_MAGIC;
use scrim_nbd::{Endpoint, Uri};

use crate::server::{Fate, Server, USUAL};

const SOON: Duration = Duration::from_millis(400);

fn reply(magic: u32, error: u32, cookie: u64, data: &[u8]) -> Fate {
    let mut bytes = magic.to_be_bytes().to_vec();
    bytes.extend(error.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(data);
    Fate::Raw(bytes)
}

/// Each reply is wrong in the same way, for ever: requests fail within the limit, and data that came
/// with such a reply is not taken.
#[test]
fn replies_that_are_none_end_the_connection() {
    type Lie = fn(u64) -> Fate;
    let lies: [(&str, Lie); 6] = [
        ("magic", |cookie| reply(0x6744_6699, 0, cookie, &[1; 512])),
        ("structured", |cookie| {
            reply(0x668e_33ef, 0, cookie, &[1; 512])
        }),
        ("slot", |cookie| {
            reply(SIMPLE_REPLY_MAGIC, 0, cookie + 1, &[1; 512])
        }),
        ("serial", |cookie| {
            reply(SIMPLE_REPLY_MAGIC, 0, cookie + (1 << 32), &[1; 512])
        }),
        ("zero", |_| reply(SIMPLE_REPLY_MAGIC, 0, 0, &[1; 512])),
        ("far", |_| reply(SIMPLE_REPLY_MAGIC, 0, u64::MAX, &[1; 512])),
    ];
    for (name, lie) in lies {
        let server = Server::start(64 << 10, USUAL, move |asked| lie(asked.cookie));
        let backend = server.open(SOON);
        let mut read = [7; 512];
        let error = backend.read_at(0, &mut read).unwrap_err();
        assert_eq!(read, [7; 512], "{name}");
        let said = error.to_string();
        assert!(said.contains("broke the NBD protocol"), "{name}: {said}");
        assert!(backend.write_at(0, &[1; 512], Durability::Cached).is_err());
        assert!(backend.flush().is_err());
    }
}

/// The server answers everything twice: the second answer belongs to no request.
#[test]
fn a_second_reply_is_nobodys() {
    let server = Server::start(64 << 10, USUAL, move |asked| {
        let once = match reply(SIMPLE_REPLY_MAGIC, 0, asked.cookie, &[2; 512]) {
            Fate::Raw(bytes) => bytes,
            _ => Vec::new(),
        };
        Fate::Raw(once.repeat(2))
    });
    let backend = server.open(SOON);
    for _ in 0..3 {
        let mut read = [0; 512];
        if backend.read_at(0, &mut read).is_ok() {
            assert_eq!(read, [2; 512]);
        }
    }
    assert!(backend.status().reconnects > 0);
}

/// A byte now and then is not a reply that is coming.
#[test]
fn a_server_that_trickles_does_not_hold_anybody() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    let trickle = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        for byte in std::iter::once(b'N').cycle() {
            if stream.write_all(&[byte]).is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(30));
            let _ = stream.set_nonblocking(true);
            let _ = stream.read(&mut [0; 64]);
        }
    });
    let uri = Uri {
        endpoint: Endpoint::Unix(path),
        tls: None,
        export: String::new(),
    };
    let options = RemoteOptions {
        connections: 1,
        limit: SOON,
    };
    let error = RemoteBackend::open(&uri, Access::ReadOnly, options)
        .err()
        .unwrap();
    assert!(!error.to_string().is_empty());
    trickle.join().unwrap();
}

/// Each of eight pieces of a long request comes in time, and the request as a whole does not.
#[test]
fn a_long_request_has_one_deadline() {
    let size = 8 << 20;
    let server = Server::start(size, USUAL, |_| {
        std::thread::sleep(SOON * 3 / 4);
        Fate::Served
    });
    let backend = server.open(SOON);
    let mut bytes = vec![0; size];
    assert!(backend.read_at(0, &mut bytes[..512]).is_ok(), "a short one");
    assert!(backend.read_at(0, &mut bytes).is_err(), "a read");
    let written = backend.write_at(0, &bytes, Durability::Cached);
    assert!(written.is_err(), "a write");
}

/// It takes every connection and drops it with the first request: that is tried again with pauses, not
/// as fast as it goes.
#[test]
fn a_server_that_drops_everything_is_not_asked_as_fast_as_it_goes() {
    let server = Server::start(64 << 10, USUAL, |_| Fate::LostBefore);
    let backend = server.open(SOON);
    let began = Instant::now();
    assert!(backend.read_at(0, &mut [0; 512]).is_err());
    let attempts = server
        .shared
        .accepted
        .load(std::sync::atomic::Ordering::SeqCst);
    // 3 connections each: at first, at once, and after 50, 100, 200 … ms.
    let pauses = began.elapsed().as_millis() / 50 + 3;
    assert!(u128::from(attempts) <= 3 * pauses, "{attempts}");
}

#[test]
fn what_is_no_server_is_said_to_be_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let uri = Uri {
        endpoint: Endpoint::Unix(path.clone()),
        tls: None,
        export: String::new(),
    };
    let open = || {
        let options = RemoteOptions {
            connections: 1,
            limit: SOON,
        };
        let opened = RemoteBackend::open(&uri, Access::ReadOnly, options);
        opened.err().unwrap().to_string()
    };
    assert!(open().contains("see that the server runs"), "no socket");
    let listener = UnixListener::bind(&path).unwrap();
    let answers: [&[u8]; 3] = [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"",
        b"NBDMAGICIHAVEOPT\0",
    ];
    let server = std::thread::spawn(move || {
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(answer).unwrap();
        }
        // The last one is never answered.
        std::thread::sleep(SOON * 2);
    });
    assert!(open().contains("no NBD server"));
    assert!(open().contains("closed the connection"));
    assert!(open().contains("closed the connection"));
    assert!(open().contains("nbd+unix:///?socket="), "silence");
    server.join().unwrap();
}
