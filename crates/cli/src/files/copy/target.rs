//! The folder that files are copied into. Every name is looked up in an open folder, and no symbolic link is followed there:
//! a hostile file system may have the link `a` to `/etc`, and then a file `a/passwd`.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{
    AtFlags, CWD, FileType, FlockOperation, Gid, Mode, OFlags, RenameFlags, Stat, Timespec,
    Timestamps, Uid, chownat, fchmod, fchown, flock, futimens, linkat, mkdirat, openat, readlinkat,
    renameat, renameat_with, statat, symlinkat, syncfs, unlinkat, utimensat,
};
use rustix::io::Errno;
use scrim_files::Inode;

/// Name of a file in a folder until it is whole. Files are copied one after the other, so a folder needs only one.
pub(super) const UNFINISHED: &[u8] = b".scrim-cp.partial";

const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// An entry that exists where a file is to be copied to.
pub(super) enum Existing {
    Nothing,
    /// A regular file, with its size and the time of the last write to it.
    File {
        size: u64,
        modified: (i64, i64),
    },
    Folder,
    Link(Vec<u8>),
    Other,
}

impl Existing {
    /// Name of the entry's type, for sentences.
    pub(super) fn what(&self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::File { .. } => "another file",
            Self::Folder => "a folder",
            Self::Link(_) => "a symbolic link, which is not followed",
            Self::Other => "a device, a pipe or a socket",
        }
    }
}

/// Attributes that a copy gets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Attributes {
    mode: Mode,
    times: (i64, u32, i64, u32),
    owner: Option<(u32, u32)>,
}

impl Attributes {
    /// Those of an inode. Without the owner, a program must not run as another user because of its set-user-ID bit.
    pub(super) fn of(inode: &Inode, keeps_owner: bool) -> Self {
        let kept = if keeps_owner { 0o7777 } else { 0o1777 };
        let (accessed, accessed_nanos) = inode.accessed();
        let (modified, modified_nanos) = inode.modified();
        Self {
            mode: Mode::from_raw_mode(u32::from(inode.permissions()) & kept),
            times: (accessed, accessed_nanos, modified, modified_nanos),
            owner: keeps_owner.then(|| inode.owner()),
        }
    }

    fn times(self) -> Timestamps {
        let (accessed, accessed_nanos, modified, modified_nanos) = self.times;
        let of = |seconds, nanos: u32| Timespec {
            tv_sec: seconds,
            tv_nsec: nanos.into(),
        };
        Timestamps {
            last_access: of(accessed, accessed_nanos),
            last_modification: of(modified, modified_nanos),
        }
    }

    fn ids(self) -> Option<(Uid, Gid)> {
        self.owner
            .map(|(user, group)| (Uid::from_raw(user), Gid::from_raw(group)))
    }

    /// Gives them to an open file or folder. The owner comes first, because that clears bits of the mode.
    pub(super) fn give_to(self, file: impl AsFd) -> io::Result<()> {
        let file = file.as_fd();
        if let Some((user, group)) = self.ids() {
            fchown(file, Some(user), Some(group))?;
        }
        fchmod(file, self.mode)?;
        Ok(futimens(file, &self.times())?)
    }

    /// Gives owner and times to a symbolic link; its mode has no meaning.
    fn give_to_link(self, folder: BorrowedFd<'_>, name: &[u8]) -> io::Result<()> {
        if let Some((user, group)) = self.ids() {
            chownat(
                folder,
                name,
                Some(user),
                Some(group),
                AtFlags::SYMLINK_NOFOLLOW,
            )?;
        }
        Ok(utimensat(
            folder,
            name,
            &self.times(),
            AtFlags::SYMLINK_NOFOLLOW,
        )?)
    }
}

/// Looks at an entry, never through a link.
pub(super) fn look(folder: BorrowedFd<'_>, name: &[u8]) -> io::Result<Existing> {
    let found = match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(Existing::Nothing),
        found => found?,
    };
    Ok(match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => Existing::File {
            size: u64::try_from(found.st_size).unwrap_or(0),
            modified: modified(&found),
        },
        FileType::Directory => Existing::Folder,
        FileType::Symlink => Existing::Link(readlinkat(folder, name, Vec::new())?.into_bytes()),
        _ => Existing::Other,
    })
}

#[allow(
    clippy::useless_conversion,
    reason = "the fields have other types on other architectures"
)]
fn modified(found: &Stat) -> (i64, i64) {
    let nanos = i64::try_from(found.st_mtime_nsec).unwrap_or(0);
    (found.st_mtime.into(), nanos)
}

/// Opens a folder by its name, never through a link.
pub(super) fn open_folder(folder: BorrowedFd<'_>, name: &[u8]) -> io::Result<OwnedFd> {
    Ok(openat(folder, name, FOLDER, Mode::empty())?)
}

/// A folder that is copied into.
pub(super) struct Folder {
    pub(super) open: OwnedFd,
    /// True if a copy has made it. Others keep their own attributes: those from a hostile file system could let everyone
    /// into the home of the user who copies.
    pub(super) is_ours: bool,
}

impl Folder {
    /// A folder that existed before.
    pub(super) fn existing(open: OwnedFd) -> Self {
        Self {
            open,
            is_ours: false,
        }
    }

    /// A folder that this copy, or one before it that was interrupted, has made.
    pub(super) fn ours(open: OwnedFd) -> Self {
        Self {
            open,
            is_ours: true,
        }
    }
}

