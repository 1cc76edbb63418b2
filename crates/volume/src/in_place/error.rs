//! Reasons why data cannot be encrypted where it lies.

use std::error::Error;
use std::fmt;

use scrim_backend::BackendError;
use scrim_luks::{Underway, Unsupported, WriteError};

use crate::error::{OpenError, VolumeError};
use crate::luks_device::LuksError;

/// Error of encrypting data where it lies.
#[derive(Debug)]
pub enum InPlaceError {
    /// No encryption in place has begun here.
    NotUnderway,
    /// The header's note of it cannot be true.
    Note(Underway),
    /// The device is too small for the record of a beginning.
    NoRoom,
    /// The start of the data was half overwritten by a header, and then another program wrote to parts of sectors.
    Used {
        /// Offset of the saved start, in bytes.
        saved: u64,
        /// Bytes of it that are saved.
        len: u64,
        /// Length of a file before it was made longer, in bytes.
        original: Option<u64>,
        /// Command that keeps what is there.
        keep: Keep,
    },
    /// The start of the data was half overwritten by a header, and what was saved of it is gone.
    Damaged {
        /// Bytes of the start that a header was to overwrite.
        len: u64,
        /// Length of a file before it was made longer, in bytes.
        original: Option<u64>,
        /// Size of a device before it was made smaller, in bytes.
        shrunk_from: Option<u64>,
        /// Command that keeps what is there.
        keep: Keep,
    },
    /// A sector looks like those that a header was to overwrite, and there is no other proof that one was: a file
    /// in the data may look the same.
    Unproven {
        /// Offset of the sector, in bytes.
        offset: u64,
        /// Offset of the saved start, as the sector says, in bytes.
        saved: u64,
        /// Bytes of it that are saved, as the sector says.
        len: u64,
    },
    /// The start of the data was half overwritten by a header, and then the file got another length.
    Resized {
        /// The length that it had, in bytes.
        size: u64,
        /// Command that keeps what is there.
        keep: Keep,
    },
    /// The file was used since an encryption that came to nothing made it longer.
    Grown {
        /// Length of the file before, in bytes.
        original: u64,
        /// Offset of the record of this attempt, in bytes, if the record is still there.
        record: Option<u64>,
    },
    /// A file got another length in the midst of its encryption.
    Length {
        /// The length that it has, in bytes.
        size: u64,
        /// The length that it had, in bytes.
        expected: u64,
    },
    /// Another version of this program has begun an encryption, and its header is not whole.
    OtherVersion,
    /// Something else lies over a copy of the header of an encryption that is not finished.
    Overwritten {
        /// Offset of the other copy, in bytes.
        copy: u64,
    },
    /// The header cannot be read or written.
    Luks(LuksError),
    /// Header and device make no volume.
    Open(OpenError),
    /// The volume refused to read or to write.
    Volume(VolumeError),
}

/// A command by which the user decides to keep the data that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// The command marks the filled sector at this offset in bytes.
    Marked(u64),
    /// The command clears the record at this offset in bytes.
    Cleared(u64),
}

impl fmt::Display for Keep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Marked(at) => write!(
                f,
                "`printf keep | dd of=IMAGE conv=notrunc bs=512 seek={}`",
                at / 512
            ),
            Self::Cleared(at) => write!(
                f,
                "`dd if=/dev/zero of=IMAGE conv=notrunc bs=512 count=1 seek={}`",
                at / 512
            ),
        }
    }
}

impl fmt::Display for InPlaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotUnderway => f.write_str(
                "no encryption in place has begun here: begin one with scrim encrypt --in-place",
            ),
            Self::Note(Underway {
                length,
                saved,
                position,
                ..
            }) => write!(
                f,
                "the header's note of how far the encryption is cannot be true (length {length}, \
                 saved {saved}, position {position}): restore a backup of the header"
            ),
            Self::NoRoom => f.write_str(
                "the device is too small to be encrypted in place; nothing of it was changed",
            ),
            Self::Used {
                saved,
                len,
                original,
                keep,
            } => used(f, *saved, *len, *original, *keep),
            Self::Damaged {
                len,
                original,
                shrunk_from,
                keep,
            } => damaged(f, *len, *original, *shrunk_from, *keep),
            Self::Resized { size, keep } => write!(
                f,
                "an encryption in place was cut short in the midst of writing the header, and the file \
                 has got another length since; nothing was changed. Save a copy of the image. To have its \
                 start put back: `truncate -s {size} IMAGE`, then the same command again. Where it is in \
                 use with new data, to keep that: {keep}, then the same command again"
            ),
            Self::Unproven { offset, saved, len } => unproven(f, *offset, *saved, *len),
            Self::Grown { original, record } => grown(f, *original, *record),
            Self::Length { size, expected } => wrong_length(f, *size, *expected),
            Self::OtherVersion => f.write_str(
                "another version of scrim has begun to encrypt it in place, and was cut short; nothing \
                 was changed: give the same command with that version",
            ),
            Self::Overwritten { copy } => write!(
                f,
                "its encryption is not finished, and something else has been written over a copy of the \
                 header; nothing was changed. To keep what was written, and give up the encrypted data: \
                 `dd if=/dev/zero of=IMAGE conv=notrunc bs=512 count=1 seek={}`. To discard it, and go \
                 on: `scrim repair IMAGE`, then the same command again",
                copy / 512
            ),
            Self::Luks(error) => error.fmt(f),
            Self::Open(error) => error.fmt(f),
            Self::Volume(error) => error.fmt(f),
        }
    }
}

