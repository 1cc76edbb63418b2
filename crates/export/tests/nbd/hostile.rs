//! Clients that mean harm, or are broken: none of them harms another.

use std::io::Write;
use std::net::Shutdown;

use scrim_export::limits::PIECE;
use scrim_export::nbd::{Incident, ProtocolError, limits};

use crate::common::*;

/// A server with a good client on it, which is served before, during and after everything else.
struct Scene {
    served: Served,
    good: Raw,
    turn: u64,
}

impl Scene {
    fn new() -> Self {
        let served = Served::new(crypt_volume(64 * MIB).0);
        let good = served.structured();
        let mut scene = Self {
            served,
            good,
            turn: 0,
        };
        scene.good_client_is_served();
        scene
    }

    /// The good client has the second half of the volume to itself.
    fn good_client_is_served(&mut self) {
        self.turn += 1;
        let data = pattern(self.turn, 40_000);
        assert_eq!(self.good.write(32 * MIB + self.turn * 512, &data), 0);
        let read = self.good.read(32 * MIB + self.turn * 512, 40_000);
        assert_eq!(read.unwrap(), data);
    }

    /// Waits until only the good client is left.
    fn alone(&mut self) {
        for _ in 0..2000 {
            if self.served.server.connections() == 1 {
                return self.good_client_is_served();
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        panic!("clients stay: {:?}", self.served.server.status().clients);
    }

    fn protocol_errors(&self) -> Vec<ProtocolError> {
        let events = self.served.server.status().events;
        events
            .iter()
            .map(|event| match event.incident {
                Incident::Protocol(error) => error,
                ref other => panic!("{other}"),
            })
            .collect()
    }
}

#[test]
fn protocol_violations_end_the_connection_and_are_named() {
    let mut scene = Scene::new();
    let mut expected = Vec::new();
    let mut violate = |raw: &mut Raw, error: ProtocolError| {
        assert!(raw.is_closed());
        expected.push(error);
    };

    for flags in [4, u32::MAX] {
        let mut raw = scene.served.connect();
        raw.greet(flags);
        violate(&mut raw, ProtocolError::ClientFlags(flags));
    }
    let mut raw = scene.served.connect();
    raw.greet(3);
    raw.send(b"GET / HTTP/1.1\r\n\r\n");
    let magic = u64::from_be_bytes(*b"GET / HT");
    violate(&mut raw, ProtocolError::OptionMagic(magic));

    for len in [limits::OPTION_SKIPPED + 1, u32::MAX] {
        let mut raw = scene.served.connect();
        raw.greet(3);
        raw.send(b"IHAVEOPT\0\0\0\x07");
        raw.send(&len.to_be_bytes());
        violate(&mut raw, ProtocolError::OptionLength(len));
    }
    let long = vec![b'x'; limits::OPTION_DATA as usize + 1];
    for name in [&b"unknown"[..], b"\xff\xfe", b"disk\0", &long] {
        let mut raw = scene.served.connect();
        raw.greet(3);
        raw.send_option(1, name);
        violate(&mut raw, ProtocolError::UnknownExport);
    }
    let mut raw = scene.served.connect();
    raw.greet(3);
    for _ in 0..limits::OPTIONS {
        raw.option(77, b"");
    }
    violate(&mut raw, ProtocolError::TooManyOptions);

    for mut raw in [scene.served.simple(), scene.served.structured()] {
        raw.request(0, READ, 1, 0, 512);
        let mut bad = request(0, READ, 2, 0, 512);
        bad[0] ^= 0x80;
        raw.send(&bad);
        assert!(
            raw.read_reply(1, 0, 512).is_ok(),
            "what was valid is answered"
        );
        violate(&mut raw, ProtocolError::RequestMagic(0xa560_9513));
    }
    scene.alone();
    assert_eq!(scene.protocol_errors(), expected);
    let errors = scene.served.server.status().protocol_errors;
    assert_eq!(errors, expected.len() as u64);
}

/// Disconnecting at any byte of a session is not an event.
#[test]
fn disconnecting_anywhere_is_harmless() {
    let mut scene = Scene::new();
    let mut session = 3u32.to_be_bytes().to_vec();
    for (code, data) in [(8u32, vec![]), (7, info_data("disk", &[3]))] {
        session.extend(b"IHAVEOPT");
        session.extend(code.to_be_bytes());
        session.extend(u32::try_from(data.len()).unwrap().to_be_bytes());
        session.extend(data);
    }
    session.extend(request(0, READ, 1, 0, 100_000));
    session.extend(request(0, WRITE, 2, 0, 600));
    session.extend([7; 600]);
    let ends = (0..session.len()).filter(|end| *end < 120 || end % 37 == 0);
    for end in ends {
        let mut raw = scene.served.connect();
        raw.send(&session[..end]);
        drop(raw);
    }
    scene.alone();
    assert!(scene.served.server.status().events.is_empty());
}

/// The part of a long write that came is written, the rest is not.
#[test]
fn disconnecting_within_a_long_write_leaves_what_came() {
    let mut scene = Scene::new();
    let data = pattern(1, 8 << 20);
    let mut raw = scene.served.simple();
    raw.send(&request(0, WRITE, 1, 0, 8 << 20));
    raw.send(&data[..5 << 20]);
    drop(raw);
    scene.alone();
    let mut raw = scene.served.simple();
    let read = raw.read(0, 8 << 20).unwrap();
    // All but less than a piece at the end of what was sent.
    assert!(read[..(5 << 20) - PIECE] == data[..(5 << 20) - PIECE]);
    assert!(read[5 << 20..] != data[5 << 20..]);
}

/// A client that closes its sending half still gets its replies.
#[test]
fn half_open_connections_are_answered() {
    let mut scene = Scene::new();
    for mut raw in [scene.served.simple(), scene.served.structured()] {
        for cookie in 0..20 {
            raw.request(0, READ, cookie, cookie * 512, 200_000);
        }
        raw.stream.shutdown(Shutdown::Write).unwrap();
        raw.reads_in_any_order(20, 200_000);
        assert!(raw.is_closed());
    }
    scene.alone();
}

/// A client that never reads its replies holds up no other client.
#[test]
fn clients_that_do_not_read_hold_up_only_themselves() {
    let mut scene = Scene::new();
    let mut deaf: Vec<Raw> = (0..4)
        .map(|turn| {
            if turn % 2 == 0 {
                scene.served.simple()
            } else {
                scene.served.structured()
            }
        })
        .collect();
    for raw in &mut deaf {
        raw.stream.set_nonblocking(true).unwrap();
        let requests: Vec<u8> = (0..1000)
            .flat_map(|cookie| request(0, READ, cookie, 0, 1 << 20))
            .collect();
        let _ = raw.stream.write(&requests);
    }
    for _ in 0..20 {
        scene.good_client_is_served();
    }
    assert_eq!(scene.served.server.connections(), 5);
    drop(deaf);
    scene.alone();
}

/// Lengths announced and not sent, offsets at the edges of 64 bits: each is answered in step.
#[test]
fn every_edge_of_offset_and_length_is_answered() {
    let mut scene = Scene::new();
    let size = 64 * MIB;
    for mut raw in [scene.served.simple(), scene.served.structured()] {
        for kind in [READ, FLUSH, TRIM, CACHE, WRITE_ZEROES, BLOCK_STATUS, 8, 255] {
            for offset in [1, size - 1, size, size + 1, 1 << 63, u64::MAX - 1, u64::MAX] {
                for len in [1, 0x7fff_ffff, u32::MAX] {
                    let fits = offset
                        .checked_add(len.into())
                        .is_some_and(|end| end <= size);
                    raw.request(0, kind, 6, offset, len);
                    let error = if kind == READ {
                        raw.read_reply(6, offset, len).err().unwrap_or(0)
                    } else if kind == BLOCK_STATUS && raw.structured && fits {
                        assert_eq!(raw.chunk().kind, 5);
                        continue;
                    } else {
                        raw.status(6)
                    };
                    let known = [READ, CACHE, WRITE_ZEROES].contains(&kind);
                    assert_eq!(error == 0, fits && known, "{kind} {offset} {len}");
                }
            }
        }
    }
    scene.good_client_is_served();
}

/// A fault in this program, met by one client, is that client's loss only.
#[test]
fn a_panic_ends_one_connection() {
    let (volume, backend) = crypt_volume(MIB);
    let served = Served::new(volume);
    let mut good = served.simple();
    let mut unlucky = served.simple();
    let hook = || panic!("expected by this test");
    assert!(backend.on_read.set(Box::new(hook)).is_ok());
    unlucky.request(0, READ, 1, 0, 512);
    assert!(unlucky.is_closed());
    assert_eq!(good.write(0, &pattern(1, 4096)), 0);
    while served.server.connections() > 1 {
        std::thread::yield_now();
    }
    let events = served.server.status().events;
    assert!(matches!(events[0].incident, Incident::Panicked));
    assert_eq!(served.simple().write(0, &pattern(2, 4096)), 0);
}
