//! A volume against a plain array of bytes: whatever the sizes and offsets, both hold the same.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    reason = "a failing test may panic"
)]

use std::sync::{Arc, Mutex};

use scrim_backend::{Backend, BackendError, Durability, HeaderLock, Info, LockKind, MemoryBackend};
use scrim_seeded::Random;
use scrim_volume::{CryptTable, DataPath, Errno, Volume, VolumeError};

const MIB: usize = 1 << 20;

fn key() -> String {
    (1..=64u8).map(|byte| format!("{byte:02x}")).collect()
}

fn volume(table: &str, bytes: usize) -> (Volume, Arc<MemoryBackend>) {
    let memory = Arc::new(MemoryBackend::new(vec![0xa5; bytes]));
    let backend: Arc<dyn Backend> = Arc::clone(&memory) as _;
    let table = CryptTable::parse(table).unwrap();
    let volume = Volume::start(table, DataPath::default(), |_| Ok(Arc::clone(&backend))).unwrap();
    (volume, memory)
}

fn agree_with_a_model(table: &str, seed: u64) {
    let (volume, _) = volume(table, 3 * MIB);
    let size = usize::try_from(volume.size()).unwrap();
    let mut model = vec![0; size];
    volume
        .write_zeroes(0, volume.size(), Durability::Cached)
        .unwrap();
    let mut random = Random::new(seed);
    for round in 0..400 {
        let offset = random.index(size);
        let len = match random.index(3) {
            0 => random.index(1500),
            1 => random.index(9) * 512,
            _ => random.index(200_000),
        }
        .min(size - offset);
        let at = offset as u64;
        let durability = [Durability::Cached, Durability::Durable][random.index(2)];
        match random.index(4) {
            0 => {
                let end = offset + len;
                volume.write_zeroes(at, len as u64, durability).unwrap();
                model[offset..end].fill(0);
            }
            1 => {
                let mut read = vec![0xee; len];
                volume.read(at, &mut read).unwrap();
                assert!(read == model[offset..offset + len], "round {round}");
            }
            _ => {
                let mut data: Vec<u8> = (0..len).map(|i| (i * 31 + round) as u8).collect();
                model[offset..offset + len].copy_from_slice(&data);
                volume.write(at, &mut data, durability).unwrap();
            }
        }
    }
    let mut all = vec![0; size];
    volume.read(0, &mut all).unwrap();
    assert!(all == model);
}

#[test]
fn any_offset_and_length_on_small_sectors() {
    let key = key();
    agree_with_a_model(&format!("0 4000 crypt aes-xts-plain64 {key} 7 /d 16"), 1);
}

#[test]
fn any_offset_and_length_on_large_sectors() {
    let key = key();
    let options = "1 sector_size:4096";
    agree_with_a_model(
        &format!("0 4000 crypt aes-xts-plain64 {key} 8 /d 16 {options}"),
        2,
    );
    let options = "2 sector_size:4096 iv_large_sectors";
    agree_with_a_model(
        &format!("0 4000 crypt aes-xts-plain64 {key} 8 /d 16 {options}"),
        3,
    );
}

#[test]
fn requests_cross_from_target_to_target() {
    let key = key();
    agree_with_a_model(
        &format!(
            "0 1000 crypt aes-xts-plain64 {key} 0 /d 0\n\
             1000 8 linear /d 1000\n\
             1008 992 crypt aes-xts-plain {key} 0 /d 2000 1 sector_size:4096"
        ),
        4,
    );
}

/// A 4 KiB sector's IV counts 512-byte units unless `iv_large_sectors` says otherwise: shifting
/// `iv_offset` by one sector makes the same ciphertext one sector further on.
#[test]
fn the_iv_steps_in_the_units_of_the_table() {
    let key = key();
    let ciphertext = |iv_offset: u64, sector: usize, options: &str| {
        let line = format!("0 64 crypt aes-xts-plain64 {key} {iv_offset} /d 0 {options}");
        let (volume, memory) = volume(&line, 64 * 512);
        volume
            .write(sector as u64 * 4096, &mut [7; 4096], Durability::Cached)
            .unwrap();
        memory.contents()[sector * 4096..][..4096].to_vec()
    };
    let small = "1 sector_size:4096";
    let large = "2 sector_size:4096 iv_large_sectors";
    assert_eq!(ciphertext(0, 3, small), ciphertext(24, 0, small));
    assert_eq!(ciphertext(0, 3, large), ciphertext(24, 0, large));
    assert_eq!(ciphertext(24, 0, large), ciphertext(0, 3, large));
    assert_ne!(ciphertext(0, 3, small), ciphertext(0, 3, large));
}

