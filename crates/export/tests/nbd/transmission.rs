//! The transmission phase: requests of every kind, and their replies.

use std::io::Write;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use scrim_volume::DataPath;
use scrim_volume::queue::Engine;

use scrim_export::limits;
use scrim_export::nbd::limits::PAYLOAD;

use crate::common::*;

const EPERM: u32 = 1;
const EIO: u32 = 5;
const EINVAL: u32 = 22;
const ENOSPC: u32 = 28;
const ENOTSUP: u32 = 95;

const PIECE: u64 = limits::PIECE as u64;

const LONG: u64 = limits::LONG_SEND_BUFFER as u64;

/// Lengths around every boundary of the data path.
const LENGTHS: [u64; 18] = [
    0,
    1,
    511,
    512,
    4096,
    4097,
    PIECE - 1,
    PIECE,
    PIECE + 1,
    2 * PIECE - 20,
    2 * PIECE,
    2 * PIECE + 512,
    LONG - 28,
    LONG - 27,
    LONG - 16,
    LONG - 15,
    LONG + 512,
    5 * MIB + 7,
];

fn both_kinds(served: &Served) -> [Raw; 2] {
    [served.simple(), served.structured()]
}

#[test]
fn what_is_written_is_read_at_any_offset_and_length() {
    let (volume, backend) = crypt_volume(16 * MIB);
    let served = Served::new(volume);
    for mut raw in both_kinds(&served) {
        for (seed, &len) in LENGTHS.iter().enumerate() {
            for offset in [0, 512, 4096 + 7, 16 * MIB - len] {
                let len = usize::try_from(len).unwrap();
                let data = pattern(seed as u64 + offset, len);
                assert_eq!(raw.write(offset, &data), 0);
                let read = raw.read(offset, u32::try_from(len).unwrap()).unwrap();
                assert!(read == data, "{len} bytes at {offset}");
            }
        }
    }
    let plain = pattern(0, 64);
    let mut raw = served.simple();
    raw.write(0, &plain);
    let stored = backend.memory.contents();
    assert!(
        !stored.windows(16).any(|part| part == &plain[..16]),
        "encrypted"
    );
}

/// Never two content chunks: `NBD_CMD_FLAG_DF` holds for any length.
#[test]
fn structured_reads_are_one_chunk() {
    let served = Served::new(crypt_volume(16 * MIB).0);
    let mut raw = served.structured();
    for len in [512, 65536, 3 << 20] {
        raw.request(DF, READ, 9, 0, len);
        let chunk = raw.chunk();
        assert_eq!((chunk.kind, chunk.cookie), (1, 9));
        assert_eq!(chunk.payload.len(), len as usize + 8);
        if !chunk.done {
            let chunk = raw.chunk();
            assert_eq!((chunk.kind, chunk.cookie, chunk.done), (0, 9, true));
        }
    }
}

/// Many requests sent at once are received by few calls and answered by few calls, except where each is
/// answered as soon as another thread has done it.
#[test]
fn pipelined_requests_share_system_calls() {
    let (volume, _) = crypt_volume(16 * MIB);
    let served = Served::new(volume);
    let mut raw = served.simple();
    let before = served.server.status().traffic;
    let mut bytes = Vec::new();
    for cookie in 0..1000 {
        bytes.extend(request(0, READ, cookie, cookie * 512, 16));
    }
    raw.send(&bytes);
    raw.reads_in_any_order(1000, 16);
    let after = served.server.status().traffic;
    assert_eq!(after.read.requests - before.read.requests, 1000);
    assert_eq!(after.read.bytes - before.read.bytes, 16_000);
    // 28 000 bytes come at once or nearly so.
    assert!(after.receives - before.receives <= 10, "{after:?}");
    let threads = crate::ENGINE == Engine::Threads || crate::PATH == DataPath::Queued;
    let few = threads || after.sends - before.sends <= 10;
    assert!(few, "{after:?}");
}