/// Makes a folder for its owner only, and opens it.
pub(super) fn make_folder(folder: BorrowedFd<'_>, name: &[u8]) -> io::Result<OwnedFd> {
    mkdirat(folder, name, Mode::RWXU)?;
    open_folder(folder, name)
}

/// Opens a folder that the user has named; there links are followed.
pub(super) fn open_named(path: &std::path::Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(openat(CWD, path, flags, Mode::empty())?)
}

/// A new file without a name of its own until it is whole; dropped before that, it is removed.
pub(super) struct NewFile<'a> {
    folder: BorrowedFd<'a>,
    pub(super) file: File,
    has_name: bool,
}

impl<'a> NewFile<'a> {
    /// Makes a file in the place of one that an interrupted copy has left. [`io::ErrorKind::ResourceBusy`] if another
    /// process is copying into the folder.
    pub(super) fn create(folder: BorrowedFd<'a>) -> io::Result<Self> {
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let new = flags | OFlags::CREATE | OFlags::EXCL;
        let mode = Mode::RUSR | Mode::WUSR;
        let made = match openat(folder, UNFINISHED, new, mode) {
            Err(Errno::EXIST) => {
                // It is locked while its process lives.
                let opened = openat(folder, UNFINISHED, flags | OFlags::NONBLOCK, Mode::empty());
                if let Ok(left) = opened {
                    lock(&left)?;
                }
                unlinkat(folder, UNFINISHED, AtFlags::empty())?;
                openat(folder, UNFINISHED, new, mode)?
            }
            made => made?,
        };
        lock(&made)?;
        Ok(Self {
            folder,
            file: File::from(made),
            has_name: false,
        })
    }

    /// Gives it its name.
    pub(super) fn finish(mut self, name: &[u8], replaces: bool) -> io::Result<()> {
        give_name(self.folder, UNFINISHED, name, replaces)?;
        self.has_name = true;
        Ok(())
    }
}

impl Drop for NewFile<'_> {
    fn drop(&mut self) {
        if !self.has_name {
            let _ = unlinkat(self.folder, UNFINISHED, AtFlags::empty());
        }
    }
}

fn lock(file: &OwnedFd) -> io::Result<()> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => Err(io::ErrorKind::ResourceBusy.into()),
        // A file system without locks.
        Err(Errno::NOSYS | Errno::OPNOTSUPP | Errno::NOLCK) => Ok(()),
        locked => Ok(locked?),
    }
}

/// Renames an entry of a folder.
pub(super) fn give_name(
    folder: BorrowedFd<'_>,
    from: &[u8],
    name: &[u8],
    replaces: bool,
) -> io::Result<()> {
    if replaces {
        return Ok(renameat(folder, from, folder, name)?);
    }
    match renameat_with(folder, from, folder, name, RenameFlags::NOREPLACE) {
        // A file system that cannot tell.
        Err(Errno::INVAL | Errno::NOSYS) => match look(folder, name)? {
            Existing::Nothing => Ok(renameat(folder, from, folder, name)?),
            _ => Err(Errno::EXIST.into()),
        },
        renamed => Ok(renamed?),
    }
}

/// Makes a symbolic link, which has its attributes before it has its name.
pub(super) fn make_link(
    folder: BorrowedFd<'_>,
    name: &[u8],
    target: &[u8],
    attributes: Attributes,
    replaces: bool,
) -> io::Result<()> {
    aside(folder, name, replaces, |unfinished| {
        symlinkat(target, folder, unfinished)?;
        attributes.give_to_link(folder, unfinished)
    })
}

/// Gives a file that was copied before one more name.
pub(super) fn make_hard_link(
    first: (BorrowedFd<'_>, &[u8]),
    folder: BorrowedFd<'_>,
    name: &[u8],
    replaces: bool,
) -> io::Result<()> {
    aside(folder, name, replaces, |unfinished| {
        // Without flags, a link is not followed.
        Ok(linkat(
            first.0,
            first.1,
            folder,
            unfinished,
            AtFlags::empty(),
        )?)
    })
}

/// Makes an entry under the name of unfinished files, and gives it its own one.
fn aside(
    folder: BorrowedFd<'_>,
    name: &[u8],
    replaces: bool,
    make: impl Fn(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let made = match make(UNFINISHED) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            unlinkat(folder, UNFINISHED, AtFlags::empty())?;
            make(UNFINISHED)
        }
        made => made,
    };
    let named = made.and_then(|()| give_name(folder, UNFINISHED, name, replaces));
    // It is still there after an error, and where both names belonged to one file: then a rename leaves both.
    let _ = unlinkat(folder, UNFINISHED, AtFlags::empty());
    named
}

/// Opens the folder of a path below another one, only to look up names in it; no link is followed. Returns it with the
/// last name of the path.
pub(super) fn open_above<'p>(
    start: BorrowedFd<'_>,
    path: &'p [u8],
) -> io::Result<(OwnedFd, &'p [u8])> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut folder = start.try_clone_to_owned()?;
    let mut names = path.split(|&byte| byte == b'/').peekable();
    while let Some(name) = names.next() {
        if names.peek().is_none() {
            return Ok((folder, name));
        }
        folder = openat(&folder, name, flags, Mode::empty())?;
    }
    Err(Errno::NOENT.into())
}

/// Writes all of the file system of a folder to its disk.
pub(super) fn sync(folder: impl AsFd) -> io::Result<()> {
    Ok(syncfs(folder)?)
}
