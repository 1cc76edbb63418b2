//! Requests on every data path, and tables that are exchanged under them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]
#![allow(clippy::cast_possible_truncation, reason = "what is drawn fits")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use scrim_backend::{Backend, MemoryBackend};
use scrim_seeded::Random;
use scrim_volume::{
    Change, CryptTable, DataPath, Durability, LoadError, ResizeError, Resumed, Statistics, Volume,
};

const SIZE: usize = 8 << 20;
const LONG: Duration = Duration::from_secs(30);

/// The flags of a crypt target, and the data path.
const WAYS: [(&str, DataPath); 11] = [
    ("", DataPath::Auto),
    ("", DataPath::Inline),
    ("", DataPath::Queued),
    ("same_cpu_crypt", DataPath::Queued),
    ("submit_from_crypt_cpus", DataPath::Queued),
    ("high_priority", DataPath::Queued),
    ("no_read_workqueue", DataPath::Queued),
    ("no_write_workqueue", DataPath::Queued),
    ("no_read_workqueue no_write_workqueue", DataPath::Queued),
    ("same_cpu_crypt submit_from_crypt_cpus", DataPath::Queued),
    ("no_read_workqueue", DataPath::Auto),
];

fn table(cipher: &str, flags: &str) -> CryptTable {
    let key = "0123456789abcdef".repeat(8);
    let count = flags.split_whitespace().count() + 1;
    let text = format!(
        "0 {} crypt {cipher} {key} 0 disk 8 {count} sector_size:4096 {flags}\n{} 2048 linear disk {}",
        SIZE / 512 - 2048,
        SIZE / 512 - 2048,
        SIZE / 512 + 8
    );
    CryptTable::parse(&text).unwrap()
}

fn open(flags: &str, path: DataPath) -> (Arc<dyn Backend>, Arc<Volume>) {
    let backend: Arc<dyn Backend> = Arc::new(MemoryBackend::new(vec![0; SIZE + (2 << 20)]));
    let volume = Volume::start(table("aes-xts-plain64", flags), path, |_| {
        Ok(Arc::clone(&backend))
    });
    (backend, Arc::new(volume.unwrap()))
}

fn exchange(volume: &Volume, flags: &str, path: DataPath) {
    volume
        .load(
            table("aes-xts-plain64", flags),
            path,
            Change::OfService,
            |_| panic!("the device is open"),
        )
        .unwrap();
    assert_eq!(volume.resume(LONG).unwrap(), Resumed::OnNewTable);
}

#[test]
fn every_path_stores_the_same_bytes() {
    let mut stored: Option<Vec<u8>> = None;
    for (flags, path) in WAYS {
        let (backend, volume) = open(flags, path);
        let mut random = Random::new(7);
        let mut model = vec![0; SIZE];
        volume
            .write(0, &mut model.clone(), Durability::Cached)
            .unwrap();
        for _ in 0..60 {
            let (offset, len) = range(&mut random);
            let data: Vec<u8> = (0..len).map(|_| random.below(256) as u8).collect();
            model[offset..offset + len].copy_from_slice(&data);
            let durability = if random.below(4) == 0 {
                Durability::Durable
            } else {
                Durability::Cached
            };
            volume
                .write(offset as u64, &mut data.clone(), durability)
                .unwrap();
            let (offset, len) = range(&mut random);
            let mut seen = vec![0; len];
            volume.read(offset as u64, &mut seen).unwrap();
            assert!(seen == model[offset..offset + len], "{flags} {path}");
        }
        let mut bytes = vec![0; SIZE];
        backend.read_at(4096, &mut bytes).unwrap();
        let first = stored.get_or_insert_with(|| bytes.clone());
        assert!(*first == bytes, "{flags} {path}");
    }
}

/// Short and long, whole sectors and parts of them.
fn range(random: &mut Random) -> (usize, usize) {
    let len = match random.below(4) {
        0 => 4096 * (1 + random.below(4) as usize),
        1 => 1 + random.below(20_000) as usize,
        2 => (512 << 10) + random.below(1 << 20) as usize,
        _ => 4096 * random.below(300) as usize,
    };
    let offset = random.below((SIZE - len) as u64) as usize;
    match random.below(2) {
        0 => (offset / 4096 * 4096, len),
        _ => (offset, len),
    }
}

#[test]
fn hand_overs_are_those_of_the_path() {
    let expected = |flags: &str, path| match (flags, path) {
        (_, DataPath::Auto | DataPath::Inline) => (0, 0),
        ("no_read_workqueue", _) => (0, 3),
        ("no_write_workqueue", _) => (3, 0),
        ("no_read_workqueue no_write_workqueue", _) => (0, 0),
        (flags, _) if flags.contains("submit_from_crypt_cpus") => (3, 2),
        _ => (3, 3),
    };
    for (flags, path) in WAYS {
        let (_backend, volume) = open(flags, path);
        let mut block = [1; 4096];
        for _ in 0..20 {
            volume.write(8192, &mut block, Durability::Cached).unwrap();
            volume.read(8192, &mut block).unwrap();
        }
        let Statistics { read, write } = volume.statistics();
        let (reads, writes) = expected(flags, path);
        assert_eq!(read.handovers, 20 * reads, "{flags} {path}");
        assert_eq!(write.handovers, 20 * writes, "{flags} {path}");
        assert_eq!((read.requests, read.bytes, read.in_flight), (20, 81920, 0));
        assert_eq!((write.requests, write.failed), (20, 0));
        assert!(read.latency.count > 0 && read.latency.p50 <= read.latency.max);
    }
}

