//! Data is encrypted where it lies, and the power is cut at every write: what comes back, once the
//! same command is given again, is the data, with what was written to it in between.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

use std::ops::Range;
use std::sync::Arc;

use scrim_backend::sim::{Call, Failure, Fault, Faults, Random, SimBackend};
use scrim_backend::{Backend, Durability};
use scrim_crypt::SectorSize;
use scrim_luks::kdf::{Hash, Kdf};
use scrim_luks::{Layout, NewKeyslot, Placement, VolumeKey, luks2};
use scrim_sys::memory::SecretBytes;
use scrim_volume::{
    DataPath, InPlace, InPlaceError, LuksDevice, LuksError, OpenFlags, Prepared, Room, Volume, undo,
};

/// Behind two copies of a header and room for one key slot.
const SHIFT: u64 = 2 * COPY + 256 * 1024;
const COPY: u64 = 16 << 10;
/// Cuts whose survivors are looked at several times.
const SEEDS: u64 = 2;

fn passphrase() -> SecretBytes {
    SecretBytes::copied_from(b"first")
}

fn spec(device_len: u64, sector_size: SectorSize) -> luks2::FormatSpec {
    luks2::FormatSpec {
        cipher: "aes-xts-plain64".parse().unwrap(),
        sector_size,
        digest_hash: Hash::Sha256,
        digest_iterations: 1,
        keyslot: NewKeyslot {
            slot: None,
            kdf: Kdf::Pbkdf2 {
                hash: Hash::Sha256,
                iterations: 1,
            },
            af_hash: Hash::Sha256,
            cipher: None,
        },
        uuid: Some("9bbcbbf9-cf9b-48eb-95a2-34484ec7a33b".to_owned()),
        label: String::new(),
        subsystem: String::new(),
        flags: Vec::new(),
        layout: Layout {
            placement: Placement::Attached,
            device_len,
            grows: false,
            data_offset: Some(SHIFT),
        },
        metadata_size: Some(COPY),
        keyslots_size: None,
    }
}

/// What the command does: undo, go on, or begin; then the end.
fn encrypt(disk: &Arc<SimBackend>, room: Room) -> Result<(), InPlaceError> {
    undo(&**disk)?;
    match begin_or_go_on(disk, room)? {
        Some(begun) => begun.clean()?.finish(),
        None => Ok(()),
    }
}

/// `None` for a finished volume.
fn begin_or_go_on(disk: &Arc<SimBackend>, room: Room) -> Result<Option<InPlace>, InPlaceError> {
    let backend: Arc<dyn Backend> = Arc::clone(disk) as _;
    let Ok(luks) = LuksDevice::read(&*backend) else {
        let key = VolumeKey::new(SecretBytes::copied_from(&[5; 64]));
        let sector_size = match room.length.is_multiple_of(4096) {
            true => SectorSize::S4096,
            false => SectorSize::S512,
        };
        let spec = spec(disk.info().size, sector_size);
        let prepared = Prepared::new(room, &spec, key, &passphrase()).unwrap();
        return InPlace::begin(backend, prepared).map(Some);
    };
    let Some(encrypted) = luks.once_encrypted()? else {
        return Ok(None);
    };
    let unlocked = encrypted.unlock(&*backend, None, &passphrase())?;
    InPlace::resume(backend, luks, unlocked.key).map(Some)
}

fn plaintext(disk: Arc<SimBackend>, len: usize) -> Vec<u8> {
    let backend: Arc<dyn Backend> = disk;
    let luks = LuksDevice::read(&*backend).unwrap();
    let unlocked = luks.unlock(&*backend, None, &passphrase()).unwrap();
    let size = backend.info().size;
    let table = luks
        .table(
            unlocked.key,
            "0:0",
            size,
            Placement::Attached,
            OpenFlags::default(),
        )
        .unwrap();
    let volume = Volume::start(table, DataPath::default(), |_| Ok(Arc::clone(&backend))).unwrap();
    let mut bytes = vec![0; len];
    volume.read(0, &mut bytes).unwrap();
    bytes
}

fn disk(data: &[u8], room: Room) -> Arc<SimBackend> {
    let mut bytes = data.to_vec();
    bytes.resize(usize::try_from(room.device().unwrap()).unwrap(), 0);
    Arc::new(SimBackend::holding(&bytes, 1))
}

fn data(len: usize) -> Vec<u8> {
    let mut data = vec![0; len];
    Random::new(7).fill(&mut data);
    data
}

