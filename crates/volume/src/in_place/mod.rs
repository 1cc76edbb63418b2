//! Encrypting data where it lies, from its end to its start.
//!
//! ```text
//!            0          shift                         length                saved           end
//!   before   | data                                   |
//!   between  | header   | data        | ciphertext moved on by `shift`     | start of data | record
//!   after    | header   | ciphertext                                       |
//! ```
//!
//! 1. The start of the data, as much as the header will take, is saved behind everything else; the
//!    header is made beside it, of sectors that a [`Record`] behind that tells from anybody's; then the
//!    record says that both are there. Until here nothing is lost by a crash, and the data may still be
//!    used.
//! 2. The header is written over the [`Start`], with a requirement that keeps every program from the
//!    volume, and a note of the position. A crash meanwhile leaves a record and no header: [`undo()`]
//!    puts back those sectors of the start that prove that nobody else has written to them. Then the
//!    record is destroyed, before anything moves: a header that is damaged later must not look like one
//!    that was never written.
//! 3. One stretch of at most `shift` bytes after the other, from the last one on, is encrypted from
//!    where it lies to where it belongs, behind it. What is overwritten has been moved before, and the
//!    note says so durably; what is read stays until the next stretch is written. So after a crash
//!    [`InPlace::resume`] does the stretch again that was being encrypted.
//! 4. The first stretch is read where it was saved. Then that and the record are overwritten, a file is
//!    cut, and the requirement is lifted.
//!
//! A file changes its length together with what says so: it grows by the writing of its record, loses
//! that by being cut, and is cut while the header still says that there is something to go on with. So
//! whatever it is killed at, its length never stays wrong.

mod digest;
mod error;
mod filled_start;
mod filling;
mod marks;
mod pieces;
mod record;
mod room;
mod start;
mod undo;

use std::sync::Arc;

use scrim_backend::{Backend, Durability};
use scrim_luks::{FormatError, Formatted, Header, Placement, Underway, VolumeKey, luks2};
use scrim_sys::memory::SecretBytes;

use crate::data_path::DataPath;
use crate::header_session::HeaderSession;
use crate::luks_device::{LuksDevice, LuksError};
use crate::open_flags::OpenFlags;
use crate::volume::Volume;

pub use error::{InPlaceError, Keep};
use filling::Filling;
use marks::Marks;
use pieces::for_each;
use record::{Record, Stage};
pub use room::Room;
use start::Start;
pub use undo::{is_half_overwritten, undo, undo_in};

/// An encryption in place for which everything has been checked, and nothing has been written.
pub struct Prepared {
    room: Room,
    underway: Underway,
    made: Formatted,
    key: VolumeKey,
}

impl Prepared {
    /// Makes the header for a device that is divided like `room`, for the volume that `spec` describes.
    /// Its layout's data offset must be the one of `room`.
    ///
    /// # Errors
    /// [`FormatError`], when such a header cannot be made.
    pub fn new(
        room: Room,
        spec: &luks2::FormatSpec,
        key: VolumeKey,
        passphrase: &SecretBytes,
    ) -> Result<Self, FormatError> {
        let underway = Underway {
            length: room.length,
            saved: room.saved(),
            position: room.length,
            grown: room.grows(),
        };
        let made = luks2::format_underway(spec, &underway, &key, passphrase)?;
        Ok(Self {
            room,
            underway,
            made,
            key,
        })
    }
}

/// An encryption in place that has begun: the device, and the volume that it is becoming.
pub struct InPlace {
    backend: Arc<dyn Backend>,
    header: Header,
    volume: Volume,
    underway: Underway,
    /// Bytes by which everything moves: the data offset.
    shift: u64,
}

impl InPlace {
    /// Begins to encrypt the data at the start of `backend`, which must have the size that the
    /// prepared room needs, in a `session` on it. That is to end then: every later step takes its own.
    ///
    /// # Errors
    /// [`LuksError::Changed`] where the device has got a header or another
    /// size since it was looked at, and [`InPlaceError`]; where anything has been written, [`undo_in`]
    /// puts it back.
    pub fn begin(
        backend: Arc<dyn Backend>,
        session: &HeaderSession<'_>,
        prepared: Prepared,
    ) -> Result<Self, InPlaceError> {
        let Prepared {
            room,
            underway,
            made,
            key,
        } = prepared;
        room::check_raw(session, room.size_meanwhile())?;
        let place = room.start_place();
        place.save(&*backend)?;
        let marks = Marks::of(&made.plan);
        if room.grows() {
            // Durable before the header is begun, so that its sectors are known wherever a crash comes.
            room.record(&*backend, Stage::Making(marks.clone()))?
                .write(&*backend)?;
        }
        let start = Start::make(&*backend, place, &made.plan, &marks)?;
        let record = Record {
            stage: Stage::Saved,
            original: room.original,
            shift: room.shift,
            start,
            uuid: made.header.uuid().raw().to_owned(),
        };
        record.write(&*backend)?;
        start.fill(&*backend, &Filling::of(&record))?;
        start.overwrite(&*backend, &made.header, room.shift)?;
        Record::destroy(&*backend)?;
        Self::start(backend, made.header, underway, room.shift, key)
    }

