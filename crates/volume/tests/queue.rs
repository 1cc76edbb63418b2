//! Queues against a model, and against calls from other threads.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use scrim_backend::{Backend, FileBackend, MemoryBackend};
use scrim_seeded::Random;
use scrim_volume::queue::{Engine, Queue, SLOT, Slot};
use scrim_volume::{Change, CryptTable, DataPath, Durability, Resumed, Volume};

const SIZE: usize = 4 << 20;

const LONG: Duration = Duration::from_secs(30);

/// The flags of a crypt target, and the data path.
const WAYS: [(&str, DataPath); 5] = [
    ("", DataPath::Auto),
    ("", DataPath::Queued),
    ("same_cpu_crypt submit_from_crypt_cpus", DataPath::Queued),
    ("no_read_workqueue", DataPath::Queued),
    ("no_write_workqueue", DataPath::Queued),
];

/// Two crypt targets with sectors of 4096 and 512 bytes and a linear one, on a file; past the page cache
/// the first alone.
fn volume(direct: bool) -> (tempfile::TempDir, Arc<Volume>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk.img");
    let backend = FileBackend::create(&path, SIZE as u64 + (1 << 20)).unwrap();
    let backend = if direct {
        backend.past_the_cache().unwrap()
    } else {
        backend
    };
    let backend: Arc<dyn Backend> = Arc::new(backend);
    let table = table(direct, "");
    let volume = Volume::start(table, DataPath::default(), |_| Ok(Arc::clone(&backend))).unwrap();
    (folder, Arc::new(volume))
}

fn table(direct: bool, flags: &str) -> CryptTable {
    let key = "0123456789abcdef".repeat(8);
    let count = flags.split_whitespace().count();
    let with = count + 1;
    // Storage past the page cache may have blocks of 4096 bytes.
    let large =
        format!("0 8192 crypt aes-xts-plain64 {key} 0 disk 8 {with} sector_size:4096 {flags}\n");
    let several = format!(
        "0 4096 crypt aes-xts-plain64 {key} 0 disk 8 {with} sector_size:4096 {flags}\n\
         4096 2048 crypt aes-cbc-essiv:sha256 {} 7 disk 4105 {count} {flags}\n\
         6144 2048 linear disk 6160\n",
        &key[..64]
    );
    CryptTable::parse(if direct { &large } else { &several }).unwrap()
}

/// Another way for the same data, on a [`volume`].
fn exchange(volume: &Volume, direct: bool, flags: &str, path: DataPath) {
    let loaded = volume.load(table(direct, flags), path, Change::OfService, |_| {
        panic!("the device is open")
    });
    loaded.unwrap();
    assert_eq!(volume.resume(LONG).unwrap(), Resumed::OnNewTable);
}

/// A request in flight, and its expected result.
enum Pending {
    Read { offset: usize, expected: Vec<u8> },
    Write { offset: usize, len: usize },
}

/// Random requests on one queue after the other. In between the table is exchanged for one with another
/// way, after which the queue that was made for the old one is still used for a while.
fn run_against_model(volume: &Arc<Volume>, direct: bool, engine: Engine, seed: u64) {
    let mut random = Random::new(seed);
    let mut model = vec![0; SIZE];
    volume.read(0, &mut model).unwrap();
    for round in 0..4 {
        let mapping = volume.mapping();
        let mut queue = match Queue::new(volume, &mapping, engine, &[]) {
            Ok(queue) => queue.unwrap(),
            Err(error) => {
                assert!(std::env::var_os("CI").is_none(), "{engine} in CI: {error}");
                println!("skipped: {error}");
                return;
            }
        };
        requests(&mut queue, &mut model, &mut random, 120);
        #[allow(clippy::cast_possible_truncation, reason = "below 5")]
        let (flags, path) = WAYS[(round + seed as usize) % WAYS.len()];
        exchange(volume, direct, flags, path);
        requests(&mut queue, &mut model, &mut random, 30);
    }
    let mut all = vec![0; SIZE];
    volume.read(0, &mut all).unwrap();
    assert!(all == model, "what calls read, after {engine}");
}