/// A slow storage must not take its time for one piece after the other, nor a client's break end that.
#[test]
fn pieces_of_a_long_write_are_at_the_storage_together() {
    if crate::ENGINE != Engine::Threads || crate::PATH == DataPath::Queued {
        return;
    }
    // Ends a test that hangs.
    const HANGS: Duration = Duration::from_secs(30);
    // More than are received at a time.
    const TOGETHER: usize = 4;
    let (volume, backend) = crypt_volume(16 * MIB);
    let there = Arc::new((Mutex::new(0), Condvar::new()));
    let arrived = Arc::clone(&there);
    let wait_for = move |count: usize| {
        let (there, changed) = &*arrived;
        let begun = there.lock().unwrap();
        let waited = changed.wait_timeout_while(begun, HANGS, |begun| *begun < count);
        assert!(!waited.unwrap().1.timed_out(), "{count} are never there");
    };
    let waits = wait_for.clone();
    let on_write = move || {
        *there.0.lock().unwrap() += 1;
        there.1.notify_all();
        waits(TOGETHER);
    };
    assert!(backend.on_write.set(Box::new(on_write)).is_ok());
    let served = Served::new(volume);
    let mut raw = served.simple();
    let data = pattern(3, 1 << 20);
    let (first, rest) = data.split_at(300_000);
    raw.request(0, WRITE, 7, 0, 1 << 20);
    raw.stream.write_all(first).unwrap();
    wait_for(1);
    raw.stream.write_all(rest).unwrap();
    assert_eq!(raw.status(7), 0);
    assert!(raw.read(0, 1 << 20) == Ok(data));
}

#[test]
fn durability_reaches_the_backend_once_per_request() {
    let (volume, backend) = crypt_volume(16 * MIB);
    // Flushes, and writes that are durable by themselves.
    let settled = || {
        let [flushes, durable, _] = backend.counts();
        flushes + durable
    };
    let served = Served::new(volume);
    let mut raw = served.simple();
    raw.write_request(0, 1, 0, &pattern(1, 4096));
    assert_eq!(raw.status(1), 0);
    assert_eq!(settled(), 0);
    raw.write_request(FUA, 1, 0, &pattern(1, 4096));
    assert_eq!(raw.status(1), 0);
    assert_eq!(settled(), 1);
    raw.write_request(FUA, 1, 0, &pattern(1, 3 << 20));
    assert_eq!(raw.status(1), 0);
    assert_eq!(settled(), 2, "a long write is settled by one flush");
    assert_eq!(raw.command(0, FLUSH, 0, 0), 0);
    assert_eq!(settled(), 3);
    assert_eq!(raw.command(FUA, WRITE_ZEROES, 0, 8 << 20), 0);
    assert_eq!(settled(), 4);
    assert_eq!(
        raw.command(FUA, READ, 0, 0),
        0,
        "allowed with every command"
    );
    assert_eq!(settled(), 4);
}

#[test]
fn zeroes_are_written_encrypted() {
    let (volume, backend) = crypt_volume(MIB);
    let served = Served::new(volume);
    for mut raw in both_kinds(&served) {
        raw.write(0, &pattern(3, 8192));
        assert_eq!(raw.command(2, WRITE_ZEROES, 100, 5000), 0);
        let expected: Vec<u8> = pattern(3, 8192)
            .into_iter()
            .enumerate()
            .map(|(at, byte)| if (100..5100).contains(&at) { 0 } else { byte })
            .collect();
        assert_eq!(raw.read(0, 8192).unwrap(), expected);
        assert!(
            backend.memory.contents()[512..4608]
                .iter()
                .any(|&byte| byte != 0)
        );
        assert_eq!(raw.command(FAST_ZERO, WRITE_ZEROES, 0, 4096), ENOTSUP);
        assert_eq!(raw.read(0, 8192).unwrap(), expected);
    }
}

#[test]
fn trim_passes_where_it_is_allowed() {
    let (volume, backend) = crypt_volume(MIB);
    let served = Served::new(volume);
    for mut raw in both_kinds(&served) {
        assert_eq!(raw.command(0, TRIM, 0, 4096), EINVAL);
    }
    assert_eq!(backend.counts()[2], 0);

    let backend = Counting::new(64 * MIB);
    let table = crypt_table(64 * MIB, "1 allow_discards");
    let served = Served::new(volume_of(&table, &backend));
    for mut raw in both_kinds(&served) {
        assert_eq!(raw.command(0, TRIM, 0, 4096), 0);
        assert_eq!(raw.command(FUA, TRIM, 4096, 60 << 20), 0);
    }
    assert!(backend.counts()[2] >= 4);
    assert_eq!(backend.counts()[0], 2, "one flush for each trim with FUA");
}

fn volume_of(
    table: &str,
    backend: &std::sync::Arc<Counting>,
) -> std::sync::Arc<scrim_volume::Volume> {
    volume(table, backend)
}

