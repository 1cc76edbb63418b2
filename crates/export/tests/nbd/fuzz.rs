//! Random sessions from fixed seeds: a failure replays.

use scrim_seeded::Random;

use crate::common::*;

/// No bytes at any stage make a thread panic, or the server stop serving.
#[test]
fn random_bytes_are_survived() {
    let served = Served::new(crypt_volume(MIB).0);
    let mut random = Random::new(1);
    for session in 0..400 {
        let mut raw = served.connect();
        let mut bytes = session_bytes(&mut random, session % 4);
        for _ in 0..random.below(4) {
            mutate(&mut random, &mut bytes);
        }
        // The server may close before all is sent.
        let _ = std::io::Write::write_all(&mut raw.stream, &bytes);
        let _ = raw.stream.shutdown(std::net::Shutdown::Write);
        assert!(raw.is_closed(), "session {session}");
    }
    served.wait_until_no_client();
    let status = served.server.status();
    for event in &status.events {
        let incident = event.incident.to_string();
        assert!(!incident.contains("internal error"), "{incident}");
    }
    assert!(served.structured().read(0, 4096).is_ok());
}

/// A session that gets to `stage`: nothing valid, a greeting, options, requests.
fn session_bytes(random: &mut Random, stage: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    if stage >= 1 {
        bytes.extend(3u32.to_be_bytes());
    }
    if stage >= 2 {
        for _ in 0..random.below(6) {
            let code = u32::try_from(random.below(13)).unwrap();
            let code = if code == 1 || code == 2 || code == 7 {
                8
            } else {
                code
            };
            let data = match random.below(3) {
                0 => vec![],
                1 => info_data("disk", &[1, 3]),
                _ => meta_data("disk", &["base:allocation", "x:"]),
            };
            put_option(&mut bytes, code, &data);
        }
    }
    if stage >= 3 {
        put_option(&mut bytes, 7, &info_data("disk", &[3]));
        for cookie in 0..random.below(20) {
            let kind = u16::try_from(random.below(9)).unwrap();
            let offset = random.below(2 * MIB);
            let len = u32::try_from(random.below(300_000)).unwrap();
            bytes.extend(request(0, kind, cookie, offset, len));
            if kind == WRITE {
                bytes.extend(vec![9; len as usize]);
            }
        }
    }
    let garbage = usize::try_from(random.below(200)).unwrap();
    bytes.extend(pattern(random.next(), garbage));
    bytes
}

fn put_option(bytes: &mut Vec<u8>, code: u32, data: &[u8]) {
    bytes.extend(b"IHAVEOPT");
    bytes.extend(code.to_be_bytes());
    bytes.extend(u32::try_from(data.len()).unwrap().to_be_bytes());
    bytes.extend(data);
}

/// Changes, removes or repeats a part.
fn mutate(random: &mut Random, bytes: &mut Vec<u8>) {
    if bytes.is_empty() {
        return;
    }
    let at = usize::try_from(random.below(bytes.len() as u64)).unwrap();
    match random.below(4) {
        0 => bytes[at] ^= 1 << random.below(8),
        1 => bytes[at] = 0xff,
        2 => bytes.truncate(at),
        _ => {
            let end = (at + 40).min(bytes.len());
            let part = bytes[at..end].to_vec();
            bytes.splice(at..at, part);
        }
    }
}

/// Random valid requests of every kind and size against a plain array of bytes.
#[test]
fn random_requests_agree_with_a_model() {
    for (seed, structured) in [(1, false), (2, true)] {
        let size = 4 * MIB;
        let table = crypt_table(size, if structured { "1 sector_size:4096" } else { "" });
        let served = Served::new(volume(&table, &Counting::new(size)));
        let mut raw = if structured {
            served.structured()
        } else {
            served.simple()
        };
        let mut model = vec![0u8; usize::try_from(size).unwrap()];
        assert_eq!(
            raw.command(0, WRITE_ZEROES, 0, u32::try_from(size).unwrap()),
            0
        );
        let mut random = Random::new(seed);
        for turn in 0..400 {
            let longest = [100, 5000, 70_000, 600_000][usize::try_from(random.below(4)).unwrap()];
            let len = random.below(longest);
            let offset = random.below(size - len);
            let (from, to) = (
                usize::try_from(offset).unwrap(),
                usize::try_from(offset + len).unwrap(),
            );
            let len = u32::try_from(len).unwrap();
            let flags = u16::try_from(random.below(2)).unwrap();
            match random.below(8) {
                0 => {
                    assert_eq!(raw.command(flags, WRITE_ZEROES, offset, len), 0);
                    model[from..to].fill(0);
                }
                1 => assert_eq!(raw.command(0, CACHE, offset, len), 0),
                2 => assert_eq!(raw.command(0, FLUSH, 0, 0), 0),
                3..=5 => {
                    let data = pattern(turn, len as usize);
                    raw.write_request(flags, turn, offset, &data);
                    assert_eq!(raw.status(turn), 0);
                    model[from..to].copy_from_slice(&data);
                }
                _ => {
                    let data = raw.read(offset, len).unwrap();
                    assert!(data == model[from..to], "seed {seed}, turn {turn}");
                }
            }
        }
        let all = raw.read(0, u32::try_from(size).unwrap()).unwrap();
        assert!(all == model, "seed {seed}");
    }
}