/// Random requests; those in flight never overlap, as their order would be undefined.
fn requests(queue: &mut Queue<'_>, model: &mut [u8], random: &mut Random, count: usize) {
    let mut pending: Vec<(usize, Pending)> = Vec::new();
    for _ in 0..count {
        let (offset, len) = range(random);
        let free = pending.iter().all(|(_, other)| {
            let (start, other) = match other {
                Pending::Read { offset, expected } => (*offset, expected.len()),
                Pending::Write { offset, len } => (*offset, *len),
            };
            offset + len <= start || start + other <= offset
        });
        if free && let Some(slot) = queue.take() {
            let index = slot.index();
            if random.one_in(2) {
                let expected = model[offset..offset + len].to_vec();
                queue.start_read(slot, offset as u64, len);
                pending.push((index, Pending::Read { offset, expected }));
            } else {
                let mut data = vec![0; len];
                random.fill(&mut data);
                model[offset..offset + len].copy_from_slice(&data);
                queue.start_write(slot, offset as u64, &mut data);
                pending.push((index, Pending::Write { offset, len }));
            }
        } else {
            queue.wait().unwrap();
        }
        if random.one_in(30) {
            queue.flush().unwrap();
        }
        if random.one_in(4) {
            queue.submit().unwrap();
        }
        end(queue, &mut pending);
    }
    queue.settle().unwrap();
    end(queue, &mut pending);
    assert!(queue.is_idle() && pending.is_empty());
}

fn end(queue: &mut Queue<'_>, pending: &mut Vec<(usize, Pending)>) {
    while let Some(completion) = queue.next_completion() {
        completion.result.unwrap();
        let index = completion.slot.index();
        let at = pending.iter().position(|(slot, _)| *slot == index).unwrap();
        if let (_, Pending::Read { offset, expected }) = pending.swap_remove(at) {
            let mut read = vec![0; expected.len()];
            queue.collect(&completion.slot, &mut read);
            assert!(read == expected, "{} bytes at {offset}", read.len());
        }
        queue.give_back(completion.slot);
    }
}

/// Mostly whole sectors, sometimes parts of them, sometimes over the targets' borders.
fn range(random: &mut Random) -> (usize, usize) {
    #[allow(clippy::cast_possible_truncation, reason = "below SIZE")]
    let mut below = |most: usize| random.below(most as u64) as usize;
    let unit = [1, 512, 4096, 4096, 4096][below(5)];
    let len = (1 + below(SLOT / unit)).min([1, 8, SLOT][below(3)]) * unit;
    let offset = below((SIZE - len) / unit + 1) * unit;
    (offset, len)
}

#[test]
fn every_engine_reads_what_it_wrote_whatever_the_table() {
    for direct in [false, true] {
        for engine in [Engine::IoUring, Engine::Threads] {
            let (_folder, volume) = volume(direct);
            for seed in 1..=4 {
                run_against_model(&volume, direct, engine, seed);
            }
        }
    }
}

/// Parts of sectors are read, changed and written; the sectors' other bytes stay the others'.
#[test]
fn parts_of_sectors_do_not_undo_what_is_under_way() {
    for engine in [Engine::IoUring, Engine::Threads] {
        let (_folder, volume) = volume(false);
        std::thread::scope(|scope| {
            for thread in 0..3u8 {
                let volume = &volume;
                scope.spawn(move || own_parts(volume, engine, usize::from(thread)));
            }
            for byte in 1..=200u8 {
                for sector in 0..8u64 {
                    let at = sector * 4096 + 4000;
                    volume
                        .write(at, &mut [byte; 10], Durability::Cached)
                        .unwrap();
                }
            }
        });
        for sector in 0..8u64 {
            let mut part = [0; 10];
            volume.read(sector * 4096 + 4000, &mut part).unwrap();
            assert_eq!(part, [200; 10], "{engine}");
        }
    }
}

