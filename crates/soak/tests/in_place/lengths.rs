//! Files that a user has made longer or shorter, or has written to behind their old end, after the
//! power was cut.

use std::sync::Arc;

use scrim_backend::sim::SimBackend;
use scrim_backend::{Backend, Durability};
use scrim_volume::{InPlaceError, Room, is_half_overwritten, undo};

use super::{SHIFT, begin_or_go_on, data, disk, encrypt, grown, half_begun, plaintext, resized};

fn room() -> Room {
    Room::in_file(2 * SHIFT, SHIFT, 4096).unwrap()
}

/// A disk on which a user has written to `at`.
fn used(survivor: &SimBackend, at: u64, bytes: &[u8]) -> SimBackend {
    let used = survivor.settled();
    used.write_at(at, bytes, Durability::Durable).unwrap();
    used
}

/// The place of the record is a part of the file like any other.
#[test]
fn what_is_written_over_the_record_is_not_cut_off() {
    let data = data(usize::try_from(2 * SHIFT).unwrap());
    let end = room().device().unwrap();
    let mut asked = 0;
    for (cut, survivor) in half_begun(|| disk(&data, room()), room())
        .iter()
        .enumerate()
    {
        for at in [end - 4096, end - 3584, end - 8] {
            let used = used(survivor, at, b"newer");
            let is_filled = is_half_overwritten(&used).unwrap();
            match undo(&used) {
                // Then it is a file as any other.
                Ok(None) => assert!(!is_filled),
                Err(InPlaceError::Grown { original, record }) => {
                    assert_eq!(original, data.len() as u64);
                    assert_eq!(record.is_some(), at != end - 4096, "cut {cut}");
                    asked += usize::from(is_filled);
                    if record.is_none() {
                        assert_eq!(undo(&used).unwrap(), None);
                    }
                }
                other => panic!("cut {cut}, {at}: {other:?}"),
            }
            let now = used.contents();
            assert!(now.starts_with(&data), "cut {cut}");
            assert!(now[usize::try_from(at).unwrap()..].starts_with(b"newer"));
        }
    }
    assert!(asked > 0);
}

/// A file has to have its length to the byte, although its record is found by the block.
#[test]
fn a_few_bytes_behind_the_end_are_not_cut_off() {
    let data = data(usize::try_from(2 * SHIFT).unwrap());
    let (mut asked, mut left) = (0, 0);
    let mut survivors = half_begun(|| disk(&data, room()), room());
    survivors.push(grown(&data, room()));
    for (cut, survivor) in survivors.iter().enumerate() {
        for more in [1, 4095] {
            let mut bytes = survivor.contents();
            bytes.resize(bytes.len() + more, b'x');
            let longer = SimBackend::holding(&bytes, 1);
            match undo(&longer) {
                Err(InPlaceError::Grown { record, .. }) => {
                    assert!(record.is_some() && bytes.starts_with(&data), "cut {cut}");
                    asked += 1;
                }
                Err(InPlaceError::Resized { size, .. }) => {
                    assert_eq!(size, room().device().unwrap());
                    left += 1;
                }
                other => panic!("cut {cut}: {other:?}"),
            }
            assert!(longer.contents() == bytes, "cut {cut}");
        }
    }
    assert!(asked > 0 && left > 0);
}

/// The header is made there, and a user may write there.
#[test]
fn what_is_written_at_the_old_end_is_not_cut_off() {
    let data = data(usize::try_from(2 * SHIFT).unwrap());
    let mut survivors = half_begun(|| disk(&data, room()), room());
    survivors.push(grown(&data, room()));
    for (cut, survivor) in survivors.iter().enumerate() {
        for at in [2 * SHIFT, 3 * SHIFT - 5] {
            let used = used(survivor, at, b"newer");
            match undo(&used) {
                Err(InPlaceError::Grown { original, .. }) => {
                    assert_eq!(original, data.len() as u64);
                    assert!(used.contents().starts_with(&data), "cut {cut}");
                }
                Err(InPlaceError::Damaged { .. }) => {}
                other => panic!("cut {cut}: {other:?}"),
            }
            let now = used.contents();
            assert!(now[usize::try_from(at).unwrap()..].starts_with(b"newer"));
        }
    }
}

/// The saved data is cut off with the file's end, and does not come back when the file is as long
/// as it was.
#[test]
fn a_file_that_was_cut_to_its_old_length_is_damaged() {
    let data = data(usize::try_from(2 * SHIFT).unwrap());
    let mut damaged = 0;
    for survivor in half_begun(|| disk(&data, room()), room()) {
        if !is_half_overwritten(&*survivor).unwrap() {
            continue;
        }
        let cut = resized(&survivor, 2 * SHIFT);
        let again = resized(&cut, survivor.info().size);
        for cut in [cut, again] {
            let before = cut.contents();
            match undo(&*cut) {
                Err(InPlaceError::Damaged { shrunk_from, .. }) => assert_eq!(shrunk_from, None),
                other => panic!("{other:?}"),
            }
            assert!(cut.contents() == before);
            damaged += 1;
        }
    }
    assert!(damaged > 0);
}

