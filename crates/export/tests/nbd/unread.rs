//! Clients that read nothing and stop, or break the rules, at some byte: no other client waits for
//! them.
//!
//! While a server waits for such a client it must hold no lock of a range and no table. So beside them another client
//! writes a part of a sector, which takes the lock of its region alone, and flushes; the table is exchanged, and the
//! volume forgets its key, which no thread may keep.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use scrim_backend::{Access, Backend, FileBackend};
use scrim_export::Export;
use scrim_export::limits::{Limits, READ_BUFFERS};
use scrim_export::nbd::limits::PAYLOAD;
use scrim_nbd::tls::{TlsReader, TlsWriter};
use scrim_volume::{Change, CryptTable, Resumed, Volume};

use crate::common::*;
use crate::tls::{halves, secured, served_with};

const SIZE: u64 = 4 * MIB;

/// Ends a test that hangs; nothing is measured by it.
const LONG: Duration = Duration::from_secs(30);

/// Number of silent clients at a time.
const TOGETHER: usize = 24;

/// Bytes read by each of the requests that fill a socket: with its header the reply is one piece of memory to the
/// kernel.
const REPLY: u32 = (32 << 10) - 28;

/// A served volume on a file, which a ring can reach, and a client that keeps to the rules.
struct Scene {
    good: Raw,
    served: Served,
    volume: Arc<Volume>,
    backend: Arc<dyn Backend>,
    is_secure: bool,
    turn: u64,
    _image: tempfile::TempDir,
}

impl Scene {
    fn new(is_secure: bool) -> Self {
        let image = tempfile::tempdir().unwrap();
        let path = image.path().join("image");
        drop(FileBackend::create(&path, SIZE).unwrap());
        let file = FileBackend::open(&path, Access::ReadWrite).unwrap();
        // Past the page cache no transfer ends within the call that starts it.
        let file = file.past_the_cache();
        let file = file.or_else(|_| FileBackend::open(&path, Access::ReadWrite));
        let backend = placed(Arc::new(file.unwrap()));
        let open = |_: &str| Ok(Arc::clone(&backend));
        let volume = Arc::new(Volume::start(table(), crate::PATH, open).unwrap());
        let exports = vec![Export {
            name: "disk".to_owned(),
            description: "a volume on a file".to_owned(),
            volume: Arc::clone(&volume),
            engine: crate::ENGINE,
        }];
        let served = if is_secure {
            served_with(exports, Limits::default())
        } else {
            Served::with(exports, Limits::default())
        };
        let mut good = if is_secure {
            secured(&served)
        } else {
            let mut raw = served.connect();
            raw.greet(3);
            raw
        };
        good.go("disk");
        let mut scene = Self {
            good,
            served,
            volume,
            backend,
            is_secure,
            turn: 0,
            _image: image,
        };
        scene.others_go_on();
        scene
    }

    /// Carries out operations that wait for locks of ranges, for tables and for the key.
    fn others_go_on(&mut self) {
        self.turn += 1;
        let data = pattern(self.turn, 700);
        assert_eq!(self.good.write(300, &data), 0);
        assert_eq!(self.good.command(0, FLUSH, 0, 0), 0);
        let open = |_: &str| Ok(Arc::clone(&self.backend));
        let loaded = self
            .volume
            .load(table(), crate::PATH, Change::OfService, open);
        loaded.unwrap();
        assert_eq!(self.volume.resume(LONG).unwrap(), Resumed::OnNewTable);
        assert!(self.volume.suspend(LONG));
        assert_eq!(self.volume.resume(LONG).unwrap(), Resumed::AsItWas);
        // No thread that waits for a client keeps the key in memory.
        self.volume.forget_key(LONG).unwrap();
        recall(&self.volume);
        assert_eq!(self.good.read(300, 700).unwrap().len(), 700);
    }

    /// Waits until the server has done what it can do for clients that do nothing more.
    fn settle(&self) {
        let seen = || {
            let status = self.served.server.status();
            (status.traffic, status.clients.len(), status.events.len())
        };
        let mut last = (seen(), 0);
        while last.1 < 4 {
            std::thread::sleep(Duration::from_millis(5));
            let now = seen();
            last = if now == last.0 {
                (now, last.1 + 1)
            } else {
                (now, 0)
            };
        }
    }

