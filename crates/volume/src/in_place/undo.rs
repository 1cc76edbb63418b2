//! Undoes an encryption in place that did not get beyond its beginning.

use scrim_backend::Backend;
use scrim_luks::{Condition, Consent, Diagnosis, HEADER_AREA_MAX, Header, HeaderCopy};

use super::digest::Digest;
use super::error::{InPlaceError, Keep};
use super::filled_start::Found;
use super::filling::Filling;
use super::record::{self, Record, Stage};
use crate::header_session::HeaderSession;
use crate::luks_device::{LuksDevice, LuksError};

/// Undoes like [`undo_in`], under a lock of its own that is only taken where there is something to undo.
///
/// # Errors
/// As for [`undo_in`], and when another program keeps the lock.
pub fn undo(backend: &dyn Backend) -> Result<Option<u64>, InPlaceError> {
    let nothing = Beginning::of(backend)?.is_none() && !record::is_of_other_version(backend)?;
    if nothing && overwritten(&LuksDevice::read_area(backend, HEADER_AREA_MAX)?).is_none() {
        return Ok(None);
    }
    undo_in(&HeaderSession::start(backend)?)
}

/// Puts back what an encryption in place has changed that was cut short before its header was whole.
/// Returns the size that the file had, to which it is to be cut: the record, without which nobody knows
/// that size, goes with that. `None` where there is nothing to undo.
///
/// Data that was written since stays: only those sectors are put back that show what the header's writing
/// leaves. A file that is used beyond its old end keeps its length.
///
/// # Errors
/// [`InPlaceError::Used`] and [`InPlaceError::Damaged`] where the start cannot be put back,
/// [`InPlaceError::Unproven`] where a file in the data may look as if it had to be,
/// [`InPlaceError::Resized`], [`InPlaceError::OtherVersion`] and [`InPlaceError::Overwritten`]; nothing
/// has changed.
/// [`InPlaceError::Grown`] where a file was used while it was longer, and its length is for its user to
/// say; the start is put back. When the storage fails; it can be tried again.
pub fn undo_in(session: &HeaderSession<'_>) -> Result<Option<u64>, InPlaceError> {
    let backend = session.backend();
    let size = backend.measure()?.size;
    match session.read() {
        // The header is whole: its encryption is to go on, or it is another program's.
        Ok(_) => return Ok(None),
        Err(LuksError::Header(_)) => {}
        Err(error) => return Err(error.into()),
    }
    let Some(beginning) = Beginning::of(backend)? else {
        return match overwritten(&session.bytes(HEADER_AREA_MAX)?) {
            Some(copy) => Err(InPlaceError::Overwritten { copy }),
            None if record::is_of_other_version(backend)? => Err(InPlaceError::OtherVersion),
            None => Ok(None),
        };
    };
    let seen = beginning.look(backend)?;
    let Record {
        original,
        shift,
        start,
        ..
    } = beginning.record;
    let filling = Filling::of(&beginning.record);
    let decision = decide(seen);
    let mut has_record = beginning.has_record;
    match decision {
        Decision::Undone | Decision::Grown => {}
        Decision::PutBack { .. } => {
            has_record |= beginning.write_record(backend)?;
            start.put_back(backend, &filling, seen.found, shift)?;
        }
        Decision::Clear { .. } => {
            has_record |= beginning.write_record(backend)?;
            start.replace_filled(backend, &filling, false)?;
        }
        Decision::Used | Decision::Damaged | Decision::Resized | Decision::Unproven => {
            return Err(beginning.refusal(backend, decision));
        }
    }
    if !seen.is_file {
        Record::destroy(backend)?;
        return Ok(Some(size));
    }
    if seen.is_resized && !has_record {
        // Its user has said how long it is to be.
        return Ok(None);
    }
    match decision {
        Decision::Grown
        | Decision::PutBack { is_used: true }
        | Decision::Clear { is_used: true } => Err(InPlaceError::Grown {
            original,
            record: has_record.then_some(start.saved + shift),
        }),
        _ => Ok(Some(original)),
    }
}