/// Says how data comes back whose start was written to since, or how that stays.
fn used(
    f: &mut fmt::Formatter<'_>,
    saved: u64,
    len: u64,
    original: Option<u64>,
    keep: Keep,
) -> fmt::Result {
    write!(
        f,
        "it was written to after an encryption in place had been cut short in the midst of \
         writing the header, and nothing is put back over that; nothing was changed. Save a \
         copy of the image. To put its first {len} bytes back as they were before: `dd \
         if=IMAGE of=IMAGE conv=notrunc bs=512 count={} skip={}`. To keep what is there now: \
         {keep}",
        len / 512,
        saved / 512
    )?;
    then(f, keep, original)
}

/// Says what is left to do where the saved start is gone.
fn damaged(
    f: &mut fmt::Formatter<'_>,
    len: u64,
    original: Option<u64>,
    shrunk_from: Option<u64>,
    keep: Keep,
) -> fmt::Result {
    write!(
        f,
        "an encryption in place was cut short in the midst of writing the header, and what \
         it had saved of the first {len} bytes has been overwritten or cut off since; \
         nothing was changed. "
    )?;
    if let Some(size) = shrunk_from {
        write!(
            f,
            "The device had {size} bytes: what was saved may be there again once it has as \
             many; try that first, with the same command. "
        )?;
    }
    write!(
        f,
        "Restore the image from a copy. Where it is in use with new data, so that what is \
         lost of the old is not missed: {keep}"
    )?;
    then(f, keep, original)
}

/// Says how a sector is told from a start that was half overwritten.
fn unproven(f: &mut fmt::Formatter<'_>, offset: u64, saved: u64, len: u64) -> fmt::Result {
    write!(
        f,
        "its sector {} says that an encryption in place was cut short, but neither its first \
         sector nor its end does, and a file in the image may look so; nothing was changed. Save a \
         copy of the image. Where one was cut short, to put the first {len} bytes back as they \
         were before: `dd if=IMAGE of=IMAGE conv=notrunc bs=512 count={} skip={}`. Where none was: \
         delete the file that the sector belongs to, and clear the sector: `dd if=/dev/zero \
         of=IMAGE conv=notrunc bs=512 count=1 seek={}`. Then the same command again",
        offset / 512,
        len / 512,
        saved / 512,
        offset / 512
    )
}

/// Says how a file gets the length that its user knows.
fn grown(f: &mut fmt::Formatter<'_>, original: u64, record: Option<u64>) -> fmt::Result {
    write!(
        f,
        "an encryption in place that came to nothing had made it longer, and behind its old \
         end there is what may have been written since; that is kept. Where its data still \
         ends at byte {original}: `truncate -s {original} IMAGE`. Where it is in use up to its \
         end: "
    )?;
    match record {
        Some(record) => write!(
            f,
            "`dd if=/dev/zero of=IMAGE conv=notrunc bs=512 count=1 seek={}`",
            record / 512
        ),
        None => f.write_str("the same command again"),
    }
}

/// Says how a file gets the length with which its encryption goes on.
fn wrong_length(f: &mut fmt::Formatter<'_>, size: u64, expected: u64) -> fmt::Result {
    if size > expected {
        return write!(
            f,
            "its encryption is not finished, and the file has {size} bytes since, not {expected}; \
             nothing was changed. Copy what was written behind byte {expected} to another file, as the \
             volume will not have it. Then `truncate -s {expected} IMAGE`, and the same command again"
        );
    }
    write!(
        f,
        "its encryption is not finished, and the file has {size} bytes since, not {expected}; \
         nothing was changed. What is cut off is a part of the data: restore the \
         image from a copy"
    )
}

/// Says what follows a command that keeps what is there.
fn then(f: &mut fmt::Formatter<'_>, keep: Keep, original: Option<u64>) -> fmt::Result {
    match (keep, original) {
        (Keep::Marked(_), _) => f.write_str(", then the same command again"),
        (Keep::Cleared(_), None) => Ok(()),
        (Keep::Cleared(_), Some(original)) => {
            write!(f, ", and where its data ends at byte {original}, ")?;
            write!(f, "`truncate -s {original} IMAGE`")
        }
    }
}

impl Error for InPlaceError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Luks(error) => Some(error),
            Self::Open(error) => Some(error),
            Self::Volume(error) => Some(error),
            _ => None,
        }
    }
}

impl From<LuksError> for InPlaceError {
    fn from(error: LuksError) -> Self {
        Self::Luks(error)
    }
}

impl From<BackendError> for InPlaceError {
    fn from(error: BackendError) -> Self {
        Self::Luks(error.into())
    }
}

impl From<WriteError> for InPlaceError {
    fn from(error: WriteError) -> Self {
        Self::Luks(error.into())
    }
}

impl From<Unsupported> for InPlaceError {
    fn from(error: Unsupported) -> Self {
        Self::Luks(error.into())
    }
}

impl From<OpenError> for InPlaceError {
    fn from(error: OpenError) -> Self {
        Self::Open(error)
    }
}

impl From<VolumeError> for InPlaceError {
    fn from(error: VolumeError) -> Self {
        Self::Volume(error)
    }
}