    /// A client that will read no reply to a request.
    fn deaf(&self) -> Deaf {
        if self.is_secure {
            let (reader, writer, socket) = halves(&self.served);
            return Deaf {
                socket,
                tls: Some((reader, writer)),
            };
        }
        Deaf {
            socket: self.served.connect().stream,
            tls: None,
        }
    }

    /// All that a session says before its first request.
    fn opening(&self) -> Vec<u8> {
        let mut session = Vec::new();
        if !self.is_secure {
            session.extend(3u32.to_be_bytes());
        }
        for (code, data) in [
            (3u32, vec![]),
            (8, vec![]),
            (10, meta_data("disk", &["base:allocation"])),
            (6, info_data("disk", &[1, 3])),
            (77, vec![1, 2, 3]),
            (7, info_data("disk", &[3])),
        ] {
            session.extend(b"IHAVEOPT");
            session.extend(code.to_be_bytes());
            session.extend(u32::try_from(data.len()).unwrap().to_be_bytes());
            session.extend(data);
        }
        session
    }

    /// Lets clients come that send these bytes, `TOGETHER` at a time, and serves the others meanwhile.
    fn meet(&mut self, sessions: impl Iterator<Item = (Vec<u8>, &'static [u8])>) {
        let mut sessions = sessions.peekable();
        while sessions.peek().is_some() {
            let deaf: Vec<Deaf> = sessions
                .by_ref()
                .take(TOGETHER)
                .map(|(valid, broken)| {
                    let mut deaf = self.deaf();
                    deaf.send(&valid);
                    deaf.break_off(broken);
                    deaf
                })
                .collect();
            self.settle();
            self.others_go_on();
            drop(deaf);
        }
    }
}

fn table() -> CryptTable {
    CryptTable::parse(&crypt_table(SIZE, "")).unwrap()
}

struct Deaf {
    socket: UnixStream,
    tls: Option<(TlsReader, TlsWriter)>,
}

impl Deaf {
    /// Sends what a client may send. The server may have closed the connection.
    fn send(&mut self, bytes: &[u8]) {
        match &self.tls {
            Some((_, writer)) => drop(writer.write_all(&[bytes])),
            None => drop(self.socket.write_all(bytes)),
        }
    }

    /// Sends what no client should send, below TLS.
    fn break_off(&mut self, bytes: &[u8]) {
        let _ = self.socket.write_all(bytes);
    }
}

/// Requests of every kind that takes a lock or a table, durable ones before others whose data does not come whole.
fn requests() -> Vec<u8> {
    let mut session = Vec::new();
    let mut write = |flags, cookie, offset, len: u32| {
        session.extend(request(flags, WRITE, cookie, offset, len));
        session.extend(vec![7; len as usize]);
    };
    write(FUA, 1, 0, 512);
    write(FUA, 2, 300, 64);
    write(0, 3, 512, 512);
    write(FUA, 4, 0, 1024);
    session.extend(request(0, READ, 5, 0, 200_000));
    session.extend(request(FUA, WRITE_ZEROES, 6, 100, 5000));
    session.extend(request(0, FLUSH, 7, 0, 0));
    session.extend(request(0, 99, 8, 0, 0));
    for cookie in 9..12 {
        session.extend(request(0, READ, cookie, 0, 1 << 20));
    }
    session.extend(request(FUA, WRITE, 12, 0, 512));
    session.extend([7; 500]);
    session
}

/// A record whose tag is wrong, one that is too long, an alert in the clear, and half of one.
const BROKEN: [&[u8]; 5] = [
    &[],
    &[
        23, 3, 3, 0, 20, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20,
    ],
    &[23, 3, 3, 0xff, 0xff, 1, 2, 3],
    &[21, 3, 3, 0, 2, 2, 40],
    &[23, 3, 3],
];

#[test]
fn clients_that_stop_at_any_byte_hold_up_nobody() {
    let mut scene = Scene::new(false);
    let opening = scene.opening();
    let session = [opening.clone(), requests()].concat();
    let whole = session.len();
    // Once nothing more comes, and once nonsense, which is a request's end or its payload.
    let stopped = (0..whole).step_by(5).map(|end| session[..end].to_vec());
    let nonsense = (0..whole).step_by(11).map(|end| {
        let mut bytes = session[..end].to_vec();
        bytes.extend([0xff; 600]);
        bytes
    });
    scene.meet(stopped.chain(nonsense).map(|bytes| (bytes, BROKEN[0])));
}

#[test]
fn clients_under_tls_that_stop_at_any_byte_hold_up_nobody() {
    let mut scene = Scene::new(true);
    let opening = scene.opening();
    let session = [opening, requests()].concat();
    let ends = (0..session.len()).step_by(23).zip(BROKEN.iter().cycle());
    scene.meet(ends.map(|(end, broken)| (session[..end].to_vec(), *broken)));
}

impl Scene {
    /// Calls that have sent something to the client that came last.
    fn sends(&self) -> u64 {
        let status = self.served.server.status();
        status.clients.last().map_or(0, |last| last.traffic.sends)
    }