/// Shorter than a header, as long as one, a few stretches and a part of one.
#[test]
fn after_a_cut_anywhere_the_same_command_ends_it() {
    for (len, sector) in [
        (4096, 4096),
        (SHIFT, 4096),
        (3 * SHIFT + 5000, 4096),
        (1, 512),
        (2 * SHIFT + 1536, 512),
    ] {
        let data = data(usize::try_from(len).unwrap());
        let room = Room::in_file(len, SHIFT, sector).unwrap();
        let whole = disk(&data, room);
        whole.arm(Faults::default());
        encrypt(&whole, room).unwrap();
        let changes = whole.changes();
        assert!(plaintext(whole, data.len()) == data);
        for cut in 1..=changes {
            let broken = disk(&data, room);
            broken.arm(Faults {
                cut_at: Some(cut),
                ..Faults::default()
            });
            assert!(encrypt(&broken, room).is_err(), "cut {cut} of {changes}");
            for seed in 0..SEEDS {
                let survivor = Arc::new(broken.after_cut(seed));
                encrypt(&survivor, room)
                    .unwrap_or_else(|error| panic!("cut {cut} of {changes}, {seed}: {error}"));
                let read = plaintext(survivor, data.len());
                assert!(
                    read == data,
                    "cut {cut} of {changes}, seed {seed}, {len} bytes"
                );
            }
        }
    }
}

/// A cut while going on after a cut.
#[test]
fn after_two_cuts_too() {
    let data = data(usize::try_from(2 * SHIFT).unwrap());
    let room = Room::in_file(2 * SHIFT, SHIFT, 4096).unwrap();
    let mut random = Random::new(3);
    for _ in 0..40 {
        let mut at = disk(&data, room);
        for _ in 0..2 {
            at.arm(Faults {
                cut_at: Some(1 + random.below(30)),
                ..Faults::default()
            });
            let _ = encrypt(&at, room);
            at = Arc::new(at.after_cut(random.next()));
        }
        encrypt(&at, room).unwrap();
        assert!(plaintext(at, data.len()) == data);
    }
}

/// A device may have more to spare than is needed.
#[test]
fn a_device_with_more_room_than_it_takes_survives_cuts_too() {
    let data = data(usize::try_from(2 * SHIFT).unwrap());
    let size = Room::in_file(2 * SHIFT, SHIFT, 4096)
        .unwrap()
        .device()
        .unwrap()
        + (64 << 10);
    let room = Room::in_device(size, size - 2 * SHIFT, SHIFT, 4096).unwrap();
    let disk = || {
        let mut bytes = data.clone();
        bytes.resize(usize::try_from(size).unwrap(), 0x55);
        Arc::new(SimBackend::holding(&bytes, 1))
    };
    let whole = disk();
    whole.arm(Faults::default());
    encrypt(&whole, room).unwrap();
    let changes = whole.changes();
    for cut in 1..=changes {
        let broken = disk();
        broken.arm(Faults {
            cut_at: Some(cut),
            ..Faults::default()
        });
        assert!(encrypt(&broken, room).is_err());
        let survivor = Arc::new(broken.after_cut(cut));
        encrypt(&survivor, room).unwrap();
        assert!(
            plaintext(survivor, data.len()) == data,
            "cut {cut} of {changes}"
        );
    }
}

/// What the command does after an error: what can be put back is, and else the header is whole and
/// nothing is cut off.
#[test]
fn after_an_error_the_data_is_there_or_is_gone_on_with() {
    let data = data(usize::try_from(2 * SHIFT).unwrap());
    let room = Room::in_file(2 * SHIFT, SHIFT, 4096).unwrap();
    for call in [Call::Read, Call::Write, Call::Flush] {
        for nth in 1..40 {
            let disk = disk(&data, room);
            disk.arm(Faults {
                failures: vec![Fault {
                    call,
                    nth,
                    failure: Failure::Io,
                }],
                ..Faults::default()
            });
            let begun = begin_or_go_on(&disk, room);
            if begun.is_ok() {
                continue;
            }
            drop(begun);
            disk.arm(Faults::default());
            let bytes = disk.contents();
            let again = Arc::new(SimBackend::holding(&bytes, 1));
            if undo(&*again).unwrap().is_some() {
                assert!(again.contents().starts_with(&data), "{call:?} {nth}");
            } else if !bytes.starts_with(&data) {
                encrypt(&again, room).unwrap();
                assert!(plaintext(again, data.len()) == data, "{call:?} {nth}");
            }
        }
    }
}