#[test]
fn zero_and_error_targets_do_what_they_say() {
    let (volume, _) = volume("0 8 zero\n8 8 error", 0);
    let mut read = [1; 4096];
    volume.read(0, &mut read).unwrap();
    assert_eq!(read, [0; 4096]);
    volume.write(0, &mut [1; 512], Durability::Cached).unwrap();
    volume.read(0, &mut read).unwrap();
    assert_eq!(read, [0; 4096]);
    let error = volume.read(4000, &mut read).unwrap_err();
    assert!(matches!(error, VolumeError::ErrorTarget { .. }));
    assert_eq!(error.errno(), Errno::Io);
}

#[test]
fn what_is_out_of_range_or_not_allowed_is_refused() {
    let key = key();
    let (volume, memory) = volume(&format!("0 16 crypt aes-xts-plain64 {key} 0 /d 0"), 8192);
    let before = memory.contents();
    let refused = [
        volume.read(8191, &mut [0; 2]).unwrap_err(),
        volume.read(u64::MAX, &mut [0; 2]).unwrap_err(),
        volume
            .write(8192, &mut [0; 1], Durability::Cached)
            .unwrap_err(),
        volume
            .write_zeroes(1, u64::MAX, Durability::Cached)
            .unwrap_err(),
    ];
    for error in refused {
        assert_eq!(error.errno(), Errno::Inval, "{error}");
    }
    let error = volume.discard(0, 4096).unwrap_err();
    assert_eq!(error.errno(), Errno::NotSup, "{error}");
    volume.read(8192, &mut []).unwrap();
    assert!(memory.contents() == before);
}

#[test]
fn a_discard_takes_whole_sectors_only() {
    let key = key();
    let options = "2 allow_discards sector_size:4096";
    let line = format!("0 32 crypt aes-xts-plain64 {key} 0 /d 0 {options}");
    let (volume, memory) = volume(&line, 32 * 512);
    assert!(volume.allows_discard());
    volume.discard(1, 12_000).unwrap();
    let bytes = memory.contents();
    assert!(bytes[..4096].iter().all(|&b| b == 0xa5));
    assert!(bytes[4096..8192].iter().all(|&b| b == 0));
    assert!(bytes[8192..].iter().all(|&b| b == 0xa5));
    volume.discard(5, 10).unwrap();
}

/// Two threads that write neighbouring halves of the same sectors never lose each other's bytes,
/// nor those of a third that writes whole sectors elsewhere in the region.
#[test]
fn partial_writes_of_one_sector_do_not_undo_each_other() {
    let key = key();
    let options = "1 sector_size:4096";
    let line = format!("0 128 crypt aes-xts-plain64 {key} 0 /d 0 {options}");
    let (volume, _) = volume(&line, 128 * 512);
    let volume = &volume;
    volume
        .write_zeroes(0, volume.size(), Durability::Cached)
        .unwrap();
    let rounds = 200u8;
    std::thread::scope(|scope| {
        for half in 0..2u64 {
            scope.spawn(move || {
                for round in 1..=rounds {
                    for sector in 0..8 {
                        let at = sector * 4096 + half * 2048;
                        volume
                            .write(at, &mut [round; 2048], Durability::Cached)
                            .unwrap();
                    }
                }
            });
        }
        scope.spawn(move || {
            for round in 1..=rounds {
                volume
                    .write(8 * 4096, &mut [round; 8 * 4096], Durability::Cached)
                    .unwrap();
            }
        });
    });
    let mut all = vec![0; 65536];
    volume.read(0, &mut all).unwrap();
    assert!(all.iter().all(|&byte| byte == rounds));
}

/// Records what reaches the storage.
struct Recorder {
    inner: MemoryBackend,
    calls: Mutex<Vec<&'static str>>,
}

impl Recorder {
    fn note(&self, call: &'static str) {
        self.calls.lock().unwrap().push(call);
    }
}

impl Backend for Recorder {
    fn info(&self) -> Info {
        self.inner.info()
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), BackendError> {
        self.note("read");
        self.inner.read_at(offset, buffer)
    }
    fn write_at(&self, offset: u64, data: &[u8], d: Durability) -> Result<(), BackendError> {
        self.note(match d {
            Durability::Cached => "write",
            Durability::Durable => "write-durably",
        });
        self.inner.write_at(offset, data, d)
    }
    fn flush(&self) -> Result<(), BackendError> {
        self.note("flush");
        self.inner.flush()
    }
    fn discard(&self, range: std::ops::Range<u64>) -> Result<(), BackendError> {
        self.note("discard");
        self.inner.discard(range)
    }
    fn write_zeroes(&self, range: std::ops::Range<u64>, d: Durability) -> Result<(), BackendError> {
        self.note("zeroes");
        self.inner.write_zeroes(range, d)
    }
    fn lock_header(&self, kind: LockKind) -> Result<HeaderLock, BackendError> {
        self.inner.lock_header(kind)
    }
}