    /// A client that has asked for up to `most` replies, each after the one before it was sent, and has read none of
    /// them; and how many were sent.
    fn full(&self, most: usize) -> (Deaf, usize) {
        let mut deaf = self.deaf();
        deaf.send(&self.opening());
        self.settle();
        for count in 0..most {
            let before = self.sends();
            deaf.send(&request(0, READ, 1, 0, REPLY));
            let mut looks = 0;
            while self.sends() == before {
                if looks == 100 {
                    return (deaf, count);
                }
                looks += 1;
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        (deaf, most)
    }
}

/// The socket has taken just as much as it takes, and everything was sent, when a write comes and, right behind it,
/// the end of the conversation: the alert, or the reply, finds no room while the write is in flight.
fn a_full_socket_holds_up_nobody(is_secure: bool) {
    let mut scene = Scene::new(is_secure);
    let (_waited_for, count) = scene.full(1000);
    let (mut deaf, _) = scene.full(count);
    // A write that is held, and behind it what is looked at once the write has been started.
    assert!(scene.volume.suspend(LONG));
    deaf.send(&[&request(0, WRITE, 1, 0, 4096)[..], &[7; 4096]].concat());
    scene.settle();
    if is_secure {
        deaf.break_off(BROKEN[1]);
    } else {
        deaf.send(&[0xff; 28]);
    }
    scene.volume.resume(LONG).unwrap();
    scene.settle();
    scene.others_go_on();
}

#[test]
fn an_error_behind_a_full_socket_holds_up_nobody() {
    a_full_socket_holds_up_nobody(false);
}

#[test]
fn an_alert_behind_a_full_socket_holds_up_nobody() {
    a_full_socket_holds_up_nobody(true);
}

/// A long read for a client without structured replies is put together before any of it is sent. What clients that take
/// nothing keep of the memory for that is not missed by others.
#[test]
fn memory_that_is_kept_for_clients_that_read_nothing_is_not_missed() {
    const LONGEST: u32 = PAYLOAD;
    let (volume, _) = crypt_volume(u64::from(LONGEST));
    let served = Served::new(volume);
    let data = pattern(1, 8 << 20);
    let mut good = served.simple();
    assert_eq!(good.write(0, &data), 0);
    let deaf: Vec<Raw> = (0..READ_BUFFERS / LONGEST as usize)
        .map(|_| {
            let mut raw = served.simple();
            raw.request(0, READ, 1, 0, LONGEST);
            raw
        })
        .collect();
    let reads = |served: &Served| served.server.status().traffic.read.requests;
    while reads(&served) < deaf.len() as u64 {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(good.read(0, 8 << 20).unwrap() == data);
    assert!(good.read(1, 3 << 20).unwrap() == data[1..=3 << 20]);
    assert!(served.server.status().events.is_empty());
}
