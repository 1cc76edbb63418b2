//! Errors of making or restoring a backup.

use std::error::Error;
use std::fmt;

use crate::error::{HeaderError, WriteError};

/// Why bytes are not a header backup.
#[derive(Debug)]
pub enum BackupError {
    /// No header in them can be trusted.
    Header(HeaderError),
    /// They are too few or too many for their header.
    Length {
        /// Bytes that header and key slots area take.
        need: u64,
        /// Bytes that there are.
        have: u64,
    },
    /// The header on the device is no longer the one that was read.
    Changed,
}

impl fmt::Display for BackupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(error) => write!(f, "this is no header backup: {error}"),
            Self::Length { need, have } => write!(
                f,
                "a backup of this header has {need} bytes, and this has {have}: name the file that \
                 the backup was written to"
            ),
            Self::Changed => f.write_str("the header has changed since it was read: read it again"),
        }
    }
}

impl Error for BackupError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Header(error) => Some(error),
            _ => None,
        }
    }
}

impl From<HeaderError> for BackupError {
    fn from(error: HeaderError) -> Self {
        Self::Header(error)
    }
}

/// Why a backup does not go onto a device.
#[derive(Debug)]
pub enum RestoreError {
    /// The device is too short for it.
    NoRoom {
        /// Bytes that it takes.
        need: u64,
        /// Bytes that the device has.
        have: u64,
    },
    /// It would overwrite data on the device.
    OverData {
        /// Bytes that it takes.
        len: u64,
        /// Start of the data, in bytes.
        data_offset: u64,
    },
    /// The data starts elsewhere.
    DataOffset {
        /// Start by the header on the device, in bytes.
        device: u64,
        /// Start by the backup, in bytes.
        backup: u64,
    },
    /// The volume key has another length.
    KeySize {
        /// Length by the header on the device, in bytes.
        device: u32,
        /// Length by the backup, in bytes.
        backup: u32,
    },
    /// One of both has a requirement, such as that of a reencryption.
    Requirement {
        name: String,
        /// True if the backup has it; false if the header on the device does.
        in_backup: bool,
    },
    /// It cannot be written.
    Write(WriteError),
}

impl fmt::Display for RestoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRoom { need, have } => write!(
                f,
                "the backup takes {need} bytes, and the device has {have}: this is not the device \
                 that it was made of"
            ),
            Self::OverData { len, data_offset } => write!(
                f,
                "the backup takes {len} bytes, and its data starts at byte {data_offset}: it is of \
                 a detached header, restore it to the file or device that held that"
            ),
            Self::DataOffset { device, backup } => write!(
                f,
                "the data starts at byte {device} by the header on the device, and at {backup} by \
                 the backup: this is not the backup of this volume"
            ),
            Self::KeySize { device, backup } => write!(
                f,
                "the volume key has {device} bytes by the header on the device, and {backup} by \
                 the backup: this is not the backup of this volume"
            ),
            Self::Requirement { name, in_backup } => write!(
                f,
                "the {} requires {name}, and nothing may be restored from or over it: finish with \
                 the program that set it",
                if *in_backup {
                    "backup"
                } else {
                    "header on the device"
                }
            ),
            Self::Write(error) => error.fmt(f),
        }
    }
}

impl Error for RestoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Write(error) => Some(error),
            _ => None,
        }
    }
}

impl From<WriteError> for RestoreError {
    fn from(error: WriteError) -> Self {
        Self::Write(error)
    }
}