    /// Continues an encryption that was begun, on a device whose header is `luks`. `key` is the one that
    /// [`LuksDevice::once_encrypted`] unlocks.
    ///
    /// # Errors
    /// [`InPlaceError::NotUnderway`], what is wrong with the header's note, or
    /// [`InPlaceError::Overwritten`] where something else lies over a copy of the header; nothing was
    /// written.
    pub fn resume(
        backend: Arc<dyn Backend>,
        luks: LuksDevice,
        key: VolumeKey,
    ) -> Result<Self, InPlaceError> {
        let underway = luks.header().underway();
        let underway = underway.ok_or(InPlaceError::NotUnderway)?;
        let segment = encrypted(luks.header())?.data_segment()?;
        let (shift, sector) = (segment.offset, segment.sector_size.bytes() as u64);
        room::check(underway, shift, sector, backend.info().size)?;
        undo::finish_beginning(&*backend, &luks)?;
        Self::start(backend, luks.into_header(), underway, shift, key)
    }

    fn start(
        backend: Arc<dyn Backend>,
        header: Header,
        underway: Underway,
        shift: u64,
        key: VolumeKey,
    ) -> Result<Self, InPlaceError> {
        let luks = LuksDevice::of(encrypted(&header)?);
        let size = backend.info().size;
        let flags = OpenFlags::default();
        let table = luks.table(key, "0:0", size, Placement::Attached, flags)?;
        let volume = Volume::start(table, DataPath::Auto, |_| Ok(Arc::clone(&backend)))?;
        Ok(Self {
            backend,
            header,
            volume,
            underway,
            shift,
        })
    }

    /// Returns the length of the data, in bytes.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.underway.length
    }

    /// Returns the length of the part that is not yet encrypted, in bytes.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.underway.position
    }

    /// Returns the volume's header, with the note.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Encrypts one stretch, durably. Returns whether one was left.
    ///
    /// # Errors
    /// When the storage fails. The same stretch can be tried again. [`LuksError::Changed`] if
    /// the note is not the last one of this run any more: then another run has gone on, which no lock keeps away from a
    /// server.
    pub fn advance(&mut self) -> Result<bool, InPlaceError> {
        let end = self.underway.position;
        if end == 0 {
            return Ok(false);
        }
        self.check_alone(&HeaderSession::start(&*self.backend)?)?;
        let start = (end - 1) / self.shift * self.shift;
        let source = if start == 0 {
            self.underway.saved
        } else {
            start
        };
        // A stretch is as long as the way that it moves, or shorter: no piece is written over another.
        for_each(&*self.backend, end - start, |at, piece| {
            self.backend.read_at(source + at, piece)?;
            Ok(self.volume.write(start + at, piece, Durability::Cached)?)
        })?;
        self.volume.flush()?;
        let underway = Underway {
            position: start,
            ..self.underway
        };
        self.note(Some(underway))?;
        self.underway = underway;
        Ok(true)
    }

    /// Encrypts the rest, and overwrites the saved start.
    ///
    /// # Errors
    /// When the storage fails. The encryption can be continued later.
    pub fn clean(mut self) -> Result<Encrypted, InPlaceError> {
        while self.advance()? {}
        // What was saved ends at most this far behind where it is, and the volume starts at `shift`.
        let end = (self.underway.saved + record::LEN).min(self.volume.size());
        let left = self.underway.length;
        for_each(&*self.backend, end.saturating_sub(left), |at, piece| {
            piece.fill(0);
            Ok(self.volume.write(left + at, piece, Durability::Cached)?)
        })?;
        self.volume.flush()?;
        Ok(Encrypted(self))
    }

    /// Stores the note durably, in both copies of the header.
    fn note(&mut self, underway: Option<Underway>) -> Result<(), InPlaceError> {
        let session = HeaderSession::start(&*self.backend)?;
        self.check_alone(&session)?;
        let plan = self.header.set_underway(underway)?;
        session.apply(&plan)?;
        Ok(())
    }

    /// Checks that the note is where this run has left it, or has tried to.
    fn check_alone(&self, session: &HeaderSession<'_>) -> Result<(), InPlaceError> {
        let found = session.read()?.header().underway();
        match found == Some(self.underway) || found == self.header.underway() {
            true => Ok(()),
            false => Err(LuksError::Changed.into()),
        }
    }
}

/// An encryption in place whose data is all encrypted, and only the header still says otherwise.
pub struct Encrypted(InPlace);

impl Encrypted {
    /// End of the volume, in bytes of its device: a file that was made longer is to be cut there now, and
    /// cannot be later. `None` for all others.
    #[must_use]
    pub fn end(&self) -> Option<u64> {
        let end = self.0.shift + self.0.underway.length;
        self.0.underway.grown.then_some(end)
    }

    /// Lifts the requirement, so that the volume is like any other.
    ///
    /// # Errors
    /// When the storage fails. The encryption can be continued later.
    pub fn finish(mut self) -> Result<(), InPlaceError> {
        self.0.note(None)
    }
}

impl LuksDevice {
    /// Returns the header as it will be at the end of an encryption in place that has begun: the one that
    /// can be unlocked.
    ///
    /// # Errors
    /// When the header would not be valid without the note.
    pub fn once_encrypted(&self) -> Result<Option<Self>, InPlaceError> {
        match self.header().underway() {
            None => Ok(None),
            Some(_) => Ok(Some(Self::of(encrypted(self.header())?))),
        }
    }
}

fn encrypted(header: &Header) -> Result<Header, InPlaceError> {
    let mut encrypted = header.clone();
    // This plan is never carried out: the header on the disk keeps its note.
    let _plan = encrypted.set_underway(None)?;
    Ok(encrypted)
}
