//! Files below a folder, and nothing else.
//!
//! The kernel keeps the walk below the folder (`openat2`, RESOLVE_BENEATH), whatever others rename or
//! link meanwhile. A walk of our own, name by name, would know no symbolic links and cost a call for each
//! folder on the way; kernels without `openat2` are older than 5.6, and a site on one does not start.

use std::ffi::CStr;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use http::StatusCode;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, StatxFlags};
use rustix::io::Errno;

use super::node::{EntryInfo, Folder, FolderEntry, Node};
use super::settings::Symlinks;
use crate::files::{OpenFile, StorageError};

/// Most attempts at a walk that a rename has disturbed.
const ATTEMPTS: usize = 8;

/// A folder that was opened once. This folder is served even if its name later refers to another one.
#[derive(Debug)]
pub(super) struct FolderTree {
    /// Name under which it was opened, for messages.
    name: PathBuf,
    root: OwnedFd,
    resolve: ResolveFlags,
    symlinks: Symlinks,
}

/// Reason why no walk below a folder is possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProbeError {
    /// The folder's permissions keep this user out.
    Refused(Errno),
    /// The kernel, or a filter of its calls, has no `openat2`.
    NoOpenat2(Errno),
}

impl FolderTree {
    pub(super) fn open(name: &Path, symlinks: Symlinks) -> Result<Self, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(name, flags, Mode::empty())?;
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let resolve = match symlinks {
            Symlinks::None => beneath | ResolveFlags::NO_SYMLINKS,
            Symlinks::Within => beneath,
            Symlinks::Any => ResolveFlags::NO_MAGICLINKS,
        };
        Ok(Self {
            name: name.to_owned(),
            root,
            resolve,
            symlinks,
        })
    }

    /// Asks the storage for the folder's metadata, past what is cached of a network file system.
    ///
    /// # Errors
    /// If the metadata cannot be read, or the folder is gone.
    pub(super) fn check_storage(&self) -> Result<(), StorageError> {
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_FORCE_SYNC;
        match rustix::fs::statx(&self.root, c"", flags, StatxFlags::BASIC_STATS) {
            Ok(found) if found.stx_nlink == 0 => Err(StorageError::Removed {
                path: self.name.clone(),
            }),
            // A filter of system calls may not have it.
            Ok(_) | Err(Errno::NOSYS | Errno::PERM) => Ok(()),
            Err(error) => Err(StorageError::Folder {
                path: self.name.clone(),
                source: error.into(),
            }),
        }
    }

    /// Checks whether this user may enter the folder, and whether this kernel can keep a walk below it. A filter of
    /// system calls may answer `openat2` with EPERM too, so an ordinary `openat` tells whether the folder refuses.
    pub(super) fn probe(&self) -> Result<(), ProbeError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let Err(error) = self.walk(self.root.as_fd(), c".", flags) else {
            return Ok(());
        };
        match rustix::fs::openat(&self.root, c".", flags, Mode::empty()) {
            Err(refused @ (Errno::ACCESS | Errno::PERM)) => Err(ProbeError::Refused(refused)),
            Ok(_) | Err(_) => Err(ProbeError::NoOpenat2(error)),
        }
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::{fs, thread};

    use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

    use super::*;

    #[test]
    fn a_folder_that_refuses_this_user_is_told_from_a_kernel_without_openat2() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o0)).expect("permissions");
        let probe = || {
            // The superuser enters any folder by a capability, which a thread can drop for itself.
            let none = CapabilitySet::empty();
            let nothing = CapabilitySets {
                effective: none,
                permitted: none,
                inheritable: none,
            };
            set_capabilities(None, nothing).expect("no capabilities");
            FolderTree::open(folder.path(), Symlinks::Within).map(|tree| tree.probe())
        };
        let probed = thread::scope(|scope| scope.spawn(probe).join().expect("a probe"));
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).expect("permissions");
        assert_eq!(probed, Ok(Err(ProbeError::Refused(Errno::ACCESS))));
        let tree = FolderTree::open(folder.path(), Symlinks::Within).expect("a folder");
        assert_eq!(tree.probe(), Ok(()));
    }
}
