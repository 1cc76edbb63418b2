//! Data is encrypted where it lies, and the power is cut at every write: what comes back, once the
//! same command is given again, is the data, with what was written to it in between.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

mod lengths;
mod used_since;

use std::sync::Arc;

use scrim_backend::sim::{Call, Failure, Fault, Faults, SimBackend};
use scrim_backend::{Backend, Durability};
use scrim_crypt::SectorSize;
use scrim_luks::kdf::{Hash, Kdf};
use scrim_luks::{HeaderError, Layout, NewKeyslot, Placement, VolumeKey, luks2};
use scrim_seeded::Random;
use scrim_sys::memory::SecretBytes;
use scrim_volume::{
    DataPath, HeaderSession, InPlace, InPlaceError, Keep, LuksDevice, LuksError, OpenFlags,
    Prepared, Room, Volume, is_half_overwritten, undo,
};

/// Offset of the data: behind two copies of a header and room for one key slot.
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

/// Runs the steps of the command: undo, go on, or begin; then the end. Returns the disk, which is
/// another one where a file was cut.
fn encrypt(disk: &Arc<SimBackend>, room: Room) -> Result<Arc<SimBackend>, InPlaceError> {
    let (disk, done) = encrypt_until(disk, room, None);
    done.map(|()| disk)
}