/// Once the header was whole, one that is damaged does not look like one that was never written.
#[test]
fn a_header_that_is_damaged_later_is_left_for_its_backup() {
    let data = data(usize::try_from(3 * SHIFT).unwrap());
    let room = Room::in_file(3 * SHIFT, SHIFT, 4096).unwrap();
    let disk = disk(&data, room);
    let mut begun = begin_or_go_on(&disk, room).unwrap().unwrap();
    assert!(begun.advance().unwrap());
    drop(begun);
    for copy in [0, COPY] {
        disk.write_at(copy + 4096, &[0xff; 4096], Durability::Durable)
            .unwrap();
    }
    let damaged = disk.contents();
    assert_eq!(undo(&*disk).unwrap(), None);
    assert!(disk.contents() == damaged);
}

/// A disk that somebody has written to after the power was cut, and before the same command is given
/// again.
struct Between {
    /// The data as it was at first.
    data: Vec<u8>,
    room: Room,
    disk: Arc<SimBackend>,
    /// What the disk held before that, and holds now.
    before: Vec<u8>,
    used: Vec<u8>,
    /// What was written to, in bytes.
    written: Range<usize>,
}

/// What became of it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Encrypted,
    Grown,
    Used,
}

impl Between {
    fn new(data: &[u8], room: Room, survivor: &SimBackend, at: usize, written: &[u8]) -> Self {
        let disk = Arc::new(survivor.settled());
        let before = disk.contents();
        disk.write_at(at as u64, written, Durability::Durable)
            .unwrap();
        let used = disk.contents();
        Self {
            data: data.to_vec(),
            room,
            disk,
            before,
            used,
            written: at..at + written.len(),
        }
    }

    /// The data, with what was written in between.
    fn expected(&self) -> Vec<u8> {
        let mut expected = self.data.clone();
        expected[self.written.clone()].copy_from_slice(&self.used[self.written.clone()]);
        expected
    }

    /// The start is in use, so far as anybody could use it: nothing of a header is there.
    fn is_usable(&self) -> bool {
        self.before.starts_with(&self.data)
    }

    /// Gives the command again; where that refuses, does what it says, each way.
    fn check(self) -> Outcome {
        let (disk, room) = (Arc::clone(&self.disk), self.room);
        let error = match encrypt(&disk, room) {
            Ok(()) => {
                assert!(plaintext(disk, self.data.len()) == self.expected());
                return Outcome::Encrypted;
            }
            Err(error) => error,
        };
        assert!(disk.contents() == self.used, "{error}: something changed");
        let zeros = |at| disk.write_at(at, &[0; 512], Durability::Durable).unwrap();
        match error {
            InPlaceError::Grown { original, record } => {
                assert_eq!(original, self.data.len() as u64);
                zeros(record);
                encrypt(&disk, room).unwrap();
                assert!(plaintext(disk, self.data.len()) == self.expected());
                Outcome::Grown
            }
            InPlaceError::Used { saved, len, record } => {
                assert!(!self.is_usable(), "nothing of a header was there");
                self.put_back(saved, len);
                zeros(record);
                encrypt(&disk, room).unwrap();
                assert!(plaintext(disk, self.data.len()) == self.used[..self.data.len()]);
                Outcome::Used
            }
            error => panic!("{error}"),
        }
    }

    fn put_back(&self, saved: u64, len: u64) {
        let disk = Arc::new(SimBackend::holding(&self.used, 1));
        let mut start = vec![0; usize::try_from(len).unwrap()];
        disk.read_at(saved, &mut start).unwrap();
        disk.write_at(0, &start, Durability::Durable).unwrap();
        encrypt(&disk, self.room).unwrap();
        let mut expected = self.expected();
        let len = start.len().min(expected.len());
        expected[..len].copy_from_slice(&self.data[..len]);
        assert!(plaintext(disk, expected.len()) == expected);
    }
}

/// Data that begins with zeros, as ext4 does, and what somebody writes to it.
fn data_and_uses(len: usize) -> [(Vec<u8>, Vec<(usize, Vec<u8>)>); 2] {
    let noise = data(len);
    let mut zeros = noise.clone();
    zeros[..1024].fill(0);
    let newer = b"what was written since".to_vec();
    let uses = vec![
        (0, newer.clone()),
        (0, vec![0; 512]),
        (0, vec![0; 4096]),
        (1024, newer.clone()),
        (len - newer.len(), newer),
    ];
    [(noise, uses.clone()), (zeros, uses)]
}

