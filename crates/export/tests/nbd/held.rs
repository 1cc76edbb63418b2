//! Requests in flight, half received or half answered at the moment at which the volume forgets its key: the key goes
//! at once, no thread waits for a client, and once the key is back every request ends as if nothing had been.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use scrim_backend::{Access, Backend, FileBackend};
use scrim_export::Export;
use scrim_export::limits::Limits;
use scrim_volume::{CryptTable, KeyState, Volume};

use crate::common::*;

/// Ends a test that hangs; nothing is measured by it.
const LONG: Duration = Duration::from_secs(30);

const SIZE: u64 = 16 * MIB;

/// Bytes of a long request.
const LEN: u32 = 1 << 20;

/// The part of the volume that one client has to itself.
const PART: u64 = 2 * MIB;

/// A volume on a file past the page cache, where no transfer ends within the call that starts it, and its server.
fn served() -> (Served, Arc<Volume>, tempfile::TempDir) {
    let image = tempfile::tempdir().unwrap();
    let path = image.path().join("image");
    drop(FileBackend::create(&path, SIZE).unwrap());
    let open = || FileBackend::open(&path, Access::ReadWrite).unwrap();
    let backend: Arc<dyn Backend> =
        placed(Arc::new(open().past_the_cache().unwrap_or_else(|_| open())));
    let table = CryptTable::parse(&crypt_table(SIZE, "1 allow_discards")).unwrap();
    let volume = Volume::start(table, crate::PATH, |_: &str| Ok(Arc::clone(&backend)));
    let volume = Arc::new(volume.unwrap());
    let served = Served::with(
        vec![Export {
            name: "disk".to_owned(),
            description: "a volume on a file".to_owned(),
            volume: Arc::clone(&volume),
            engine: crate::ENGINE,
        }],
        Limits::default(),
    );
    (served, volume, image)
}

/// Returns the cookie of a request that has succeeded and is not a read.
fn done(raw: &mut Raw) -> u64 {
    if !raw.structured {
        let (error, cookie) = raw.simple_reply();
        assert_eq!(error, 0);
        return cookie;
    }
    let chunk = raw.chunk();
    assert_eq!((chunk.kind, chunk.done), (0, true));
    chunk.cookie
}

/// Receives the replies to reads of `len` bytes each, one behind the other; their cookies count from 0.
fn assert_replies(raw: &mut Raw, count: usize, len: usize, expected: &[u8]) {
    let mut seen = vec![0; count * len];
    let (mut ended, mut bytes) = (0, 0);
    while ended < count {
        let (at, part, is_last) = if raw.structured {
            let chunk = raw.chunk();
            assert!(chunk.kind <= 1);
            match chunk.payload.split_first_chunk() {
                None => (0, Vec::new(), chunk.done),
                Some((at, part)) => (u64::from_be_bytes(*at), part.to_vec(), chunk.done),
            }
        } else {
            let (error, cookie) = raw.simple_reply();
            assert_eq!(error, 0);
            (cookie * len as u64, raw.receive(len), true)
        };
        let at = usize::try_from(at).unwrap();
        seen[at..at + part.len()].copy_from_slice(&part);
        bytes += part.len();
        ended += usize::from(is_last);
    }
    assert_eq!(bytes, seen.len());
    assert!(seen == expected[..seen.len()], "another place's data");
}

fn forget(volume: &Volume) {
    volume.forget_key(LONG).unwrap();
    assert_eq!(volume.key_state(), KeyState::Forgotten);
}

/// Waits until the server has done what it can do for clients that do nothing more.
fn settle(served: &Served) {
    let mut last = (served.server.status().traffic, 0);
    while last.1 < 4 {
        std::thread::sleep(Duration::from_millis(5));
        let now = served.server.status().traffic;
        last = (now, if now == last.0 { last.1 + 1 } else { 0 });
    }
}

#[test]
fn a_busy_volume_forgets_its_key_at_once() {
    let (served, volume, _image) = served();
    let has_ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let clients = (0..6u64).map(|number| {
            let mut raw = match number % 2 {
                0 => served.simple(),
                _ => served.structured(),
            };
            let has_ended = &has_ended;
            scope.spawn(move || {
                let start = number * PART;
                for turn in 0.. {
                    if has_ended.load(Ordering::Relaxed) {
                        break;
                    }
                    exercise(&mut raw, number, start, turn);
                }
            })
        });
        let clients: Vec<_> = clients.collect();
        for _ in 0..40 {
            std::thread::sleep(Duration::from_millis(3));
            forget(&volume);
            recall(&volume);
        }
        has_ended.store(true, Ordering::Relaxed);
        for client in clients {
            client.join().unwrap();
        }
    });
}