/// Runs the command until the power is cut.
fn encrypt_until(
    disk: &Arc<SimBackend>,
    room: Room,
    cut_at: Option<u64>,
) -> (Arc<SimBackend>, Result<(), InPlaceError>) {
    let mut disk = Arc::clone(disk);
    let arm = |disk: &SimBackend, cut_at| {
        disk.arm(Faults {
            cut_at,
            ..Faults::default()
        });
    };
    arm(&disk, cut_at);
    match undo(&*disk) {
        Err(error) => return (disk, Err(error)),
        Ok(Some(original)) if room.grows() => {
            assert_eq!(original, room.original, "the length of the file");
            let done = disk.changes();
            let kept = disk.contents();
            disk = grown(&kept[..usize::try_from(original).unwrap()], room);
            arm(&disk, cut_at.map(|cut| cut - done));
        }
        Ok(undone) => {
            let is_known = undone.is_some() || !room.grows() || LuksDevice::read(&*disk).is_ok();
            assert!(is_known, "nobody knows how long the file was");
        }
    }
    let done = begin_or_go_on(&disk, room).and_then(|begun| match begun {
        Some(begun) => begun.clean()?.finish(),
        None => Ok(()),
    });
    (disk, done)
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
        let mut spec = spec(disk.info().size, sector_size);
        spec.layout.data_offset = Some(room.shift);
        let prepared = Prepared::new(room, &spec, key, &passphrase()).unwrap();
        let session = HeaderSession::start(&**disk)?;
        return InPlace::begin(backend, &session, prepared).map(Some);
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

/// A file or device that holds `data` and is as long as it has to be.
fn disk(data: &[u8], room: Room) -> Arc<SimBackend> {
    if room.grows() {
        return grown(data, room);
    }
    let mut bytes = data.to_vec();
    bytes.resize(usize::try_from(room.device().unwrap()).unwrap(), 0);
    Arc::new(SimBackend::holding(&bytes, 1))
}

/// A file that was made longer.
fn grown(data: &[u8], room: Room) -> Arc<SimBackend> {
    let small = SimBackend::holding(data, 1);
    let session = HeaderSession::start(&small).unwrap();
    let (at, end) = room.end(&session).unwrap();
    let mut bytes = data.to_vec();
    bytes.resize(usize::try_from(at).unwrap(), 0);
    bytes.extend(end);
    assert_eq!(bytes.len() as u64, room.device().unwrap());
    Arc::new(SimBackend::holding(&bytes, 1))
}

/// The same disk with another size; what is more are zeros.
fn resized(disk: &SimBackend, size: u64) -> Arc<SimBackend> {
    let mut bytes = disk.contents();
    bytes.resize(usize::try_from(size).unwrap(), 0);
    Arc::new(SimBackend::holding(&bytes, 1))
}

/// Beginnings that the power cut ends, one for each write and sync, up to the first one whose header is
/// whole.
fn half_begun(start: impl Fn() -> Arc<SimBackend>, room: Room) -> Vec<Arc<SimBackend>> {
    let survivors = (1..).map(|cut| {
        let (broken, done) = encrypt_until(&start(), room, Some(cut));
        assert!(done.is_err(), "cut {cut}");
        Arc::new(broken.after_cut(cut))
    });
    let survivors = survivors.take_while(|survivor| LuksDevice::read(&**survivor).is_err());
    survivors.collect()
}

fn data(len: usize) -> Vec<u8> {
    let mut data = vec![0; len];
    Random::new(7).fill(&mut data);
    data
}

/// The data is shorter than a header, as long as one, or a few stretches and a part of one.
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
        let whole = encrypt(&disk(&data, room), room).unwrap();
        let changes = whole.changes();
        assert!(plaintext(whole, data.len()) == data);
        for cut in 1..=changes {
            let (broken, done) = encrypt_until(&disk(&data, room), room, Some(cut));
            assert!(done.is_err(), "cut {cut} of {changes}");
            for seed in 0..SEEDS {
                let survivor = Arc::new(broken.after_cut(seed));
                let survivor = encrypt(&survivor, room)
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

/// The power is cut again while the command goes on after a cut.
#[test]
fn after_two_cuts_too() {
    let data = data(usize::try_from(2 * SHIFT).unwrap());
    let room = Room::in_file(2 * SHIFT, SHIFT, 4096).unwrap();
    let mut random = Random::new(3);
    for _ in 0..40 {
        let mut at = disk(&data, room);
        for _ in 0..2 {
            let (broken, _) = encrypt_until(&at, room, Some(1 + random.below(30)));
            at = Arc::new(broken.after_cut(random.next()));
        }
        let at = encrypt(&at, room).unwrap();
        assert!(plaintext(at, data.len()) == data);
    }
}

/// Data that is shorter than the header that overwrites it: a cut at each write of the beginning, and one
/// at each write of the undoing.
#[test]
fn after_two_cuts_a_short_file_has_its_length() {
    for (len, sector) in [(1, 512), (4096, 4096)] {
        let data = data(usize::try_from(len).unwrap());
        let room = Room::in_file(len, SHIFT, sector).unwrap();
        for (first, survivor) in half_begun(|| disk(&data, room), room).iter().enumerate() {
            // Where the start was touched there are that many writes and syncs.
            for second in 1..=8 {
                println!("{len} bytes, cuts {first} and {second}");
                let (broken, _) = encrypt_until(survivor, room, Some(second));
                let again = Arc::new(broken.after_cut(second));
                let done = encrypt(&again, room).unwrap();
                assert!(plaintext(done, data.len()) == data);
            }
        }
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
    let whole = encrypt(&disk(), room).unwrap();
    let changes = whole.changes();
    for cut in 1..=changes {
        let (broken, done) = encrypt_until(&disk(), room, Some(cut));
        assert!(done.is_err());
        let survivor = Arc::new(broken.after_cut(cut));
        let survivor = encrypt(&survivor, room).unwrap();
        assert!(
            plaintext(survivor, data.len()) == data,
            "cut {cut} of {changes}"
        );
    }
}

/// Goes on as the command does after an error: what can be put back is, and else the header is whole and
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
            let undone = undo(&*again);
            if let Ok(Some(original)) | Err(InPlaceError::Grown { original, .. }) = undone {
                assert_eq!(original, room.original);
                assert!(again.contents().starts_with(&data), "{call:?} {nth}");
            } else {
                assert_eq!(undone.unwrap(), None);
                let again = encrypt(&again, room).unwrap();
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

fn clear(disk: &SimBackend, at: u64) {
    disk.write_at(at, &[0; 512], Durability::Durable).unwrap();
}

/// A volume that a user makes on what is left of the beginning is not a header that was cut short.
#[test]
fn a_volume_that_somebody_made_meanwhile_stays() {
    let data = data(usize::try_from(2 * SHIFT).unwrap());
    let room = Room::in_file(2 * SHIFT, SHIFT, 4096).unwrap();
    for (cut, survivor) in half_begun(|| disk(&data, room), room).iter().enumerate() {
        let other = luks2::FormatSpec {
            uuid: Some("8c2f9ba1-5a0f-4c1e-9d52-3a6f0e7b1c44".to_owned()),
            ..spec(survivor.info().size, SectorSize::S4096)
        };
        let key = VolumeKey::new(SecretBytes::copied_from(&[6; 64]));
        let made = luks2::format(&other, &key, &passphrase()).unwrap();
        LuksDevice::write(&made.plan, &**survivor).unwrap();
        let before = survivor.contents();
        match undo(&**survivor) {
            Ok(None) | Err(InPlaceError::Grown { .. }) => {}
            other => panic!("cut {cut}: {other:?}"),
        }
        assert!(survivor.contents() == before, "cut {cut}");
    }
}

/// Bytes that lie over the primary copy of the header, while the secondary one is whole and no record tells that
/// it was being written, are not ours.
#[test]
fn a_header_that_was_partly_overwritten_is_not_gone_on_with() {
    let data = data(usize::try_from(3 * SHIFT).unwrap());
    let room = Room::in_file(3 * SHIFT, SHIFT, 4096).unwrap();
    let disk = disk(&data, room);
    let mut begun = begin_or_go_on(&disk, room).unwrap().unwrap();
    assert!(begun.advance().unwrap());
    drop(begun);
    let half = disk.contents();
    let mut partitions = [0; 512];
    partitions[510..].copy_from_slice(&[0x55, 0xaa]);
    for written in [partitions, [7; 512]] {
        let disk = Arc::new(SimBackend::holding(&half, 1));
        disk.write_at(0, &written, Durability::Durable).unwrap();
        let before = disk.contents();
        match encrypt(&disk, room).map(drop) {
            Err(InPlaceError::Overwritten { copy }) => assert_eq!(copy, COPY),
            other => panic!("{other:?}"),
        }
        assert!(disk.contents() == before);

        clear(&disk, COPY);
        let read = LuksDevice::read(&*disk).map(drop);
        assert!(
            matches!(read, Err(LuksError::Header(HeaderError::NotLuks))),
            "{read:?}"
        );
        assert_eq!(undo(&*disk).unwrap(), None, "it is data");
    }
}

/// A file that was made longer, and then nothing: it is known how long it was, until it is cut.
#[test]
fn a_file_that_only_grew_is_known_to_have() {
    let data = data(12_345);
    let room = Room::in_file(data.len() as u64, SHIFT, 4096).unwrap();
    let grown = grown(&data, room);
    let bytes = grown.contents();
    let at = bytes.len() as u64 - 4096;
    for _ in 0..2 {
        assert_eq!(undo(&*grown).unwrap(), Some(data.len() as u64));
        assert!(grown.contents().starts_with(&data));
    }
    let saved = room.length + SHIFT;
    for at in [
        5000,
        data.len() as u64,
        saved - room.length - 5,
        saved,
        saved + room.length - 5,
        // Where the header is made.
        saved - 100,
        at - 100,
    ] {
        let used = SimBackend::holding(&bytes, 1);
        used.write_at(at, b"newer", Durability::Durable).unwrap();
        match undo(&used) {
            Err(InPlaceError::Grown { original, .. }) => assert_eq!(original, data.len() as u64),
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
        let end = begun.clean().unwrap().end().unwrap();
        assert_eq!(end, SHIFT + len);
        let kept = &whole.contents()[..usize::try_from(end).unwrap()];
        let cut = Arc::new(SimBackend::holding(kept, 1));
        let cut = encrypt(&cut, room).unwrap();
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
    let disk = encrypt(&disk(&data, room), room).unwrap();
    let bytes = disk.contents();
    assert!(!bytes.windows(marker.len()).any(|window| window == marker));
}

/// A record that is left over or made up does not undo what is whole.
#[test]
fn a_finished_volume_has_nothing_to_undo() {
    let data = data(10_000);
    let room = Room::in_file(data.len() as u64, SHIFT, 4096).unwrap();
    let disk = encrypt(&disk(&data, room), room).unwrap();
    assert!(undo(&*disk).unwrap().is_none());
    let mut record = vec![0; 4096];
    record[..16].copy_from_slice(b"scrim in place\x00\x02");
    let end = disk.info().size - 4096;
    disk.write_at(end, &record, Durability::Durable).unwrap();
    assert!(undo(&*disk).unwrap().is_none());
}

/// A room on a device of which `spare` bytes more are given up.
fn in_device(spare: u64) -> Room {
    let file = Room::in_file(2 * SHIFT, SHIFT, 4096).unwrap();
    let size = file.device().unwrap() + spare;
    Room::in_device(size, size - 2 * SHIFT, SHIFT, 4096).unwrap()
}

/// The record lies no longer at the end then: the start itself tells what was done.
#[test]
fn a_device_that_got_another_size_after_a_cut_is_encrypted_as_it_was() {
    let data = data(usize::try_from(2 * SHIFT).unwrap());
    let (room, larger) = (in_device(0), in_device(320 << 10));
    let whole = encrypt(&disk(&data, room), room).unwrap();
    for cut in 1..=whole.changes() {
        let (broken, _) = encrypt_until(&disk(&data, room), room, Some(cut));
        let extended = resized(&broken.after_cut(cut), larger.original);
        let done = encrypt(&extended, larger).unwrap_or_else(|error| panic!("cut {cut}: {error}"));
        assert!(plaintext(done, data.len()) == data, "cut {cut}");
    }
    let mut lost = 0;
    for (cut, survivor) in half_begun(|| disk(&data, room), room).iter().enumerate() {
        let shrunk = resized(survivor, room.original - 8192);
        let before = shrunk.contents();
        match undo(&*shrunk) {
            Ok(None) => assert!(before.starts_with(&data), "cut {cut}"),
            Err(InPlaceError::Damaged { shrunk_from, .. }) => {
                assert_eq!(shrunk_from, Some(room.original));
                lost += 1;
            }
            other => panic!("cut {cut}: {other:?}"),
        }
        assert!(shrunk.contents() == before, "cut {cut}");
    }
    assert!(lost > 0);
}

/// Its user has said how long it is to be, but not knowing that it was longer already.
#[test]
fn a_file_that_got_another_length_after_a_cut_is_left_as_it_is() {
    let mut refused = 0;
    for len in [4096, SHIFT + 4096] {
        let data = data(usize::try_from(len).unwrap());
        let room = Room::in_file(len, SHIFT, 4096).unwrap();
        for (cut, survivor) in half_begun(|| disk(&data, room), room).iter().enumerate() {
            for other in [room.device().unwrap() + 8192, room.device().unwrap() - 4096] {
                let resized_file = resized(survivor, other);
                let before = resized_file.contents();
                match undo(&*resized_file) {
                    Ok(None) => assert!(before.starts_with(&data), "{len} bytes, cut {cut}"),
                    Err(InPlaceError::Resized { size, keep }) => {
                        assert!(resized_file.contents() == before, "cut {cut}");
                        let as_before = resized(&resized_file, size);
                        let done = encrypt(&as_before, room).unwrap();
                        assert!(plaintext(done, data.len()) == data, "cut {cut}");
                        let Keep::Marked(at) = keep else {
                            panic!("{keep:?}");
                        };
                        (resized_file.write_at(at, b"keep", Durability::Durable)).unwrap();
                        assert_eq!(undo(&*resized_file).unwrap(), None);
                        assert!(!is_half_overwritten(&*resized_file).unwrap());
                        refused += 1;
                    }
                    other => panic!("{len} bytes, cut {cut}: {other:?}"),
                }
            }
        }
    }
    assert!(refused > 0);
}

/// Nothing is put back of what is not as it was saved, and a header that was made is not believed.
#[test]
fn what_was_saved_and_is_damaged_is_not_put_back() {
    let data = data(usize::try_from(2 * SHIFT).unwrap());
    let mut damaged = 0;
    for room in [Room::in_file(2 * SHIFT, SHIFT, 4096).unwrap(), in_device(0)] {
        for (cut, survivor) in half_begun(|| disk(&data, room), room).iter().enumerate() {
            let saved = 3 * SHIFT;
            survivor
                .write_at(saved, &[0xa5; 600], Durability::Durable)
                .unwrap();
            let before = survivor.contents();
            match undo(&**survivor) {
                Ok(_) if before.starts_with(&data) && !room.grows() => {}
                Err(InPlaceError::Grown { original, .. }) => {
                    assert_eq!(original, data.len() as u64);
                    assert!(before.starts_with(&data) && survivor.contents() == before);
                }
                Err(InPlaceError::Damaged { keep, .. }) => {
                    assert!(survivor.contents() == before, "cut {cut}");
                    damaged += 1;
                    let Keep::Marked(at) = keep else { continue };
                    survivor.write_at(at, b"keep", Durability::Durable).unwrap();
                    match undo(&**survivor) {
                        Ok(Some(_)) => assert!(!room.grows()),
                        Err(InPlaceError::Grown { .. }) => assert!(room.grows()),
                        other => panic!("cut {cut}: {other:?}"),
                    }
                    assert!(!is_half_overwritten(&**survivor).unwrap());
                }
                other => panic!("cut {cut}: {other:?}"),
            }
        }
    }
    assert!(damaged > 0);
}

/// The header says at its end whether the file was made longer, whichever command asks for the end.
#[test]
fn only_a_file_that_was_made_longer_is_to_be_cut() {
    let data = data(usize::try_from(2 * SHIFT).unwrap());
    let file = Room::in_file(2 * SHIFT, SHIFT, 4096).unwrap();
    for (room, end) in [(file, Some(3 * SHIFT)), (in_device(0), None)] {
        let disk = disk(&data, room);
        let mut begun = begin_or_go_on(&disk, room).unwrap().unwrap();
        assert!(begun.advance().unwrap());
        drop(begun);
        let again = begin_or_go_on(&disk, room).unwrap().unwrap();
        assert_eq!(again.clean().unwrap().end(), end);
    }
}

/// A volume that another program makes while a question waits for its answer is not data.
#[test]
fn a_header_that_came_after_the_question_is_not_encrypted() {
    let data = data(usize::try_from(2 * SHIFT).unwrap());
    let room = in_device(0);
    let disk = disk(&data, room);
    let key = || VolumeKey::new(SecretBytes::copied_from(&[5; 64]));
    let spec = spec(room.original, SectorSize::S4096);
    let prepared = Prepared::new(room, &spec, key(), &passphrase()).unwrap();
    let made = luks2::format(&spec, &key(), &passphrase()).unwrap();
    LuksDevice::write(&made.plan, &*disk).unwrap();
    let before = disk.contents();
    let session = HeaderSession::start(&*disk).unwrap();
    let begun = InPlace::begin(Arc::clone(&disk) as _, &session, prepared).map(drop);
    assert!(
        matches!(begun, Err(InPlaceError::Luks(LuksError::Changed))),
        "{begun:?}"
    );
    let file = Room::in_file(room.original, SHIFT, 4096).unwrap();
    let end = file.end(&session).map(drop);
    assert!(
        matches!(end, Err(InPlaceError::Luks(LuksError::Changed))),
        "{end:?}"
    );
    assert!(disk.contents() == before);
}

/// Another version knows what its record says.
#[test]
fn what_another_version_has_begun_is_left_to_it() {
    let data = data(usize::try_from(2 * SHIFT).unwrap());
    let disk = disk(&data, in_device(0));
    let end = disk.info().size - 4096;
    for version in [1, 2, 3, 5] {
        let mut record = b"scrim in place\x00".to_vec();
        record.push(version);
        disk.write_at(end, &record, Durability::Durable).unwrap();
        let before = disk.contents();
        let undone = undo(&*disk);
        assert!(
            matches!(undone, Err(InPlaceError::OtherVersion)),
            "{undone:?}"
        );
        assert!(disk.contents() == before);
    }
}