/// Whatever was written between a power cut and the same command, whose start may be zeros, is in the
/// volume, or the command refuses and changes nothing.
#[test]
fn what_is_written_between_a_cut_and_the_next_attempt_is_never_rolled_back() {
    let mut outcomes = Vec::new();
    for (len, sector) in [(4608, 512), (SHIFT + 4096, 4096)] {
        for (data, uses) in data_and_uses(usize::try_from(len).unwrap()) {
            let room = Room::in_file(len, SHIFT, sector).unwrap();
            let whole = disk(&data, room);
            whole.arm(Faults::default());
            encrypt(&whole, room).unwrap();
            for cut in 1..=whole.changes() {
                let broken = disk(&data, room);
                broken.arm(Faults {
                    cut_at: Some(cut),
                    ..Faults::default()
                });
                assert!(encrypt(&broken, room).is_err());
                let survivor = broken.after_cut(cut);
                if LuksDevice::read(&survivor).is_ok() {
                    continue;
                }
                for (at, written) in &uses {
                    println!("{len} bytes, cut {cut}, {} bytes at {at}", written.len());
                    let between = Between::new(&data, room, &survivor, *at, written);
                    outcomes.push(between.check());
                }
            }
        }
    }
    outcomes.sort();
    outcomes.dedup();
    let all = [Outcome::Encrypted, Outcome::Grown, Outcome::Used];
    assert_eq!(outcomes, all, "the test meets every case");
}

/// A device keeps its length, so that nobody has to say what belongs to it.
#[test]
fn a_device_that_was_used_before_its_header_was_begun_is_encrypted_as_it_is() {
    let (data, uses) = data_and_uses(usize::try_from(2 * SHIFT).unwrap())[1].clone();
    let size = Room::in_file(2 * SHIFT, SHIFT, 4096)
        .unwrap()
        .device()
        .unwrap();
    let room = Room::in_device(size, size - 2 * SHIFT, SHIFT, 4096).unwrap();
    let mut found = Vec::new();
    for cut in 1..20 {
        let broken = disk(&data, room);
        broken.arm(Faults {
            cut_at: Some(cut),
            ..Faults::default()
        });
        assert!(encrypt(&broken, room).is_err());
        let survivor = broken.after_cut(cut);
        if LuksDevice::read(&survivor).is_ok() {
            break;
        }
        for (at, written) in &uses {
            let between = Between::new(&data, room, &survivor, *at, written);
            let usable = between.is_usable();
            let outcome = between.check();
            assert!(
                !usable || outcome == Outcome::Encrypted,
                "cut {cut}: {outcome:?}"
            );
            found.push(outcome);
        }
    }
    assert!(
        found.contains(&Outcome::Used),
        "cut in the midst of the header"
    );
}

/// A volume that somebody makes on what is left of the beginning is no header that was cut short.
#[test]
fn a_volume_that_somebody_made_meanwhile_stays() {
    let data = data(usize::try_from(2 * SHIFT).unwrap());
    let room = Room::in_file(2 * SHIFT, SHIFT, 4096).unwrap();
    for cut in 1..20 {
        let broken = disk(&data, room);
        broken.arm(Faults {
            cut_at: Some(cut),
            ..Faults::default()
        });
        assert!(encrypt(&broken, room).is_err());
        let survivor = broken.after_cut(cut);
        if LuksDevice::read(&survivor).is_ok() {
            break;
        }
        let other = luks2::FormatSpec {
            uuid: Some("8c2f9ba1-5a0f-4c1e-9d52-3a6f0e7b1c44".to_owned()),
            ..spec(survivor.info().size, SectorSize::S4096)
        };
        let key = VolumeKey::new(SecretBytes::copied_from(&[6; 64]));
        let made = luks2::format(&other, &key, &passphrase()).unwrap();
        LuksDevice::write(&made.plan, &survivor).unwrap();
        let before = survivor.contents();
        match undo(&survivor) {
            Ok(None) | Err(InPlaceError::Grown { .. }) => {}
            other => panic!("cut {cut}: {other:?}"),
        }
        assert!(survivor.contents() == before, "cut {cut}");
    }
}