/// Writes parts of the same sectors that no other request writes, and reads them back.
fn own_parts(volume: &Arc<Volume>, engine: Engine, thread: usize) {
    let mapping = volume.mapping();
    let Ok(Some(mut queue)) = Queue::new(volume, &mapping, engine, &[]) else {
        return;
    };
    let own = |sector: u64| sector * 4096 + 1000 * thread as u64;
    for byte in 1..=100u8 {
        for sector in 0..8 {
            let slot = queue.take().unwrap();
            queue.start_write(slot, own(sector), &mut [byte; 900]);
            // And whole sectors elsewhere in the same region.
            let slot = queue.take().unwrap();
            let at = (1 + thread as u64) * 65536 + sector * 4096;
            queue.start_write(slot, at, &mut [byte; 4096]);
        }
        queue.settle().unwrap();
        end(&mut queue, &mut writes());
        for sector in 0..8 {
            let mut part = [0; 900];
            volume.read(own(sector), &mut part).unwrap();
            assert_eq!(part, [byte; 900]);
        }
        read_own_parts(&mut queue, 1000 * thread, byte);
    }
}

/// Reads the same sectors whole, beside another write of its own.
fn read_own_parts(queue: &mut Queue<'_>, start: usize, byte: u8) {
    let slot = queue.take().unwrap();
    let at = 65536 * (1 + start as u64 / 1000);
    let writing = slot.index();
    queue.start_write(slot, at, &mut [byte; 4096]);
    for sector in 0..8 {
        let slot = queue.take().unwrap();
        queue.start_read(slot, sector * 4096, 4096);
    }
    queue.settle().unwrap();
    while let Some(completion) = queue.next_completion() {
        completion.result.unwrap();
        if completion.slot.index() != writing {
            let mut sector = [0; 4096];
            queue.collect(&completion.slot, &mut sector);
            assert_eq!(sector[start..start + 900], [byte; 900]);
        }
        queue.give_back(completion.slot);
    }
}

/// One for each slot, wherever it is.
fn writes() -> Vec<(usize, Pending)> {
    let write = |slot| (slot, Pending::Write { offset: 0, len: 0 });
    (0..scrim_volume::queue::SLOTS).map(write).collect()
}

#[test]
fn a_wait_ends_when_a_watched_file_can_be_read() {
    let (_folder, volume) = volume(false);
    for engine in [Engine::IoUring, Engine::Threads] {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mapping = volume.mapping();
        let Ok(queue) = Queue::new(&volume, &mapping, engine, &[ours.as_fd()]) else {
            continue;
        };
        let mut queue = queue.unwrap();
        drop(theirs);
        queue.wait().unwrap();
        assert!(queue.next_completion().is_none());
    }
}

#[test]
fn a_wait_ends_when_another_table_is_at_work() {
    let (_folder, volume) = volume(false);
    for (engine, path) in [
        (Engine::IoUring, DataPath::Auto),
        (Engine::Threads, DataPath::Auto),
        (Engine::Plain, DataPath::Queued),
    ] {
        exchange(&volume, false, "", path);
        let waiting = std::thread::scope(|scope| {
            let (made, is_made) = std::sync::mpsc::channel();
            let idle = scope.spawn(|| {
                let made = made;
                let mapping = volume.mapping();
                let Ok(Some(mut queue)) = Queue::new(&volume, &mapping, engine, &[]) else {
                    return;
                };
                let ahead = volume.generation();
                made.send(()).unwrap();
                while volume.generation() == ahead {
                    queue.wait().unwrap();
                }
            });
            let waiting = is_made.recv().is_ok();
            exchange(&volume, false, "", path);
            idle.join().unwrap();
            waiting
        });
        assert!(waiting || engine == Engine::IoUring, "{engine}");
    }
}

