//! Errors of a volume, and the number that a protocol puts on the wire for each.

use std::fmt;
use std::io;

use scrim_backend::BackendError;
use scrim_crypt::CipherError;

/// The error numbers that block protocols share, by their names in `errno(3)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Errno {
    /// Not permitted: the volume is read-only.
    Perm,
    /// The storage failed the request.
    Io,
    /// Invalid argument: the range is outside the volume.
    Inval,
    /// No space left where the ciphertext is stored.
    NoSpc,
    /// The operation is not supported here.
    NotSup,
}

/// A failed request to a volume.
#[derive(Debug)]
pub enum VolumeError {
    /// The range passes the end of the volume.
    OutOfRange {
        /// Offset of the request, in bytes.
        offset: u64,
        /// Length of the request, in bytes.
        len: u64,
        /// Size of the volume in bytes.
        size: u64,
    },
    /// A write to a volume that was opened read-only.
    ReadOnly,
    /// A discard on a volume that was opened without `allow_discards`.
    DiscardNotAllowed,
    /// A request that touched an `error` target.
    ErrorTarget {
        /// Offset of the request, in bytes.
        offset: u64,
    },
    /// A request of the volume to its storage failed.
    Backend(BackendError),
    /// The system failed the queue that the request was in.
    Queue(io::Error),
}

impl VolumeError {
    /// Returns the number for it in a protocol.
    #[must_use]
    pub fn errno(&self) -> Errno {
        match self {
            Self::OutOfRange { .. } => Errno::Inval,
            Self::ReadOnly => Errno::Perm,
            Self::DiscardNotAllowed => Errno::NotSup,
            Self::ErrorTarget { .. } | Self::Queue(_) => Errno::Io,
            Self::Backend(error) => match error.source.kind() {
                io::ErrorKind::StorageFull
                | io::ErrorKind::QuotaExceeded
                | io::ErrorKind::FileTooLarge => Errno::NoSpc,
                _ => Errno::Io,
            },
        }
    }
}

impl fmt::Display for VolumeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfRange { offset, len, size } => write!(
                f,
                "{len} bytes at offset {offset} pass the end of the volume of {size} bytes"
            ),
            Self::ReadOnly => write!(
                f,
                "the volume is read-only; open it without --readonly to write"
            ),
            Self::DiscardNotAllowed => write!(
                f,
                "discards are not allowed on this volume; open it with --allow-discards"
            ),
            Self::ErrorTarget { offset } => {
                write!(f, "offset {offset} lies in an error target of the table")
            }
            Self::Backend(error) => error.fmt(f),
            Self::Queue(error) => write!(
                f,
                "cannot queue the request: {error}; open the volume with --io-engine plain"
            ),
        }
    }
}

impl std::error::Error for VolumeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Backend(error) => Some(error),
            Self::Queue(error) => Some(error),
            _ => None,
        }
    }
}

impl From<BackendError> for VolumeError {
    fn from(error: BackendError) -> Self {
        Self::Backend(error)
    }
}

/// Reason why a table could not be started.
#[derive(Debug)]
pub enum OpenError {
    /// A device could not be opened.
    Backend(BackendError),
    /// A target passes the end of its device.
    DeviceTooSmall {
        /// The device's name in the table.
        device: String,
        /// End of the target, in bytes.
        needs: u64,
        /// The device's size, in bytes.
        size: u64,
    },
    /// Past the page cache, the device has larger blocks than a target's sectors, or a target does not
    /// start at one.
    Blocks {
        /// The device's name in the table.
        device: String,
        /// Block size of the device, in bytes.
        block: u64,
    },
    /// The cipher is not supported, or the key does not fit it.
    Cipher(CipherError),
    /// The system gives no threads for the queued path, or no descriptor.
    Queues(io::Error),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Backend(error) => error.fmt(f),
            Self::DeviceTooSmall {
                device,
                needs,
                size,
            } => write!(
                f,
                "{device} has {size} bytes, but the table needs {needs}: it was cut short, or the \
                 table belongs to another device"
            ),
            Self::Blocks { device, block } => write!(
                f,
                "{device} has blocks of {block} bytes, which a write of less would have to read and \
                 change; go through the page cache with --direct-io off"
            ),
            Self::Cipher(error) => error.fmt(f),
            Self::Queues(error) => write!(
                f,
                "cannot start the threads of the queued path: {error}; use --data-path inline"
            ),
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Backend(error) => Some(error),
            Self::Cipher(error) => Some(error),
            Self::Queues(error) => Some(error),
            Self::DeviceTooSmall { .. } | Self::Blocks { .. } => None,
        }
    }
}

impl From<BackendError> for OpenError {
    fn from(error: BackendError) -> Self {
        Self::Backend(error)
    }
}

impl From<CipherError> for OpenError {
    fn from(error: CipherError) -> Self {
        Self::Cipher(error)
    }
}
