//! Files below a folder, and nothing else.
//!
//! The kernel keeps the walk below the folder (`openat2`, RESOLVE_BENEATH), whatever others rename or
//! link meanwhile. A walk of our own, name by name, would know no symbolic links and cost a call for each
//! folder on the way; kernels without `openat2` are older than 5.6, and a site on one does not start.

use std::ffi::CStr;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use http::StatusCode;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use super::node::{EntryInfo, Folder, FolderEntry, Node};
use super::settings::Symlinks;
use crate::files::OpenFile;

/// Most attempts at a walk that a rename has disturbed.
const ATTEMPTS: usize = 8;

/// A folder that was opened once. This folder is served even if its name later refers to another one.
#[derive(Debug)]
pub(super) struct FolderTree {
    root: OwnedFd,
    resolve: ResolveFlags,
    symlinks: Symlinks,
}

impl FolderTree {
    pub(super) fn open(root: &Path, symlinks: Symlinks) -> Result<Self, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(root, flags, Mode::empty())?;
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let resolve = match symlinks {
            Symlinks::None => beneath | ResolveFlags::NO_SYMLINKS,
            Symlinks::Within => beneath,
            Symlinks::Any => ResolveFlags::NO_MAGICLINKS,
        };
        Ok(Self {
            root,
            resolve,
            symlinks,
        })
    }

    /// Checks whether this kernel can keep a walk below a folder.
    pub(super) fn probe(&self) -> Result<(), Errno> {
        self.walk(self.root.as_fd(), c".", OFlags::PATH | OFlags::DIRECTORY)
            .map(drop)
    }

    /// Opens a file or folder. It never waits for the writer of a pipe, nor does a terminal become this process's
    /// controlling terminal.
    pub(super) fn find(&self, path: &[u8]) -> Result<Node, StatusCode> {
        // A symbolic link may be followed out of a site where any is: the path itself never leads there.
        let bytes = match path {
            [] => b".".as_slice(),
            bytes => bytes,
        };
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = self.walk(self.root.as_fd(), bytes, flags).map_err(status)?;
        let stat = rustix::fs::fstat(&file).map_err(status)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok(Node::File(OpenFile::new(file, stat))),
            FileType::Directory => Ok(Node::Folder(Folder::Open(file))),
            _ => Err(StatusCode::NOT_FOUND),
        }
    }

    /// Calls `each` for the entries of an open folder until it breaks.
    pub(super) fn names(
        &self,
        folder: &OwnedFd,
        path: &[u8],
        each: &mut dyn FnMut(FolderEntry<'_>) -> ControlFlow<()>,
    ) -> Result<(), StatusCode> {
        let failed = |_| StatusCode::INTERNAL_SERVER_ERROR;
        let mut found = Dir::read_from(folder.as_fd()).map_err(failed)?;
        while let Some(entry) = found.read() {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let look = || {
                let Some((stat, is_link)) = self.look(folder.as_fd(), path, name) else {
                    return Ok(None);
                };
                let info = EntryInfo::of(&stat);
                Ok(info.map(|info| EntryInfo { is_link, ..info }))
            };
            let name = FolderEntry {
                bytes: name.to_bytes(),
                look: &look,
            };
            if each(name).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Looks up an entry's metadata as [`FolderTree::find`] would resolve it, and whether the entry is a link; `None`
    /// if nothing would be found.
    fn look(&self, folder: BorrowedFd<'_>, path: &[u8], name: &CStr) -> Option<(Stat, bool)> {
        let stat = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
            return Some((stat, false));
        }
        if self.symlinks == Symlinks::None {
            return None;
        }
        let mut whole = path.to_vec();
        if !whole.is_empty() {
            whole.push(b'/');
        }
        whole.extend_from_slice(name.to_bytes());
        let target = self
            .walk(self.root.as_fd(), whole.as_slice(), OFlags::PATH)
            .ok()?;
        Some((rustix::fs::fstat(target).ok()?, true))
    }

    fn walk(
        &self,
        from: BorrowedFd<'_>,
        path: impl rustix::path::Arg + Copy,
        flags: OFlags,
    ) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::CLOEXEC;
        let mut disturbed = Errno::AGAIN;
        for _ in 0..ATTEMPTS {
            match rustix::fs::openat2(from, path, flags, Mode::empty(), self.resolve) {
                Err(error @ (Errno::AGAIN | Errno::INTR)) => disturbed = error,
                opened => return opened,
            }
        }
        Err(disturbed)
    }
}

/// Status that a client gets for an error. Clients do not learn of a file that they must not see, unless the file
/// system's permissions reveal it.
fn status(error: Errno) -> StatusCode {
    match error {
        Errno::ACCESS | Errno::PERM => StatusCode::FORBIDDEN,
        // Also links that lead out of the folder or in a circle, sockets, and devices without a driver.
        Errno::NOENT
        | Errno::NOTDIR
        | Errno::NAMETOOLONG
        | Errno::XDEV
        | Errno::LOOP
        | Errno::INVAL
        | Errno::ILSEQ
        | Errno::NXIO
        | Errno::NODEV => StatusCode::NOT_FOUND,
        Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::AGAIN | Errno::INTR => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