#[test]
fn what_a_volume_refuses_a_queue_refuses() {
    let (_folder, volume) = volume(false);
    for engine in [Engine::IoUring, Engine::Threads] {
        let mapping = volume.mapping();
        let Ok(Some(mut queue)) = Queue::new(&volume, &mapping, engine, &[]) else {
            continue;
        };
        let slot: Slot = queue.take().unwrap();
        queue.start_read(slot, SIZE as u64 - 4096, 8192);
        let slot = queue.take().unwrap();
        queue.start_write(slot, SIZE as u64, &mut [0; 512]);
        queue.settle().unwrap();
        for _ in 0..2 {
            let completion = queue.next_completion().unwrap();
            assert!(completion.result.is_err());
            queue.give_back(completion.slot);
        }
    }
}

/// A queue's connection may want a flush while the storage is slow and another thread waits for it.
#[test]
fn a_flush_is_not_in_the_way_of_a_thread_that_waits_for_requests_in_flight() {
    let (_folder, volume) = volume(false);
    let mapping = volume.mapping();
    let mut queue = Queue::new(&volume, &mapping, Engine::Threads, &[])
        .unwrap()
        .unwrap();
    let slot = queue.take().unwrap();
    queue.start_read(slot, 0, 4096);
    std::thread::scope(|scope| {
        let suspended = scope.spawn(|| volume.suspend(LONG));
        while !queue.is_waited_for() {
            std::thread::yield_now();
        }
        queue.flush().unwrap();
        queue.settle().unwrap();
        assert!(suspended.join().unwrap());
    });
}

/// Of the table that was at work when it was made.
#[test]
fn a_stale_queue_goes_on_with_the_new_table_and_counts_once() {
    let (_folder, volume) = volume(false);
    let mapping = volume.mapping();
    for engine in [Engine::IoUring, Engine::Threads] {
        let Ok(Some(mut queue)) = Queue::new(&volume, &mapping, engine, &[]) else {
            continue;
        };
        exchange(&volume, false, "", DataPath::Queued);
        let before = volume.statistics();
        let slot = queue.take().unwrap();
        let written = slot.index();
        queue.start_write(slot, 4096, &mut [7; 4096]);
        let slot = queue.take().unwrap();
        queue.start_read(slot, 4096, 4096);
        queue.settle().unwrap();
        while let Some(completion) = queue.next_completion() {
            completion.result.unwrap();
            if completion.slot.index() != written {
                let mut seen = [0; 4096];
                queue.collect(&completion.slot, &mut seen);
                assert_eq!(seen, [7; 4096]);
            }
            queue.give_back(completion.slot);
        }
        let after = volume.statistics();
        assert_eq!(after.read.requests, before.read.requests + 1);
        assert_eq!(after.write.requests, before.write.requests + 1);
        assert_eq!(after.write.bytes, before.write.bytes + 4096);
        // On its old table nothing is in flight: it can go at once.
        assert!(volume.suspend(LONG));
        volume.resume(LONG).unwrap();
    }
}

#[test]
fn the_engine_follows_what_the_volume_lies_on() {
    let (_folder, cached) = volume(false);
    assert_eq!(Engine::for_volume(&cached), Engine::Plain);
    let (_folder, direct) = volume(true);
    assert_ne!(Engine::for_volume(&direct), Engine::Plain);
    let table = CryptTable::parse("0 8 linear x 0\n").unwrap();
    let memory: Arc<dyn Backend> = Arc::new(MemoryBackend::new(vec![0; 4096]));
    let volume = Volume::start(table, DataPath::default(), |_| Ok(Arc::clone(&memory))).unwrap();
    assert_eq!(Engine::for_volume(&volume), Engine::Plain);
    for engine in [Engine::Plain, Engine::IoUring, Engine::Threads] {
        assert_eq!(engine.to_string().parse(), Ok(engine));
    }
    assert!("fast".parse::<Engine>().is_err());
}