#[test]
fn the_status_of_every_block_is_allocated_data() {
    let served = Served::new(crypt_volume(MIB).0);
    let mut raw = served.structured();
    for (flags, offset, len) in [(0, 0, 1 << 20), (8, 4096, 512)] {
        raw.request(flags, BLOCK_STATUS, 5, offset, len);
        let chunk = raw.chunk();
        assert_eq!((chunk.kind, chunk.cookie, chunk.done), (5, 5, true));
        let mut expected = 1u32.to_be_bytes().to_vec();
        expected.extend(len.to_be_bytes());
        expected.extend([0; 4]);
        assert_eq!(chunk.payload, expected);
    }
    assert_eq!(raw.command(0, BLOCK_STATUS, 0, 0), EINVAL);
    assert_eq!(raw.command(0, BLOCK_STATUS, MIB, 1), EINVAL);
    assert_eq!(served.simple().command(0, BLOCK_STATUS, 0, 512), EINVAL);
}

#[test]
fn cache_reads_and_says_only_whether_it_worked() {
    let served = Served::new(failing_volume());
    for mut raw in both_kinds(&served) {
        assert_eq!(raw.command(0, CACHE, 0, 1 << 20), 0);
        assert_eq!(raw.command(0, CACHE, 0, (1 << 20) + 512), EIO);
        assert_eq!(raw.command(0, CACHE, 0, u32::MAX), EINVAL);
    }
}

/// 1 MiB of good sectors, 1 MiB where every request fails, 1 MiB of good sectors.
fn failing_volume() -> std::sync::Arc<scrim_volume::Volume> {
    let backend = Counting::new(4 * MIB);
    let table = "0 2048 linear memory 0\n2048 2048 error\n4096 2048 linear memory 2048";
    volume(table, &backend)
}

/// An error anywhere in a request fails that request, and only that one.
#[test]
fn errors_of_the_volume_are_answered_and_the_client_goes_on() {
    let served = Served::new(failing_volume());
    for mut raw in both_kinds(&served) {
        for (offset, len) in [
            (MIB, 512),
            (MIB - 512, 1024),
            (MIB - 512, 1 << 20),
            (0, 3 << 20),
            (2 * MIB - 1, 1),
            (2 * MIB - 1, 900_000),
        ] {
            assert_eq!(raw.read(offset, len), Err(EIO), "read {len} at {offset}");
            let data = pattern(1, len as usize);
            assert_eq!(raw.write(offset, &data), EIO, "write {len} at {offset}");
            assert_eq!(raw.command(0, WRITE_ZEROES, offset, len), EIO);
        }
        assert_eq!(raw.write(2 * MIB, &pattern(2, 4096)), 0);
        assert_eq!(raw.read(2 * MIB, 4096).unwrap(), pattern(2, 4096));
    }
    let status = served.server.status();
    assert_eq!(status.traffic.failed, 2 * 18);
    assert_eq!(status.events.len(), 2 * 18);
    assert!(
        status.events[0]
            .incident
            .to_string()
            .contains("error target")
    );
}

/// After data has been sent, its error is told with the offset. What was announced and could not be read
/// is zeros; a queue announces each piece for itself, when it is there.
#[test]
fn an_error_within_a_long_read_is_placed() {
    let served = Served::new(failing_volume());
    served.simple().write(0, &vec![7; 1 << 20]);
    let mut raw = served.structured();
    raw.request(0, READ, 4, 0, 3 << 20);
    let error = loop {
        let chunk = raw.chunk();
        if chunk.kind != 1 {
            break chunk;
        }
        assert!(!chunk.done);
        let (at, part) = chunk.payload.split_first_chunk().unwrap();
        let good = MIB.saturating_sub(u64::from_be_bytes(*at));
        let good = part.len().min(usize::try_from(good).unwrap());
        assert!(part[..good].iter().all(|&byte| byte == 7));
        assert!(part[good..].iter().all(|&byte| byte == 0));
    };
    assert_eq!((error.kind, error.done), (0x8002, true));
    assert_eq!(error.payload[..4], EIO.to_be_bytes());
    let (_, at) = error.payload.split_last_chunk().unwrap();
    assert!((MIB..2 * MIB).contains(&u64::from_be_bytes(*at)));
}