/// Sends one kind of requests after the other, each client beginning with another kind.
fn exercise(raw: &mut Raw, number: u64, start: u64, turn: u64) {
    let data = pattern(turn, LEN as usize);
    match (number + turn) % 4 {
        // Durable writes, several at a time.
        0 => {
            for cookie in 0..8 {
                let at = usize::try_from(cookie).unwrap() * 4096;
                raw.write_request(FUA, cookie, start + at as u64, &data[at..at + 4096]);
            }
            // An empty write follows them.
            raw.write_request(0, 8, start, &[]);
            for _ in 0..9 {
                let cookie = done(raw);
                assert!(cookie < 9);
            }
            assert!(raw.read(start, 8 * 4096).unwrap() == data[..8 * 4096]);
        }
        // Long writes, flushed.
        1 => {
            assert_eq!(raw.write(start, &data), 0);
            assert_eq!(raw.command(0, FLUSH, 0, 0), 0);
            assert!(raw.read(start, LEN).unwrap() == data);
        }
        2 => {
            assert_eq!(raw.command(FUA, WRITE_ZEROES, start, 300_000), 0);
            assert!(raw.read(start, 300_000).unwrap() == [0; 300_000]);
        }
        _ => {
            assert_eq!(raw.write(start + MIB, &data), 0);
            assert_eq!(raw.command(0, TRIM, start, LEN), 0);
            assert!(raw.read(start + MIB, LEN).unwrap() == data);
        }
    }
}

/// Long and short writes of which a part has come, durable and not, below others that were received whole.
#[test]
fn half_received_writes_go_on_when_the_key_is_back() {
    let (served, volume, _image) = served();
    for (len, come) in [
        (4096, 100),
        (128 << 10, 70_000),
        (1 << 20, 0),
        (1 << 20, 300_000),
        (1 << 20, (1 << 20) - 1),
    ] {
        for flags in [0, FUA] {
            let mut raw = served.structured();
            let (before, data) = (pattern(1, 4096), pattern(2, len));
            raw.write_request(FUA, 1, 8 * MIB, &before);
            raw.request(flags, WRITE, 2, 300, u32::try_from(len).unwrap());
            raw.send(&data[..come]);
            settle(&served);
            forget(&volume);
            // While it is suspended more comes, as much as the socket takes.
            let more = (come + (16 << 10)).min(len);
            raw.send(&data[come..more]);
            settle(&served);
            forget(&volume);
            recall(&volume);
            raw.send(&data[more..]);
            assert_eq!([done(&mut raw), done(&mut raw)], [1, 2], "{len}, {come}");
            assert!(raw.read(300, u32::try_from(len).unwrap()).unwrap() == data);
            assert!(raw.read(8 * MIB, 4096).unwrap() == before);
        }
    }
}

/// A client goes away after a suspension in the middle of its write: each sector is the old one or the new one.
#[test]
fn half_received_writes_that_are_cut_off_tear_no_sector() {
    let (served, volume, _image) = served();
    let (before, data) = (pattern(4, LEN as usize), pattern(5, LEN as usize));
    for (start, come) in [(0, 100_001), (4096, 262_145), (512, 70_001), (0, 530_000)] {
        let mut good = served.structured();
        assert_eq!(good.write(start, &before), 0);
        let mut raw = served.structured();
        raw.request(0, WRITE, 2, start, LEN);
        raw.send(&data[..come]);
        settle(&served);
        forget(&volume);
        recall(&volume);
        settle(&served);
        drop(raw);
        served.wait_until_clients(1);
        let seen = good.read(start, LEN).unwrap();
        for (at, sector) in seen.chunks(512).enumerate() {
            let place = at * 512..at * 512 + 512;
            let is_new = *sector == data[place.clone()];
            assert!(is_new || *sector == before[place], "{start}, {come}: {at}");
        }
        drop(good);
        served.wait_until_no_client();
    }
}

/// Replies that a client has not read yet are whole when it does.
#[test]
fn half_read_replies_go_on_when_the_key_is_back() {
    let (served, volume, _image) = served();
    let data = pattern(3, usize::try_from(SIZE).unwrap());
    let mut good = served.simple();
    for (at, part) in data.chunks(LEN as usize).enumerate() {
        assert_eq!(good.write(at as u64 * MIB, part), 0);
    }
    for is_structured in [false, true] {
        for len in [100_000u32, 128 << 10, 700_001, 3 << 20] {
            let mut raw = match is_structured {
                true => served.structured(),
                false => served.simple(),
            };
            let count = (SIZE / u64::from(len)).min(40);
            for at in 0..count {
                raw.request(0, READ, at, at * u64::from(len), len);
            }
            let count = usize::try_from(count).unwrap();
            settle(&served);
            forget(&volume);
            recall(&volume);
            assert_replies(&mut raw, count, len as usize, &data);
        }
    }
    assert_eq!(served.server.status().protocol_errors, 0);
}