/// What lies over the primary copy of the header while the secondary one is whole, and no record tells
/// that it was being written, is somebody else's.
#[test]
fn a_header_that_was_partly_overwritten_is_not_gone_on_with() {
    let data = data(usize::try_from(3 * SHIFT).unwrap());
    let room = Room::in_file(3 * SHIFT, SHIFT, 4096).unwrap();
    let disk = disk(&data, room);
    let mut begun = begin_or_go_on(&disk, room).unwrap().unwrap();
    assert!(begun.advance().unwrap());
    drop(begun);
    let mut sector = [0; 512];
    sector[510..].copy_from_slice(&[0x55, 0xaa]);
    disk.write_at(0, &sector, Durability::Durable).unwrap();
    let before = disk.contents();
    match encrypt(&disk, room) {
        Err(InPlaceError::Luks(LuksError::Ambiguous)) => {}
        other => panic!("{other:?}"),
    }
    assert!(disk.contents() == before);
}

/// A file that was made longer, and then nothing: it is known how long it was, until it is cut.
#[test]
fn a_file_that_only_grew_is_known_to_have() {
    let data = data(12_345);
    let room = Room::in_file(data.len() as u64, SHIFT, 4096).unwrap();
    let small = SimBackend::holding(&data, 1);
    let (at, end) = room.end(&small).unwrap();
    let mut bytes = data.clone();
    bytes.resize(usize::try_from(at).unwrap(), 0);
    bytes.extend(end);
    let grown = Arc::new(SimBackend::holding(&bytes, 1));
    for _ in 0..2 {
        assert_eq!(undo(&*grown).unwrap(), Some(data.len() as u64));
        assert!(grown.contents().starts_with(&data));
    }
    for (at, is_longer) in [(5000, false), (data.len() as u64, true), (at - 100, true)] {
        let used = SimBackend::holding(&bytes, 1);
        used.write_at(at, b"newer", Durability::Durable).unwrap();
        match undo(&used) {
            Ok(None) => assert!(is_longer, "it is in use behind its old end"),
            Err(InPlaceError::Grown { original, .. }) => {
                assert!(!is_longer && original == data.len() as u64);
            }
            other => panic!("{at}: {other:?}"),
        }
    }
}

/// A file that was cut at its end, and then nothing: the header still says so, and is gone on with.
#[test]
fn a_file_that_was_cut_lacks_only_the_end_of_the_note() {
    for len in [4096, 3 * SHIFT + 4096] {
        let data = data(usize::try_from(len).unwrap());
        let room = Room::in_file(len, SHIFT, 4096).unwrap();
        let whole = disk(&data, room);
        let begun = begin_or_go_on(&whole, room).unwrap().unwrap();
        let end = begun.clean().unwrap().end();
        assert_eq!(end, SHIFT + len);
        let kept = &whole.contents()[..usize::try_from(end).unwrap()];
        let cut = Arc::new(SimBackend::holding(kept, 1));
        encrypt(&cut, room).unwrap();
        assert!(begin_or_go_on(&cut, room).unwrap().is_none(), "finished");
        assert!(plaintext(cut, data.len()) == data);
    }
}

/// Nothing of the data is left in the clear.
#[test]
fn what_was_saved_is_overwritten() {
    let mut data = data(usize::try_from(SHIFT / 2).unwrap());
    let marker = b"a sentence that nobody else may read";
    data[1000..1000 + marker.len()].copy_from_slice(marker);
    let room = Room::in_file(data.len() as u64, SHIFT, 4096).unwrap();
    let disk = disk(&data, room);
    encrypt(&disk, room).unwrap();
    let bytes = disk.contents();
    assert!(!bytes.windows(marker.len()).any(|window| window == marker));
}

/// A record that is left over or made up does not undo what is whole.
#[test]
fn a_finished_volume_has_nothing_to_undo() {
    let data = data(10_000);
    let room = Room::in_file(data.len() as u64, SHIFT, 4096).unwrap();
    let disk = disk(&data, room);
    encrypt(&disk, room).unwrap();
    assert!(undo(&*disk).unwrap().is_none());
    let mut record = vec![0; 4096];
    record[..16].copy_from_slice(b"scrim in place\x00\x02");
    let end = disk.info().size - 4096;
    disk.write_at(end, &record, Durability::Durable).unwrap();
    assert!(undo(&*disk).unwrap().is_none());
}