/// Checks whether a device without a header shows that one was half written over its data, so that
/// neither is whole; of what another version has begun that is not known, but may be so.
///
/// # Errors
/// When the storage fails.
pub fn is_half_overwritten(backend: &dyn Backend) -> Result<bool, InPlaceError> {
    if record::is_of_other_version(backend)? {
        return Ok(LuksDevice::read(backend).is_err());
    }
    if Filling::first(backend)?.is_some() {
        return Ok(true);
    }
    let Some(record) = Record::read(backend)? else {
        return Ok(false);
    };
    Ok(Filling::find(backend)?.is_some_and(|filled| filled.record == record))
}

/// A beginning that is not known to have come to its end.
struct Beginning {
    record: Record,
    /// Says that the record lies at the end of the device.
    has_record: bool,
    /// Place of a filled sector in bytes, and the decision on it to keep what is there.
    filled: Option<(u64, bool)>,
}

/// State of a device on which there was a beginning.
#[derive(Debug, Clone, Copy)]
struct Seen {
    /// A file was made longer, so that it has to be cut.
    is_file: bool,
    /// The file's length has changed since.
    is_resized: bool,
    found: Found,
    /// Saved start and made header are still there.
    intact: bool,
    /// The bytes behind the old end of a file have not been written since.
    unused: bool,
    /// The user has decided to keep what cannot be told.
    keep: bool,
    /// A sector is filled.
    is_filled: bool,
    /// The first sector is filled, or the record lies at the end.
    proven: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Decision {
    /// The start is its user's already.
    Undone,
    /// The start is its user's already, and the file is in use.
    Grown,
    PutBack {
        /// The file is in use, as in the next one.
        is_used: bool,
    },
    /// Sectors are cleared whose contents are lost.
    Clear {
        is_used: bool,
    },
    Used,
    Damaged,
    Resized,
    Unproven,
}

/// Decides what becomes of a beginning.
fn decide(seen: Seen) -> Decision {
    let Seen {
        is_file,
        found,
        intact,
        unused,
        ..
    } = seen;
    if !seen.proven {
        return Decision::Unproven;
    }
    if seen.is_resized && is_file && !seen.keep {
        return match found {
            Found::Saved | Found::Data => Decision::Grown,
            _ if intact => Decision::Resized,
            _ => Decision::Damaged,
        };
    }
    let is_used = is_file && (!unused || seen.is_resized);
    match (found, intact) {
        // While the header is not whole some sectors are filled.
        (Found::Header, true) if !seen.is_filled => Decision::Used,
        (Found::Saved, true) if !is_used => Decision::Undone,
        (Found::Saved | Found::Data, _) if is_file => Decision::Grown,
        (Found::Saved | Found::Data, _) => Decision::Undone,
        (Found::Filled | Found::Header, true) => Decision::PutBack { is_used },
        (Found::Mixed, true) => Decision::PutBack { is_used: is_file },
        (Found::Used, true) if seen.keep => Decision::PutBack { is_used: is_file },
        (Found::Used, true) => Decision::Used,
        (_, false) if seen.keep => Decision::Clear { is_used: is_file },
        (_, false) => Decision::Damaged,
    }
}

impl Beginning {
    /// Reads what the device itself says of a beginning: at its end, or where the header was to be.
    fn of(backend: &dyn Backend) -> Result<Option<Self>, InPlaceError> {
        let record = Record::read(backend)?;
        let Some(filled) = Filling::find(backend)? else {
            return Ok(record.map(|record| Self {
                record,
                has_record: true,
                filled: None,
            }));
        };
        let has_record = record.as_ref() == Some(&filled.record);
        Ok(Some(Self {
            record: filled.record,
            has_record,
            filled: Some((filled.offset, filled.keep)),
        }))
    }

