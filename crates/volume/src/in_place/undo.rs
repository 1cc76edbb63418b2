//! Taking back an encryption in place that did not get beyond its beginning.

use scrim_backend::Backend;
use scrim_luks::Consent;

use super::error::InPlaceError;
use super::record::{self, Digest, Record};
use super::start::Found;
use crate::HeaderSession;
use crate::luks_device::{LuksDevice, LuksError};

/// Puts back what an encryption in place has changed that was cut short before its header was whole.
/// Returns the size that the file had, to which it is to be cut: the record, without which nobody knows
/// that size, goes with that. `None` where there is nothing to undo.
///
/// What was written since stays: the start is put back only where it shows nothing but what was saved
/// and what the header's writing leaves. A file that is used beyond its old end keeps its length.
///
/// # Errors
/// [`InPlaceError::Used`] where it was written to while it was half overwritten, and
/// [`InPlaceError::Grown`] where a file was used while it was longer, and its length is for its user to
/// say; nothing has changed. When the storage fails; it can be tried again.
pub fn undo(backend: &dyn Backend) -> Result<Option<u64>, InPlaceError> {
    if Record::read(backend)?.is_none() {
        return Ok(None);
    }
    let session = HeaderSession::start(backend)?;
    let Some(record) = Record::read(backend)? else {
        return Ok(None);
    };
    let Record {
        original,
        shift,
        start,
        ref uuid,
    } = record;
    let at = record::place(backend).unwrap_or(original);
    if start.saved == 0 {
        let now = Digest::of(backend, 0, start.len.min(original))?;
        let unchanged = now == start.digest;
        return match Record::is_unused(backend, original, at)? {
            true if unchanged => Ok(Some(original)),
            true => Err(InPlaceError::Grown {
                original,
                record: at,
            }),
            false => Ok(None),
        };
    }
    match session.read() {
        // It is whole, or was: it is gone on with.
        Ok(luks) if luks.header().uuid().raw() == uuid => return Ok(None),
        Ok(_) | Err(LuksError::Header(_)) => {}
        Err(error) => return Err(error.into()),
    }
    let intact = start.is_intact(backend, shift)?;
    let found = start.look(backend, intact)?;
    let made = start.saved - start.len;
    let unused = match found {
        Found::Saved | Found::Data => Record::is_unused(backend, original, made)?,
        Found::Filled => Record::is_unused(backend, original.max(start.len), made)?,
        // The header may have been written there too.
        Found::Header | Found::Used => true,
    };
    let is_file = original < at;
    match (found, intact && unused) {
        (Found::Saved | Found::Data, false) => return Ok(None),
        (Found::Data, true) if is_file => {
            return Err(InPlaceError::Grown {
                original,
                record: at,
            });
        }
        (Found::Used, _) | (_, false) => {
            return Err(InPlaceError::Used {
                saved: start.saved,
                len: start.len,
                record: at,
            });
        }
        (_, true) => start.put_back(backend, found)?,
    }
    if !is_file {
        Record::destroy(backend)?;
    }
    Ok(Some(original))
}

/// Writes the header of an encryption that is to go on once more, where a cut came before it was whole,
/// and destroys the record. A copy of it over which something else lies is left as it is.
pub(super) fn finish_beginning(
    backend: &dyn Backend,
    luks: &LuksDevice,
) -> Result<(), InPlaceError> {
    let session = HeaderSession::start(backend)?;
    let record = Record::read(backend)?.filter(|record| record.uuid == luks.header().uuid().raw());
    let mut is_ours = luks.consent() != Some(Consent::Ask);
    if let Some(Record { shift, start, .. }) = record {
        let intact = start.is_intact(backend, shift)?;
        if start.look(backend, intact)? == Found::Header {
            start.overwrite(backend, luks.header(), shift)?;
            is_ours = true;
        }
    }
    if !is_ours {
        return Err(LuksError::Ambiguous.into());
    }
    Record::destroy(backend)?;
    drop(session);
    Ok(())
}
