//! Reasons for which something cannot be read.

use std::{fmt, io};

/// An obstacle to reading a file system.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The device failed at this offset, in bytes.
    Device { offset: u64, source: io::Error },
    /// There is no file system of this family.
    NoFileSystem,
    /// The file system is mounted, or was not unmounted, so that its journal or a check has to put it right.
    NotUnmounted,
    /// The file system has features that change how it has to be read, and that are not known here.
    Features {
        /// Bits of these features, as in the superblock (`s_feature_incompat`).
        unknown: u32,
    },
    /// The file system contradicts itself.
    Corrupt {
        /// The part that does.
        what: &'static str,
        /// The inode in which that is, or zero.
        inode: u32,
    },
    /// A file or folder is encrypted by the file system itself.
    Encrypted {
        /// Number of the inode.
        inode: u32,
    },
    /// A search has used up its [`Budget`](crate::Budget).
    SearchTooLong {
        /// Number of the inode at which that was.
        inode: u32,
    },
}

impl Error {
    pub(crate) fn corrupt(what: &'static str, inode: u32) -> Self {
        Self::Corrupt { what, inode }
    }

    /// Returns whether it would have had to wait for the device, and was not allowed to.
    #[must_use]
    pub fn would_wait(&self) -> bool {
        matches!(self, Self::Device { source, .. } if source.kind() == io::ErrorKind::WouldBlock)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device { offset, source } => {
                write!(f, "the file system cannot be read at byte {offset}: {source}")
            }
            Self::NoFileSystem => f.write_str(
                "there is no ext2, ext3 or ext4 file system; name a volume that has one from its \
                 first byte on",
            ),
            Self::NotUnmounted => f.write_str(
                "the file system is mounted for writing, or was not unmounted: unmount it, or mount it \
                 read-only; if it is not mounted, open the volume for writing once and mount it, or run \
                 e2fsck -p on it",
            ),
            Self::Features { unknown } => write!(
                f,
                "the file system has features that are not known here (incompat {unknown:#x}); mount it, \
                 and read its files from there"
            ),
            Self::Corrupt { what, inode: 0 } => {
                write!(f, "the file system is damaged ({what}); check it with e2fsck -f")
            }
            Self::Corrupt { what, inode } => write!(
                f,
                "the file system is damaged ({what}, in inode {inode}); check it with e2fsck -f"
            ),
            Self::Encrypted { inode } => write!(
                f,
                "inode {inode} is encrypted by the file system itself (fscrypt); mount it, and read its \
                 files from there"
            ),
            Self::SearchTooLong { inode } => write!(
                f,
                "a search was given up at inode {inode}, as there was too much to look through: `e2fsck -fD` \
                 gives large folders an index; or mount it, and read its files from there"
            ),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Device { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = match &error {
            Error::Device { source, .. } => source.kind(),
            Error::Encrypted { .. } | Error::SearchTooLong { .. } | Error::Features { .. } => {
                io::ErrorKind::Unsupported
            }
            _ => io::ErrorKind::InvalidData,
        };
        Self::new(kind, error)
    }
}
