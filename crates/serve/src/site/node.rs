//! Files, folders and entries of folders, wherever they are stored.

use std::os::fd::OwnedFd;

use http::StatusCode;
use rustix::fs::{FileType, Stat};
use scrim_files::Located;

use crate::files::OpenFile;

/// Result of resolving a path.
#[derive(Debug)]
pub(super) enum Node {
    File(OpenFile),
    Folder(Folder),
}

/// A folder that a path was resolved to.
#[derive(Debug)]
pub(super) enum Folder {
    /// An open folder of a mounted file system.
    Open(OwnedFd),
    /// A folder in a volume, as it was when the path was resolved.
    InVolume(Located),
}

/// Metadata of a folder's entry, as a listing shows it.
#[derive(Debug, Clone, Copy)]
pub(super) struct EntryInfo {
    /// True if the entry is a symbolic link, which leads to what the rest describes.
    pub(super) is_link: bool,
    pub(super) is_folder: bool,
    pub(super) size: u64,
    /// Time of the last change, in seconds since 1970.
    pub(super) modified: i64,
}

/// An entry of a folder: its name, and a way to look up its metadata.
#[derive(Clone, Copy)]
pub(super) struct FolderEntry<'a> {
    pub(super) bytes: &'a [u8],
    /// Looks up the entry's metadata, as resolving its path would; `None` if it would not be served.
    pub(super) look: &'a dyn Fn() -> Result<Option<EntryInfo>, StatusCode>,
}

impl Folder {
    /// Time of the last change, in seconds since 1970.
    pub(super) fn modified(&self) -> i64 {
        match self {
            Self::Open(folder) => rustix::fs::fstat(folder).map_or(0, |stat| stat.st_mtime),
            Self::InVolume(found) => found.last().modified().0,
        }
    }
}

impl EntryInfo {
    /// Metadata of a file or folder of a mounted file system; `None` for anything else.
    pub(super) fn of(stat: &Stat) -> Option<Self> {
        let is_folder = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => true,
            FileType::RegularFile => false,
            _ => return None,
        };
        Some(Self {
            is_link: false,
            is_folder,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            modified: stat.st_mtime,
        })
    }

    /// Metadata of a folder of which only the existence is known.
    pub(super) fn unknown_folder() -> Self {
        Self {
            is_link: false,
            is_folder: true,
            size: 0,
            modified: i64::MIN,
        }
    }
}