#[test]
fn an_asynchronous_cipher_has_one_queue_more() {
    let backend: Arc<dyn Backend> = Arc::new(MemoryBackend::new(vec![0; SIZE + (2 << 20)]));
    let cipher = "capi:cryptd(xts(aes))-plain64";
    let volume = Volume::start(table(cipher, ""), DataPath::Queued, |_| {
        Ok(Arc::clone(&backend))
    })
    .unwrap();
    let mut block = [1; 4096];
    volume.write(0, &mut block, Durability::Cached).unwrap();
    volume.read(0, &mut block).unwrap();
    assert_eq!(block, [1; 4096]);
    let Statistics { read, write } = volume.statistics();
    assert_eq!((read.handovers, write.handovers), (4, 4));
}

#[test]
fn tables_are_exchanged_under_load() {
    let (_backend, volume) = open("", DataPath::Auto);
    volume
        .write_zeroes(0, SIZE as u64, Durability::Cached)
        .unwrap();
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|thread| {
                let (volume, ended) = (&volume, &ended);
                scope.spawn(move || write_and_check(volume, thread, ended))
            })
            .collect();
        for round in 0..100 {
            let (flags, path) = WAYS[round % WAYS.len()];
            exchange(&volume, flags, path);
            thread::sleep(Duration::from_millis(1));
        }
        ended.store(true, Ordering::Relaxed);
        for writer in writers {
            assert!(writer.join().unwrap() > 0);
        }
    });
    assert_eq!(volume.generation(), 100);
}

/// Writes to a place of its own and reads it back, until the end; how often.
fn write_and_check(volume: &Volume, thread: usize, ended: &AtomicBool) -> u64 {
    let mut random = Random::new(thread as u64);
    let start = (thread * SIZE / 4) as u64;
    let mut rounds = 0;
    while !ended.load(Ordering::Relaxed) {
        let len = 1 + random.below(200_000) as usize;
        let offset = start + random.below((SIZE / 4 - len) as u64);
        let data: Vec<u8> = (0..len).map(|_| random.below(256) as u8).collect();
        volume
            .write(offset, &mut data.clone(), Durability::Cached)
            .unwrap();
        let mut seen = vec![0; len];
        volume.read(offset, &mut seen).unwrap();
        assert!(seen == data, "round {rounds} at {offset}");
        rounds += 1;
    }
    rounds
}

#[test]
fn a_suspended_volume_holds_requests_until_it_is_resumed() {
    let (_backend, volume) = open("", DataPath::Auto);
    assert!(volume.suspend(LONG) && volume.is_suspended());
    let held = {
        let volume = Arc::clone(&volume);
        thread::spawn(move || volume.write(0, &mut [7; 4096], Durability::Cached))
    };
    while volume.statistics().write.in_flight == 0 {
        thread::yield_now();
    }
    thread::sleep(Duration::from_millis(20));
    assert!(!held.is_finished());
    assert_eq!(volume.resume(LONG).unwrap(), Resumed::AsItWas);
    held.join().unwrap().unwrap();
    let mut seen = [0; 4096];
    volume.read(0, &mut seen).unwrap();
    assert_eq!(seen, [7; 4096]);
}

#[test]
fn another_meaning_wants_consent_and_changes_nothing_without() {
    let (backend, volume) = open("", DataPath::Auto);
    volume.write(0, &mut [7; 4096], Durability::Cached).unwrap();
    let other = || table("aes-xts-plain", "");
    let refused = volume.load(other(), DataPath::Auto, Change::OfService, |_| {
        Ok(Arc::clone(&backend))
    });
    assert!(matches!(refused, Err(LoadError::Meaning(_))));
    assert!(!volume.has_inactive_table());
    assert_eq!(volume.resume(LONG).unwrap(), Resumed::AsItWas);
    volume
        .load(other(), DataPath::Auto, Change::OfMeaning, |_| {
            Ok(Arc::clone(&backend))
        })
        .unwrap();
    assert!(volume.has_inactive_table() && volume.clear() && !volume.has_inactive_table());
    assert_eq!(volume.resume(LONG).unwrap(), Resumed::AsItWas);
    let mut seen = [0; 4096];
    volume.read(0, &mut seen).unwrap();
    assert_eq!(seen, [7; 4096]);
}

#[test]
fn a_volume_keeps_the_size_that_a_loaded_table_was_judged_by() {
    let backend: Arc<dyn Backend> = Arc::new(MemoryBackend::new(vec![0; SIZE]));
    let table = || CryptTable::parse("0 8192 linear disk 0").unwrap();
    let volume = Volume::start(table(), DataPath::Auto, |_| Ok(Arc::clone(&backend))).unwrap();
    volume
        .load(table(), DataPath::Auto, Change::OfService, |_| {
            panic!("the device is open")
        })
        .unwrap();
    assert!(matches!(volume.resize(4096), Err(ResizeError::Loaded)));
    volume.resize(volume.size()).unwrap();
    assert!(volume.clear());
    volume.resize(4096).unwrap();
}