/// The volume ends where its data does, so that the file would be cut.
#[test]
fn a_file_that_got_another_length_in_the_midst_is_not_gone_on_with() {
    let data = data(usize::try_from(2 * SHIFT).unwrap());
    let moved = disk(&data, room());
    let mut begun = begin_or_go_on(&moved, room()).unwrap().unwrap();
    assert!(begun.advance().unwrap());
    drop(begun);
    let clean = disk(&data, room());
    let begun = begin_or_go_on(&clean, room()).unwrap().unwrap();
    let end = begun.clean().unwrap().end().unwrap();
    let cut = resized(&clean, end);
    for (whole, is_done) in [(moved, false), (clean, true), (cut, true)] {
        let size = whole.info().size;
        for other in [size + 1, size + 512, size + SHIFT, size - 1] {
            let resized_file = resized(&whole, other);
            let before = resized_file.contents();
            match encrypt(&resized_file, room()).map(drop) {
                Err(InPlaceError::Length { size, expected }) => {
                    let device = room().device().unwrap();
                    let is_cut = is_done && other < device;
                    assert_eq!(size, other);
                    assert_eq!(expected, if is_cut { end } else { device });
                }
                other => panic!("{size}: {other:?}"),
            }
            assert!(resized_file.contents() == before);
        }
        let done = encrypt(&whole, room()).unwrap();
        assert!(plaintext(done, data.len()) == data);
    }
}

/// A start that is longer than the part of it in which a filled sector is looked for.
#[test]
fn a_start_that_is_half_put_back_is_known_by_its_first_bytes() {
    const FAR: u64 = 21 << 20;
    let data = data(usize::try_from(FAR).unwrap());
    let size = Room::in_file(FAR, FAR, 4096).unwrap().device().unwrap();
    let room = Room::in_device(size, size - FAR, FAR, 4096).unwrap();
    let after = |cut| {
        let (broken, _) = super::encrypt_until(&disk(&data, room), room, Some(cut));
        broken.settled()
    };
    // The last cut before which the header is not whole.
    let (mut low, mut high) = (1, 256);
    while low < high {
        let cut = u64::midpoint(low, high);
        match scrim_volume::LuksDevice::read(&after(cut)) {
            Ok(_) => high = cut,
            Err(_) => low = cut + 1,
        }
    }
    let larger = size + (1 << 20);
    for cut in [low - 2, low - 28] {
        let half = resized(&after(cut), larger).contents();
        let broken = |cut| {
            let disk = SimBackend::holding(&half, 1);
            disk.arm(scrim_backend::sim::Faults {
                cut_at: Some(cut),
                ..Default::default()
            });
            (undo(&disk).is_err(), disk)
        };
        let mut cuts = 0;
        for second in (1..).step_by(5) {
            let (is_cut, disk) = broken(second);
            if !is_cut {
                break;
            }
            cuts += 1;
            for survivor in [disk.settled(), disk.after_cut(second)] {
                undo(&survivor).unwrap();
                assert!(
                    survivor.contents().starts_with(&data),
                    "cuts {cut}, {second}"
                );
            }
        }
        assert!(cuts > 4, "{cuts}");
    }
}

/// The sector is one that any file in the data may hold, as may the copies of what it tells of.
#[test]
fn a_filled_sector_in_a_file_of_the_data_directs_nothing() {
    const AT: usize = 40 << 10;
    let data = data(usize::try_from(2 * SHIFT).unwrap());
    let device = super::in_device(0);
    let bytes =
        |at: u64, len: u64| usize::try_from(at).unwrap()..usize::try_from(at + len).unwrap();
    let model = half_begun(|| disk(&data, device), device);
    let filled = model.iter().map(|survivor| survivor.contents());
    let mut filled = filled.filter(|bytes| bytes[AT..].starts_with(b"scrim overwrites"));
    let filled: Vec<u8> = filled.next_back().unwrap();
    let mut mirrored = data.clone();
    mirrored[bytes(0, SHIFT)].copy_from_slice(&filled[bytes(2 * SHIFT, SHIFT)]);
    for copy in [0, super::COPY] {
        mirrored[bytes(copy, 4096)].fill(7);
    }
    // The user's own start, the one that was saved, and the most of what the header would have left.
    let mut own = data.clone();
    own[..4096].fill(7);
    for start in [own, data.clone(), mirrored] {
        let mut image = filled.clone();
        image[..start.len()].copy_from_slice(&start);
        image[AT..AT + 512].copy_from_slice(&filled[AT..AT + 512]);
        let end = image.len();
        image[end - 4096..].fill(7);
        for keep in [false, true] {
            if keep {
                image[AT..AT + 4].copy_from_slice(b"keep");
            }
            let image_disk = Arc::new(SimBackend::holding(&image, 1));
            match undo(&*image_disk) {
                Err(InPlaceError::Unproven { offset, .. }) => assert_eq!(offset, AT as u64),
                other => panic!("{other:?}"),
            }
            assert!(!is_half_overwritten(&*image_disk).unwrap());
            assert!(image_disk.contents() == image);
            super::clear(&image_disk, AT as u64);
            assert_eq!(undo(&*image_disk).unwrap(), None);
        }
    }
}
