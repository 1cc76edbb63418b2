//! Division of a device while its data is encrypted.

use scrim_backend::Backend;
use scrim_luks::{HeaderError, Underway};

use super::error::InPlaceError;
use super::record::{self, Record, Stage};
use super::start::{Start, StartPlace};
use crate::header_session::HeaderSession;
use crate::luks_device::LuksError;

/// Alignment of all that lies behind the data, in bytes: the largest sector.
const BLOCK: u64 = 4096;

/// Division of a device while its data is encrypted in place, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Size that the file had, to which it goes back if the encryption comes to nothing.
    pub original: u64,
    /// Length of the data, filled up to whole encryption sectors.
    pub length: u64,
    /// Data offset, and so the number of bytes by which everything moves.
    pub shift: u64,
}

impl Room {
    /// Divides a file with `original` bytes of data that can be made longer, for encryption sectors of
    /// `sector` bytes; `None` if no file can be so long.
    #[must_use]
    pub fn in_file(original: u64, shift: u64, sector: u64) -> Option<Self> {
        let room = Self {
            original,
            length: original.checked_next_multiple_of(sector)?,
            shift,
        };
        room.device()?;
        Some(room)
    }

    /// Divides a device of `size` bytes of which the last `reduce` hold no data; `None` if these are
    /// too few.
    #[must_use]
    pub fn in_device(size: u64, reduce: u64, shift: u64, sector: u64) -> Option<Self> {
        let room = Self {
            original: size,
            length: size.checked_sub(reduce)?.checked_next_multiple_of(sector)?,
            shift,
        };
        let fits = room.length > 0 && room.device()? <= size;
        fits.then_some(room)
    }

    /// Bytes that a device must have more than its data, for this data offset: `None` is more than
    /// there can be.
    #[must_use]
    pub fn around(shift: u64) -> Option<u64> {
        shift.checked_mul(2)?.checked_add(record::LEN)
    }

    /// Returns the smallest size that the device must have.
    #[must_use]
    pub fn device(&self) -> Option<u64> {
        let length = self.length.checked_next_multiple_of(BLOCK)?;
        length.checked_add(Self::around(self.shift)?)
    }

    /// Checks whether a file is to be made longer.
    #[must_use]
    pub fn grows(&self) -> bool {
        self.original < self.saved()
    }

    /// Makes what a file is to end with from the moment when it is made longer, and says where that
    /// lies: with it [`undo`](super::undo()) knows how long the file was, and whether it was used since.
    /// The `session` is to last until [`InPlace::begin`](super::InPlace::begin) has returned.
    ///
    /// # Errors
    /// [`LuksError::Changed`] where the file has got a header or another
    /// length meanwhile; when the storage fails.
    pub fn end(&self, session: &HeaderSession<'_>) -> Result<(u64, Vec<u8>), InPlaceError> {
        check_raw(session, self.original)?;
        let record = self.record(session.backend(), Stage::Grown)?;
        Ok((self.saved() + self.shift, record.encode()))
    }

    /// Makes a record of a stage in which the start is as it was.
    pub(super) fn record(
        &self,
        backend: &dyn Backend,
        stage: Stage,
    ) -> Result<Record, InPlaceError> {
        Ok(Record {
            stage,
            original: self.original,
            shift: self.shift,
            start: Start::unsaved(backend, self.start_place(), self.original)?,
            uuid: String::new(),
        })
    }

    /// Returns where the start of the data is saved, and what the header overwrites.
    pub(super) fn start_place(&self) -> StartPlace {
        StartPlace {
            saved: self.saved(),
            len: self.length.min(self.shift),
            shift: self.shift,
        }
    }

    /// Returns the size of the device from its beginning to its end.
    pub(super) fn size_meanwhile(&self) -> u64 {
        match self.grows() {
            true => self.saved() + self.shift + record::LEN,
            false => self.original,
        }
    }

    /// Offset at which the start of the data is saved.
    pub(super) fn saved(&self) -> u64 {
        self.length.next_multiple_of(BLOCK) + self.shift
    }
}

/// Checks that a device still has `size` bytes and no header: it was looked at before the lock was there.
pub(super) fn check_raw(session: &HeaderSession<'_>, size: u64) -> Result<(), InPlaceError> {
    if session.backend().measure()?.size != size {
        return Err(LuksError::Changed.into());
    }
    match session.read() {
        Err(LuksError::Header(HeaderError::NotLuks)) => Ok(()),
        Ok(_) | Err(LuksError::Header(_)) => Err(LuksError::Changed.into()),
        Err(error) => Err(error.into()),
    }
}