#[test]
fn a_write_out_of_range_is_received_and_refused() {
    let (volume, backend) = crypt_volume(MIB);
    let served = Served::new(volume);
    for mut raw in both_kinds(&served) {
        assert_eq!(raw.write(MIB - 512, &pattern(1, 1024)), ENOSPC);
        assert_eq!(raw.write(u64::MAX - 511, &pattern(1, 512)), ENOSPC);
        assert_eq!(raw.write(MIB, &pattern(1, 3 << 20)), ENOSPC);
        assert_eq!(raw.read(MIB - 512, 1024), Err(EINVAL));
        assert_eq!(raw.read(u64::MAX, u32::MAX), Err(EINVAL));
        assert_eq!(raw.command(0, WRITE_ZEROES, MIB, 1), ENOSPC);
        let too_long = pattern(1, PAYLOAD as usize + 1);
        assert_eq!(raw.write(0, &too_long), EINVAL);
        assert_eq!(raw.read(0, PAYLOAD + 1), Err(EINVAL));
        assert_eq!(raw.command(0, 99, 0, 512), EINVAL);
        assert_eq!(raw.command(0x8000, WRITE_ZEROES, 0, 512), EINVAL);
        assert_eq!(raw.command(0, FLUSH, 0, 0), 0, "still in step");
    }
    assert!(backend.memory.contents().iter().all(|&byte| byte == 0));
    assert_eq!(served.server.status().traffic.refused, 20);
}

#[test]
fn the_longest_payload_is_served() {
    let (volume, _) = crypt_volume(u64::from(PAYLOAD));
    let served = Served::new(volume);
    let data = pattern(8, PAYLOAD as usize);
    for mut raw in both_kinds(&served) {
        assert_eq!(raw.write(0, &data), 0);
        assert!(raw.read(0, PAYLOAD).unwrap() == data);
    }
}

/// `NBD_FLAG_CAN_MULTI_CONN`: every connection sees one volume.
#[test]
fn connections_see_each_others_writes() {
    let served = Served::new(crypt_volume(MIB).0);
    let mut clients: Vec<Raw> = (0..8).map(|_| served.simple()).collect();
    for turn in 0..clients.len() {
        let data = pattern(turn as u64, 4096);
        assert_eq!(clients[turn].write(512, &data), 0);
        for client in &mut clients {
            assert_eq!(client.read(512, 4096).unwrap(), data);
        }
    }
    assert_eq!(served.server.connections(), 8);
}

#[test]
fn a_read_only_volume_is_not_written() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("image");
    std::fs::write(&path, pattern(5, 1 << 20)).unwrap();
    let table = scrim_volume::CryptTable::parse("0 2048 linear image 0").unwrap();
    let volume = scrim_volume::Volume::start(table, scrim_volume::DataPath::default(), |_| {
        let access = scrim_backend::Access::ReadOnly;
        Ok(std::sync::Arc::new(scrim_backend::FileBackend::open(
            &path, access,
        )?))
    });
    let served = Served::new(std::sync::Arc::new(volume.unwrap()));
    let mut raw = served.connect();
    raw.greet(3);
    let replies = raw.option(7, &info_data("", &[]));
    // HAS_FLAGS, READ_ONLY, SEND_FLUSH, SEND_FUA, MULTI_CONN, CACHE
    assert_eq!(replies[0].1[10..], 0b101_0000_1111_u16.to_be_bytes());
    for mut raw in both_kinds(&served) {
        assert_eq!(raw.write(0, &pattern(1, 4096)), EPERM);
        assert_eq!(raw.write(0, &pattern(1, 4 << 20)), EPERM);
        assert_eq!(raw.command(0, TRIM, 0, 4096), EPERM);
        assert_eq!(raw.command(0, WRITE_ZEROES, 0, 4096), EPERM);
        assert_eq!(raw.command(0, FLUSH, 0, 0), 0);
        assert_eq!(raw.read(0, 1 << 20).unwrap(), pattern(5, 1 << 20));
    }
}

#[test]
fn disconnecting_needs_no_reply() {
    let served = Served::new(crypt_volume(MIB).0);
    let mut raw = served.simple();
    raw.write_request(0, 1, 0, &[1; 512]);
    raw.request(0, DISC, 2, 0, 0);
    assert_eq!(raw.status(1), 0);
    assert!(raw.is_closed());
    served.wait_until_no_client();
    assert!(served.server.status().events.is_empty());
}
