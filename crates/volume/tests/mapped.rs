//! Long reads of a file in the page cache, which are decrypted where the pages lie: they give the bytes that reads by
//! calls give, beside changes too, and a file that is cut short is an error.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use scrim_backend::{Access, Backend, Durability, FileBackend, MemoryBackend};
use scrim_volume::{CryptTable, DataPath, Volume};

/// Bytes of the storage, and of the part before the volume.
const SIZE: usize = 4 << 20;
const BEFORE: usize = 4096;

fn bytes() -> Vec<u8> {
    let byte = |at: usize| u8::try_from(at * at / 7 % 251).unwrap();
    (0..SIZE).map(byte).collect()
}

fn volume(path: DataPath, sector_size: usize, backend: &Arc<dyn Backend>) -> Volume {
    let key = "ab".repeat(32) + &"cd".repeat(32);
    let sectors = (SIZE - BEFORE) / 512;
    let offset = BEFORE / 512;
    let line = format!(
        "0 {sectors} crypt aes-xts-plain64 {key} 0 image {offset} 1 sector_size:{sector_size}"
    );
    let table = CryptTable::parse(&line).unwrap();
    Volume::start(table, path, |_| Ok(Arc::clone(backend))).unwrap()
}

fn file(path: &Path) -> Arc<dyn Backend> {
    std::fs::write(path, bytes()).unwrap();
    Arc::new(FileBackend::open(path, Access::ReadWrite).unwrap())
}

#[test]
fn long_reads_are_the_same_as_from_memory() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("image");
    for sector_size in [512, 4096] {
        for data_path in [DataPath::Inline, DataPath::Auto] {
            let mapped = volume(data_path, sector_size, &file(&path));
            let memory: Arc<dyn Backend> = Arc::new(MemoryBackend::new(bytes()));
            let called = volume(data_path, sector_size, &memory);
            for (offset, len) in [
                (0, 32 << 10),
                (0, SIZE - BEFORE),
                (4096, 1 << 20),
                (100, 300_001),
                ((1 << 20) - 4096, 200_000),
            ] {
                let (mut found, mut wanted) = (vec![1; len], vec![2; len]);
                mapped.read(offset, &mut found).unwrap();
                called.read(offset, &mut wanted).unwrap();
                assert!(
                    found == wanted,
                    "{sector_size} {data_path:?} {offset} {len}"
                );
            }
        }
    }
}

/// A change of a part of a sector stores the whole sector: the other bytes must not be noise for a moment.
#[test]
fn bytes_that_nobody_writes_stay_beside_changes() {
    let place = tempfile::tempdir().unwrap();
    let volume = volume(DataPath::Inline, 4096, &file(&place.path().join("image")));
    let plain = vec![5; 256 << 10];
    volume
        .write(0, &mut plain.clone(), Durability::Cached)
        .unwrap();
    let has_ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for turn in 0..20_000_usize {
                let offset = (turn * 7919 % 64 * 4096) as u64;
                let mut byte = [u8::try_from(turn % 256).unwrap()];
                volume.write(offset, &mut byte, Durability::Cached).unwrap();
            }
            has_ended.store(true, Ordering::Relaxed);
        });
        let mut found = vec![0; plain.len()];
        while !has_ended.load(Ordering::Relaxed) {
            volume.read(0, &mut found).unwrap();
            for sector in found.chunks(4096) {
                assert!(sector[1..].iter().all(|&byte| byte == 5));
            }
        }
    });
}

#[test]
fn a_file_that_is_cut_short_is_an_error() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("image");
    let volume = volume(DataPath::Inline, 512, &file(&path));
    let mut found = vec![0; 1 << 20];
    volume.read(0, &mut found).unwrap();
    let before = found.clone();
    let image = File::options().write(true).open(&path).unwrap();
    image.set_len(512 << 10).unwrap();
    assert!(volume.read(0, &mut found).is_err());
    // The bytes before the cut can still be read.
    volume.read(0, &mut found[..256 << 10]).unwrap();
    assert!(found[..256 << 10] == before[..256 << 10]);
}