    fn look(&self, backend: &dyn Backend) -> Result<Seen, InPlaceError> {
        let Record {
            original,
            shift,
            start,
            ..
        } = self.record;
        let is_file = self.record.is_of_file();
        let is_resized = self.record.size() != backend.info().size;
        let mut seen = Seen {
            is_file,
            is_resized,
            found: Found::Data,
            intact: true,
            unused: true,
            keep: self.filled.is_some_and(|(_, keep)| keep),
            is_filled: self.filled.is_some(),
            proven: self.has_record || self.filled.is_some_and(|(offset, _)| offset == 0),
        };
        if self.record.stage != Stage::Saved {
            let now = Digest::of(backend, 0, start.len.min(original))?;
            if now == start.digest {
                seen.found = Found::Saved;
                seen.unused = self.record.is_unused(backend)?;
            }
            return Ok(seen);
        }
        seen.intact = start.is_intact(backend, shift)?;
        seen.found = start.look(backend, &Filling::of(&self.record), seen.intact)?;
        if is_file && seen.intact {
            let from = match seen.found {
                Found::Saved | Found::Data => original,
                // A sector of which only a part is data is filled as a whole.
                _ => original.max(start.len),
            };
            seen.unused = !is_resized
                && self.record.is_end_unused(backend)?
                && start.is_unused(backend, from, shift)?;
        }
        Ok(seen)
    }

    /// Writes the record once more where only the start tells of it, and nobody uses its place: once
    /// the start is put back nothing else does. Says whether it did.
    fn write_record(&self, backend: &dyn Backend) -> Result<bool, InPlaceError> {
        let is_here = self.record.size() == backend.info().size;
        let is_missing = self.record.is_of_file() && is_here && !self.has_record;
        if !is_missing || !self.record.is_end_unused(backend)? {
            return Ok(false);
        }
        self.record.write(backend)?;
        Ok(true)
    }

