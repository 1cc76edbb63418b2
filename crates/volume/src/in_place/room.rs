//! How a device is divided while its data is encrypted.

use scrim_luks::Underway;

use super::error::InPlaceError;
use super::record::{self, Record};

/// What everything begins and ends at a multiple of, in bytes: the largest sector.
const BLOCK: u64 = 4096;

/// How a device is divided while its data is encrypted in place. In bytes, all but `original`
/// multiples of 4096.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// The size that the file had, to which it goes back if nothing comes of it.
    pub original: u64,
    /// How much data there is, filled up to whole sectors.
    pub length: u64,
    /// The data offset, and so by how much everything moves.
    pub shift: u64,
}

impl Room {
    /// For a file with `original` bytes of data that can be made longer; `None` if no file can be so
    /// long.
    #[must_use]
    pub fn in_file(original: u64, shift: u64) -> Option<Self> {
        let room = Self {
            original,
            length: original.checked_next_multiple_of(BLOCK)?,
            shift,
        };
        let around = shift.checked_mul(2)?.checked_add(record::LEN)?;
        room.length.checked_add(around)?;
        Some(room)
    }

    /// For a device of `size` bytes of which the last `reduce` hold no data; `None` if these are too
    /// few.
    #[must_use]
    pub fn in_device(size: u64, reduce: u64, shift: u64) -> Option<Self> {
        let room = Self {
            original: size,
            length: size.checked_sub(reduce)?.checked_next_multiple_of(BLOCK)?,
            shift,
        };
        let fits = room.length > 0 && room.device()? <= size;
        fits.then_some(room)
    }

    /// How much longer than its data a device must be, for this data offset: `None` is more than
    /// there can be.
    #[must_use]
    pub fn around(shift: u64) -> Option<u64> {
        shift.checked_mul(2)?.checked_add(record::LEN)
    }

    /// The size that the device needs at least.
    #[must_use]
    pub fn device(&self) -> Option<u64> {
        self.length.checked_add(Self::around(self.shift)?)
    }

    /// What a file is to end with from the moment when it is made longer, and where that lies: with it
    /// [`undo`](super::undo) knows how long the file was.
    #[must_use]
    pub fn end(&self) -> (u64, Vec<u8>) {
        let record = Record {
            original: self.original,
            ..Record::default()
        };
        (self.saved() + self.shift, record.encode())
    }

    /// Where the start of the data is saved.
    pub(super) fn saved(&self) -> u64 {
        self.length + self.shift
    }
}

/// Whether the numbers of a header's note can be true. Once all is encrypted, what was saved may be gone.
pub(super) fn check(underway: Underway, shift: u64, size: u64) -> Result<(), InPlaceError> {
    let Underway {
        length,
        saved,
        position,
    } = underway;
    let aligned = [length, saved, shift].iter().all(|n| n % BLOCK == 0);
    let encrypted = length.checked_add(shift);
    let whole = saved
        .checked_add(shift)
        .and_then(|end| end.checked_add(record::LEN));
    let needed = if position == 0 { encrypted } else { whole };
    let in_order = shift > 0
        && encrypted.is_some_and(|end| end <= saved)
        && whole.is_some()
        && needed.is_some_and(|end| end <= size);
    let on_the_way = position == length || (position < length && position % shift.max(1) == 0);
    if aligned && in_order && on_the_way {
        Ok(())
    } else {
        Err(InPlaceError::Note(underway))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_file_grows_by_two_headers_and_a_record() {
        let room = Room::in_file(5 * MIB + 1, MIB).unwrap();
        assert_eq!(room.length, 5 * MIB + 4096);
        assert_eq!(room.saved(), 6 * MIB + 4096);
        assert_eq!(room.device(), Some(7 * MIB + 8192));
        assert_eq!(Room::in_file(u64::MAX - 4096, MIB), None);
        assert_eq!(Room::in_file(1, u64::MAX), None);
    }

    #[test]
    fn a_device_must_have_as_much_to_spare() {
        assert_eq!(Room::in_device(10 * MIB, 2 * MIB, MIB), None);
        let room = Room::in_device(10 * MIB, 2 * MIB + 4096, MIB).unwrap();
        assert_eq!(room.device(), Some(10 * MIB));
        assert_eq!(Room::in_device(10 * MIB, 11 * MIB, MIB), None);
        assert_eq!(Room::in_device(10 * MIB, 10 * MIB, MIB), None);
    }

    #[test]
    fn a_note_that_cannot_be_true_is_refused() {
        let size = 8 * MIB;
        let underway = |length, saved, position| Underway {
            length,
            saved,
            position,
        };
        let check = |underway, shift| check(underway, shift, size).is_ok();
        assert!(check(underway(5 * MIB, 6 * MIB, 5 * MIB), MIB));
        assert!(check(underway(5 * MIB, 6 * MIB, 0), MIB));
        assert!(check(underway(7 * MIB, 8 * MIB, 0), MIB), "it was cut");
        for (wrong, shift) in [
            (underway(5 * MIB, 6 * MIB, 5 * MIB), 0),
            (underway(5 * MIB, 6 * MIB, 6 * MIB), MIB),
            (underway(5 * MIB, 6 * MIB, 4096), MIB),
            (underway(5 * MIB, 5 * MIB, MIB), MIB),
            (underway(6 * MIB, 7 * MIB, MIB), MIB),
            (underway(8 * MIB, 9 * MIB, 0), MIB),
            (underway(5 * MIB, u64::MAX - 4095, MIB), MIB),
            (underway(u64::MAX - 4095, 6 * MIB, MIB), MIB),
            (underway(5 * MIB + 512, 6 * MIB + 4096, MIB), MIB),
        ] {
            assert!(!check(wrong, shift), "{wrong:?}");
        }
    }
}