/// Counts, not times: a durable write is one call while it is one piece, and is settled by one
/// flush when it is several; a write of whole sectors never reads; a hole is never punched by
/// writing zeros.
#[test]
fn requests_cost_the_calls_they_should() {
    let recorder = Arc::new(Recorder {
        inner: MemoryBackend::new(vec![0; MIB]),
        calls: Mutex::default(),
    });
    let table = format!("0 2048 crypt aes-xts-plain64 {} 0 /d 0", key());
    let backend: Arc<dyn Backend> = Arc::clone(&recorder) as _;
    let volume = Volume::start(
        CryptTable::parse(&table).unwrap(),
        DataPath::default(),
        |_| Ok(Arc::clone(&backend)),
    )
    .unwrap();
    let calls = |work: &dyn Fn()| {
        recorder.calls.lock().unwrap().clear();
        work();
        recorder.calls.lock().unwrap().clone()
    };
    let write = |offset, len, durability| {
        volume.write(offset, &mut vec![0; len], durability).unwrap();
    };
    assert_eq!(calls(&|| write(0, 4096, Durability::Cached)), ["write"]);
    assert_eq!(
        calls(&|| write(4096, 4096, Durability::Durable)),
        ["write-durably"]
    );
    assert_eq!(
        calls(&|| write(0, 65536, Durability::Durable)),
        ["write", "write", "flush"]
    );
    assert_eq!(
        calls(&|| write(3, 5, Durability::Cached)),
        ["read", "write"]
    );
    assert_eq!(
        calls(&|| volume.write_zeroes(0, 512, Durability::Durable).unwrap()),
        ["write", "flush"]
    );
    // Parts of sectors at its two ends only, wherever the pieces of it end.
    assert_eq!(
        calls(&|| volume.write_zeroes(100, 65536, Durability::Cached).unwrap()),
        ["read", "write", "write", "write", "read", "write"]
    );
    assert_eq!(calls(&|| volume.flush().unwrap()), ["flush"]);
    assert_eq!(calls(&|| volume.read(0, &mut [0; 4096]).unwrap()), ["read"]);
}

/// The end moves while the volume is open, and what is written behind the old one is read back; a
/// shorter volume refuses what passes its new end.
#[test]
fn a_volume_ends_where_it_was_last_said_to_end() {
    let table = format!(
        "0 1024 crypt aes-xts-plain64 {} 0 /disk 8 1 sector_size:4096",
        key()
    );
    let (volume, _) = volume(&table, MIB);
    let room = (MIB as u64 - 8 * 512) / 4096 * 4096;
    for wrong in [0, 512, room + 4096, u64::MAX / 4096 * 4096] {
        assert!(volume.resize(wrong).is_err(), "{wrong}");
        assert_eq!(volume.size(), 1024 * 512);
    }
    let mut last = *b"the last bytes";
    let at = room - last.len() as u64;
    let refused = volume.write(at, &mut last.clone(), Durability::Cached);
    assert_eq!(refused.unwrap_err().errno(), Errno::Inval);
    volume.resize(room).unwrap();
    volume
        .write(at, &mut last.clone(), Durability::Cached)
        .unwrap();
    volume.read(at, &mut last).unwrap();
    assert_eq!(&last, b"the last bytes");
    let text = volume.table_text(scrim_volume::Keys::Masked);
    let start = format!("0 {} crypt ", room / 512);
    assert!(text.expose().starts_with(start.as_bytes()));
    volume.resize(4096).unwrap();
    assert!(volume.read(4095, &mut [0; 2]).is_err());
    assert!(volume.discard(4096, 512).is_err());
    volume.read(4095, &mut [0; 1]).unwrap();
}

#[test]
fn a_table_of_several_targets_keeps_its_size() {
    let (volume, _) = volume("0 8 zero\n8 8 linear /disk 0", MIB);
    assert!(volume.resize(4096).is_err());
    assert_eq!(volume.size(), 16 * 512);
}

/// Found by fuzzing: a form feed is no separator of a table's words, but one of a reader's.
#[test]
fn an_error_repeats_no_key_behind_rare_white_space() {
    let key = "0123456789abcdef".repeat(2);
    for text in [
        format!("0 8 linear\u{c}{key} aes x 0 disk 0"),
        format!("0 8 near\u{c}{key}"),
    ] {
        let error = CryptTable::parse(&text).err().unwrap().to_string();
        assert!(!error.contains(&key), "{error}");
    }
}
