//! Reading in two steps: what is fetched as it is stored and decrypted later is what a read gives.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::io::IoSliceMut;
use std::sync::Arc;

use scrim_backend::{Access, Backend, FileBackend, MemoryBackend};
use scrim_volume::{CryptTable, DataPath, Volume};

/// Bytes of the storage, and of the volume's first target.
const SIZE: usize = 256 << 10;
const FIRST: usize = 128 << 10;

fn bytes() -> Vec<u8> {
    (0..SIZE)
        .map(|at| u8::try_from(at * at / 7 % 251).unwrap())
        .collect()
}

/// Two crypt targets with sectors of 4096 bytes, the second from a place of its own on.
fn volume(path: DataPath, backend: &Arc<dyn Backend>) -> Volume {
    let key = "ab".repeat(32) + &"cd".repeat(32);
    let line = |start: usize, offset: usize| {
        let (start, len, offset) = (start / 512, FIRST / 512, offset / 512);
        format!("{start} {len} crypt aes-xts-plain64 {key} 0 image {offset} 1 sector_size:4096\n")
    };
    let table = line(0, FIRST) + &line(FIRST, 0);
    let table = CryptTable::parse(&table).unwrap();
    Volume::start(table, path, |_| Ok(Arc::clone(backend))).unwrap()
}

fn on_file(place: &tempfile::TempDir) -> Arc<dyn Backend> {
    let path = place.path().join("image");
    std::fs::write(&path, bytes()).unwrap();
    Arc::new(FileBackend::open(&path, Access::ReadOnly).unwrap())
}

#[test]
fn what_was_fetched_becomes_what_is_read() {
    let place = tempfile::tempdir().unwrap();
    let volume = volume(DataPath::Auto, &on_file(&place));
    for (offset, lens) in [
        (0, [4096, 4096, 8192]),
        (FIRST - 8192, [4096, 4096, 0]),
        (FIRST, [16_384, 4096, 4096]),
        (FIRST + 12_288, [8192, 12_288, 65_536]),
    ] {
        let offset = offset as u64;
        let mut pieces = lens.map(|len| vec![0; len]);
        let mut slices = pieces.each_mut().map(|piece| IoSliceMut::new(piece));
        let (len, stored) = volume.fetch_now(offset, &mut slices).unwrap();
        assert_eq!(len, lens.iter().sum::<usize>());
        let mut wanted = vec![0; len];
        volume.read(offset, &mut wanted).unwrap();
        // From the back to the front, and a sector at a time.
        let mut end = len;
        for piece in pieces.iter_mut().rev() {
            for sector in piece.chunks_mut(4096).rev() {
                end -= sector.len();
                stored.decrypt(offset + end as u64, sector);
                assert_eq!(sector, &wanted[end..end + sector.len()]);
            }
        }
        stored.check().unwrap();
    }
    let statistics = volume.statistics();
    assert_eq!(
        (statistics.read.requests, statistics.read.in_flight),
        (8, 0)
    );
}

#[test]
fn what_cannot_be_fetched_is_left_to_a_read() {
    let place = tempfile::tempdir().unwrap();
    let file = on_file(&place);
    let fetches = |volume: &Volume, offset: usize, len: usize| {
        let mut room = vec![0; len];
        let fetched = volume.fetch_now(offset as u64, &mut [IoSliceMut::new(&mut room)]);
        assert_eq!(volume.statistics().read.in_flight, 0);
        fetched.is_some()
    };
    let usual = volume(DataPath::Inline, &file);
    assert!(fetches(&usual, 0, 4096));
    for (offset, len) in [
        (512, 4096),
        (0, 512),
        (FIRST - 4096, 8192),
        (SIZE, 4096),
        (SIZE - 4096, 8192),
    ] {
        assert!(!fetches(&usual, offset, len), "{offset} {len}");
    }
    assert!(!fetches(&volume(DataPath::Queued, &file), 0, 4096));
    let memory: Arc<dyn Backend> = Arc::new(MemoryBackend::new(bytes()));
    assert!(!fetches(&volume(DataPath::Inline, &memory), 0, 4096));
    assert!(usual.suspend(std::time::Duration::from_secs(10)));
    assert!(!fetches(&usual, 0, 4096));
}

/// Fetched sectors lie in the page cache, and can go while they are waited for.
#[test]
fn storage_that_is_cut_short_meanwhile_is_an_error() {
    let place = tempfile::tempdir().unwrap();
    let volume = volume(DataPath::Inline, &on_file(&place));
    let mut room = vec![0; 16_384];
    let place_of = |sector: usize| (FIRST + 4096 * sector) as u64;
    let fetched = [2, 3, 1].map(|sector| {
        let fetched = volume.fetch_now(place_of(sector), &mut [IoSliceMut::new(&mut [0; 4096])]);
        let (len, stored) = fetched.unwrap();
        assert_eq!(len, 4096);
        (sector, stored)
    });
    let file = std::fs::File::options()
        .write(true)
        .open(place.path().join("image"))
        .unwrap();
    // The rest of the page are zeros then, which must not pass for ciphertext.
    file.set_len(8192 + 512).unwrap();
    for (sector, stored) in fetched {
        stored.decrypt(place_of(sector), &mut [0; 4096]);
        let checked = stored.check();
        assert!(
            checked.is_err(),
            "{sector}: after one, nothing counts any more"
        );
    }
    // It goes on with calls, which see the same end.
    file.set_len(SIZE as u64).unwrap();
    let fetched = volume.fetch_now(FIRST as u64, &mut [IoSliceMut::new(&mut room)]);
    let (len, stored) = fetched.unwrap();
    let mut wanted = vec![0; len];
    volume.read(FIRST as u64, &mut wanted).unwrap();
    stored.decrypt(FIRST as u64, &mut room[..len]);
    stored.check().unwrap();
    assert!(room[..len] == wanted[..] && len == room.len());
}