    /// Says why the start is left as it is.
    fn refusal(&self, backend: &dyn Backend, decision: Decision) -> InPlaceError {
        let Record {
            original,
            shift,
            start,
            ..
        } = self.record;
        let is_shrunk = backend.info().size < original;
        let shrunk_from = (!self.record.is_of_file() && is_shrunk).then_some(original);
        let original = self.record.is_of_file().then_some(original);
        let end = start.saved + shift;
        let keep = match self.filled {
            Some((offset, _)) => Keep::Marked(offset),
            // Then it was the record that was found.
            None => Keep::Cleared(record::place(backend).unwrap_or(end)),
        };
        match decision {
            Decision::Resized => InPlaceError::Resized {
                size: end + record::LEN,
                keep,
            },
            Decision::Damaged => InPlaceError::Damaged {
                len: start.len,
                original,
                shrunk_from,
                keep,
            },
            Decision::Unproven => InPlaceError::Unproven {
                offset: self.filled.map_or(end, |(offset, _)| offset),
                saved: start.saved,
                len: start.len,
            },
            _ => InPlaceError::Used {
                saved: start.saved,
                len: start.len,
                original,
                keep,
            },
        }
    }
}

/// Finds the copy that is left of the header of an unfinished encryption, where something else has been
/// written over the other copy, in the first bytes of a device.
fn overwritten(area: &[u8]) -> Option<u64> {
    let Condition::OneCopy(parsed) = Diagnosis::of(area, u64::MAX).condition else {
        return None;
    };
    let repair = parsed.repair?;
    let by_another = repair.overwritten_by.is_some() && parsed.header.underway().is_some();
    by_another.then(|| other_copy(&parsed.header, repair.copy))
}

/// Finds where the other one of two copies lies.
fn other_copy(header: &Header, copy: HeaderCopy) -> u64 {
    match (header, copy) {
        (Header::Luks2(header), HeaderCopy::Primary) => header.metadata_size(),
        _ => 0,
    }
}

/// Writes the header of an encryption that is to go on once more, where a cut came before it was whole,
/// and destroys the record. A copy of it over which something else lies is left as it is.
pub(super) fn finish_beginning(
    backend: &dyn Backend,
    luks: &LuksDevice,
) -> Result<(), InPlaceError> {
    let session = HeaderSession::start(backend)?;
    backend.measure()?;
    let beginning = Beginning::of(backend)?
        .filter(|beginning| beginning.record.uuid == luks.header().uuid().raw());
    let mut is_ours = luks.consent() != Some(Consent::Ask);
    if let Some(Beginning { record, .. }) = beginning {
        let start = record.start;
        let intact = start.is_intact(backend, record.shift)?;
        if start.look(backend, &Filling::of(&record), intact)? == Found::Header && intact {
            start.overwrite(backend, luks.header(), record.shift)?;
            is_ours = true;
        }
    }
    if !is_ours {
        let copy = luks.worse_copy().unwrap_or(HeaderCopy::Secondary);
        let copy = other_copy(luks.header(), copy);
        return Err(InPlaceError::Overwritten { copy });
    }
    Record::destroy(backend)?;
    drop(session);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(found: Found) -> Seen {
        Seen {
            is_file: true,
            is_resized: false,
            found,
            intact: true,
            unused: true,
            keep: false,
            is_filled: true,
            proven: true,
        }
    }

    #[test]
    fn a_file_is_cut_only_where_nobody_has_used_it() {
        let put_back = |is_used| Decision::PutBack { is_used };
        for (found, unused, used) in [
            (Found::Saved, Decision::Undone, Decision::Grown),
            (Found::Data, Decision::Grown, Decision::Grown),
            (Found::Filled, put_back(false), put_back(true)),
            (Found::Header, put_back(false), put_back(true)),
            (Found::Mixed, put_back(true), put_back(true)),
            (Found::Used, Decision::Used, Decision::Used),
        ] {
            let seen = seen(found);
            assert_eq!(decide(seen), unused, "{found:?}");
            let seen = Seen {
                unused: false,
                ..seen
            };
            assert_eq!(decide(seen), used, "{found:?}");
        }
    }

    #[test]
    fn nothing_is_put_back_of_what_is_damaged_and_nothing_cleared_unasked() {
        for found in [Found::Filled, Found::Mixed, Found::Used] {
            for is_file in [false, true] {
                let damaged = Seen {
                    intact: false,
                    is_file,
                    ..seen(found)
                };
                assert_eq!(decide(damaged), Decision::Damaged, "{found:?}");
                let kept = Seen {
                    keep: true,
                    ..damaged
                };
                assert_eq!(decide(kept), Decision::Clear { is_used: is_file });
            }
        }
        for found in [Found::Saved, Found::Data] {
            let damaged = Seen {
                intact: false,
                ..seen(found)
            };
            assert_eq!(decide(damaged), Decision::Grown, "{found:?}");
        }
    }

    #[test]
    fn a_device_is_put_back_whatever_its_size_and_a_file_only_with_its_own() {
        for found in [
            Found::Saved,
            Found::Data,
            Found::Filled,
            Found::Header,
            Found::Mixed,
        ] {
            let file = Seen {
                is_resized: true,
                ..seen(found)
            };
            let expected = match found {
                Found::Saved | Found::Data => Decision::Grown,
                _ => Decision::Resized,
            };
            assert_eq!(decide(file), expected, "{found:?}");
            let device = Seen {
                is_file: false,
                ..file
            };
            let expected = match found {
                Found::Saved | Found::Data => Decision::Undone,
                _ => Decision::PutBack { is_used: false },
            };
            assert_eq!(decide(device), expected, "{found:?}");
        }
    }

    #[test]
    fn what_is_cut_off_is_not_there_again_in_a_file_of_its_old_length() {
        for found in [Found::Filled, Found::Header, Found::Mixed, Found::Used] {
            let cut = Seen {
                is_resized: true,
                intact: false,
                ..seen(found)
            };
            assert_eq!(decide(cut), Decision::Damaged, "{found:?}");
        }
    }

    #[test]
    fn nothing_is_written_for_a_sector_that_anybody_could_have_written() {
        for found in [Found::Filled, Found::Header, Found::Mixed, Found::Used] {
            for (intact, keep) in [(true, false), (true, true), (false, true)] {
                let unproven = Seen {
                    intact,
                    keep,
                    proven: false,
                    ..seen(found)
                };
                assert_eq!(decide(unproven), Decision::Unproven, "{found:?}");
            }
        }
        let unfilled = Seen {
            is_filled: false,
            ..seen(Found::Header)
        };
        assert_eq!(decide(unfilled), Decision::Used);
    }
}