/// Checks whether the numbers of a header's note can be true, for encryption sectors of `sector` bytes.
/// After all is encrypted, the saved start may be gone.
pub(super) fn check(
    underway: Underway,
    shift: u64,
    sector: u64,
    size: u64,
) -> Result<(), InPlaceError> {
    let Underway {
        length,
        saved,
        position,
        ..
    } = underway;
    let aligned = length % sector == 0 && [saved, shift].iter().all(|n| n % BLOCK == 0);
    let encrypted = length.checked_add(shift);
    let whole = saved
        .checked_add(shift)
        .and_then(|end| end.checked_add(record::LEN));
    let needed = if position == 0 { encrypted } else { whole };
    let in_order = shift > 0
        && encrypted.is_some_and(|end| end <= saved)
        && whole.is_some()
        && (underway.grown || needed.is_some_and(|end| end <= size));
    let on_the_way = position == length || (position < length && position % shift.max(1) == 0);
    if !(aligned && in_order && on_the_way) {
        return Err(InPlaceError::Note(underway));
    }
    // A file is cut at its end, so that nothing may be there that was written since.
    let is_cut = position == 0 && whole.is_some_and(|whole| size < whole);
    match if is_cut { encrypted } else { whole } {
        Some(expected) if underway.grown && size != expected => {
            Err(InPlaceError::Length { size, expected })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_file_grows_by_two_headers_and_a_record() {
        let room = Room::in_file(5 * MIB + 1, MIB, 4096).unwrap();
        assert_eq!(room.length, 5 * MIB + 4096);
        assert_eq!(room.saved(), 6 * MIB + 4096);
        assert_eq!(room.device(), Some(7 * MIB + 8192));
        let small = Room::in_file(5 * MIB + 1, MIB, 512).unwrap();
        assert_eq!(small.length, 5 * MIB + 512);
        assert_eq!(
            (small.saved(), small.device()),
            (room.saved(), room.device())
        );
        assert_eq!(Room::in_file(u64::MAX - 4096, MIB, 512), None);
        assert_eq!(Room::in_file(1, u64::MAX, 512), None);
    }

    #[test]
    fn a_device_must_have_as_much_to_spare() {
        assert_eq!(Room::in_device(10 * MIB, 2 * MIB, MIB, 4096), None);
        let room = Room::in_device(10 * MIB, 2 * MIB + 4096, MIB, 4096).unwrap();
        assert_eq!(room.device(), Some(10 * MIB));
        assert_eq!(Room::in_device(10 * MIB, 11 * MIB, MIB, 4096), None);
        assert_eq!(Room::in_device(10 * MIB, 10 * MIB, MIB, 4096), None);
    }

    #[test]
    fn a_note_that_cannot_be_true_is_refused() {
        let size = 8 * MIB;
        let underway = |length, saved, position| Underway {
            length,
            saved,
            position,
            grown: false,
        };
        let check = |underway, shift| check(underway, shift, 512, size).is_ok();
        assert!(check(underway(5 * MIB, 6 * MIB, 5 * MIB), MIB));
        assert!(check(underway(5 * MIB, 6 * MIB, 0), MIB));
        assert!(check(underway(7 * MIB, 8 * MIB, 0), MIB), "it was cut");
        assert!(check(underway(5 * MIB + 512, 6 * MIB + 4096, MIB), MIB));
        for (wrong, shift) in [
            (underway(5 * MIB, 6 * MIB, 5 * MIB), 0),
            (underway(5 * MIB, 6 * MIB, 6 * MIB), MIB),
            (underway(5 * MIB, 6 * MIB, 4096), MIB),
            (underway(5 * MIB, 5 * MIB, MIB), MIB),
            (underway(6 * MIB, 7 * MIB, MIB), MIB),
            (underway(8 * MIB, 9 * MIB, 0), MIB),
            (underway(5 * MIB, u64::MAX - 4095, MIB), MIB),
            (underway(u64::MAX - 4095, 6 * MIB, MIB), MIB),
            (underway(5 * MIB + 8, 6 * MIB + 4096, MIB), MIB),
            (underway(5 * MIB + 512, 6 * MIB + 512, MIB), MIB),
        ] {
            assert!(!check(wrong, shift), "{wrong:?}");
        }
    }

    #[test]
    fn a_file_that_was_made_longer_has_one_length_until_it_is_cut() {
        let check = |position, size| {
            let underway = Underway {
                length: 5 * MIB,
                saved: 6 * MIB,
                position,
                grown: true,
            };
            check(underway, MIB, 512, size)
        };
        let whole = 7 * MIB + record::LEN;
        assert!(check(5 * MIB, whole).is_ok() && check(0, whole).is_ok());
        assert!(check(0, 6 * MIB).is_ok(), "it was cut");
        for (position, size) in [
            (5 * MIB, whole + 1),
            (MIB, whole + MIB),
            (MIB, whole - 1),
            (MIB, 6 * MIB),
            (0, whole + 1),
            (0, 6 * MIB + 1),
            (0, 6 * MIB - 1),
        ] {
            let is_cut = position == 0 && size < whole;
            match check(position, size) {
                Err(InPlaceError::Length { expected, .. }) => {
                    assert_eq!(expected, if is_cut { 6 * MIB } else { whole });
                }
                other => panic!("{position} {size}: {other:?}"),
            }
        }
    }
}
