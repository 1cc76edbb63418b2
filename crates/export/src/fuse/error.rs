//! Errors of files, of mounting and of unmounting.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;

use rustix::io::Errno;
use scrim_foreign::Foreign;
use scrim_volume::VolumeError;

/// A failed request to a file: the number that the program gets, and the reason.
#[derive(Debug)]
pub struct FileError {
    errno: Errno,
    cause: Option<Box<dyn Error + Send + Sync>>,
}

impl FileError {
    /// Makes an error with a reason, which a session remembers ([`Mounted::failures`](super::Mounted::failures)).
    pub fn new(errno: Errno, cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self {
            errno,
            cause: Some(cause.into()),
        }
    }

    /// Returns the number that the program gets.
    #[must_use]
    pub fn errno(&self) -> Errno {
        self.errno
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            Some(cause) => cause.fmt(f),
            None => self.errno.fmt(f),
        }
    }
}

impl Error for FileError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        let cause: &(dyn Error + 'static) = &**self.cause.as_ref()?;
        Some(cause)
    }
}

/// An error of which the number says everything, such as that of a name that does not exist.
impl From<Errno> for FileError {
    fn from(errno: Errno) -> Self {
        Self { errno, cause: None }
    }
}

impl From<VolumeError> for FileError {
    fn from(error: VolumeError) -> Self {
        use scrim_volume::Errno as Number;
        let errno = match error.errno() {
            Number::Perm => Errno::ROFS,
            Number::Io => Errno::IO,
            Number::Inval => Errno::INVAL,
            Number::NoSpc => Errno::NOSPC,
            Number::NotSup => Errno::OPNOTSUPP,
        };
        Self::new(errno, error)
    }
}

/// Fault of the folder on which a mount is to lie.
#[derive(Debug)]
pub enum DirectoryFault {
    Absent,
    NotDirectory,
    NotEmpty,
    /// A file system is mounted there already.
    MountPoint,
    /// A FUSE file system whose server has died is mounted there.
    DeadMount,
    /// The system refuses to look at it.
    Unreadable(io::Error),
}

/// Reason why nothing was mounted.
#[derive(Debug)]
pub enum MountError {
    /// The folder does not suit.
    Directory {
        path: PathBuf,
        fault: DirectoryFault,
    },
    /// The device is missing: the kernel or the container has no FUSE.
    NoDevice(io::Error),
    /// The program `fusermount3` is missing, without which only root can mount.
    NoHelper,
    /// Only root may let other users in, as long as /etc/fuse.conf does not allow it to everyone.
    AllowOther,
    /// The program `fusermount3` has failed.
    Helper {
        path: PathBuf,
        /// Message of the program.
        said: Foreign<String>,
    },
    /// The mount(2) call has failed.
    Mount { path: PathBuf, source: io::Error },
    /// The kernel speaks another version of the protocol, or none.
    Protocol {
        /// Reason, in words for people.
        reason: String,
    },
    /// The system gave no thread, descriptor or memory for the session.
    Session(io::Error),
}

impl MountError {
    /// Returns whether this process cannot use FUSE at all, wherever it mounts.
    #[must_use]
    pub fn is_without_fuse(&self) -> bool {
        match self {
            Self::NoDevice(_) | Self::NoHelper => true,
            Self::Helper { said, .. } => {
                let said = said.to_string();
                said.contains(DEVICE_CLOSED) || said.contains(MOUNT_REFUSED)
            }
            _ => false,
        }
    }
}

/// Words of `fusermount3` where a user may not open the device.
const DEVICE_CLOSED: &str = "/dev/fuse: Permission denied";
/// Words of `fusermount3` where it may not mount itself, as in most containers.
const MOUNT_REFUSED: &str = "mount failed: Operation not permitted";

/// The next step where `fusermount3` names none.
fn next_step(said: &Foreign<String>) -> &'static str {
    let said = said.to_string();
    if said.contains(DEVICE_CLOSED) {
        "; let users open it, with `chmod 666 /dev/fuse` as root"
    } else if said.contains(MOUNT_REFUSED) {
        "; start the container with `--device /dev/fuse --cap-add SYS_ADMIN`, or mount outside of it"
    } else if said.contains("no write access to mountpoint") {
        "; choose a folder of your own"
    } else {
        ""
    }
}

impl fmt::Display for MountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory { path, fault } => {
                write!(f, "cannot mount on {}: {fault}", path.display())
            }
            Self::NoDevice(error) => write!(
                f,
                "cannot open /dev/fuse: {error}; load the module with `modprobe fuse` as root, or start the container \
                 with `--device /dev/fuse --cap-add SYS_ADMIN`"
            ),
            Self::NoHelper => write!(
                f,
                "the program fusermount3 is missing, which mounts for users without root: install the package fuse3"
            ),
            Self::AllowOther => write!(
                f,
                "other users may not be let in here: add the line `user_allow_other` to /etc/fuse.conf as root, or \
                 mount without --allow-other"
            ),
            Self::Helper { path, said } => {
                write!(f, "fusermount3 cannot mount on {}: {said}", path.display())?;
                f.write_str(next_step(said))
            }
            Self::Mount { path, source } => write!(
                f,
                "cannot mount on {}: {source}; see the end of `dmesg` for the kernel's reason",
                path.display()
            ),
            Self::Protocol { reason } => write!(
                f,
                "the kernel's FUSE cannot be used: {reason}; Linux 5.2 or newer is needed"
            ),
            Self::Session(error) => write!(
                f,
                "cannot serve the mount: {error}; free some memory, or raise the limit of open files (`ulimit -n`)"
            ),
        }
    }
}

impl Error for MountError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::NoDevice(error) | Self::Session(error) => Some(error),
            Self::Mount { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl fmt::Display for DirectoryFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("it does not exist; make it with `mkdir`"),
            Self::NotDirectory => f.write_str("it is not a folder; choose an empty folder"),
            Self::NotEmpty => {
                f.write_str("the folder is not empty, and its files would be hidden; choose an empty one")
            }
            Self::MountPoint => {
                f.write_str("something is mounted there already; unmount it, or choose another folder")
            }
            Self::DeadMount => f.write_str(
                "a mount whose server has ended is still there; remove it with `fusermount3 -u` or, as root, `umount`",
            ),
            Self::Unreadable(error) => write!(f, "{error}; choose a folder of your own"),
        }
    }
}

/// Reason why a mount is still there.
#[derive(Debug)]
pub enum UnmountError {
    /// A program has a file of it open, or its working folder in it.
    Busy { path: PathBuf },
    /// The program `fusermount3` has failed.
    Helper {
        path: PathBuf,
        /// Message of the program.
        said: Foreign<String>,
    },
    /// A call to the system has failed.
    System { path: PathBuf, source: io::Error },
    /// The kernel still writes what it has in memory, and the storage does not answer.
    Stalled { path: PathBuf },
}

impl fmt::Display for UnmountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy { path } => write!(
                f,
                "cannot unmount {}: a program uses it; `fuser -vm {}` shows which one",
                path.display(),
                path.display()
            ),
            Self::Helper { path, said } => {
                write!(f, "fusermount3 cannot unmount {}: {said}", path.display())
            }
            Self::System { path, source } => write!(
                f,
                "cannot unmount {}: {source}; try `umount` as root",
                path.display()
            ),
            Self::Stalled { path } => write!(
                f,
                "{} is not unmounted yet: the storage does not answer, and data in memory waits for it; see to the \
                 storage, or give that data up with --force",
                path.display()
            ),
        }
    }
}

impl Error for UnmountError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::System { source, .. } => Some(source),
            Self::Busy { .. } | Self::Helper { .. } | Self::Stalled { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_fusermount3_may_not_mount_there_is_a_next_step() {
        for (said, next, is_without_fuse) in [
            (
                "fusermount3: failed to open /dev/fuse: Permission denied",
                "chmod 666 /dev/fuse",
                true,
            ),
            (
                "fusermount3: mount failed: Operation not permitted",
                "--cap-add SYS_ADMIN",
                true,
            ),
            (
                "fusermount3: user has no write access to mountpoint /mnt",
                "a folder of your own",
                false,
            ),
            ("fusermount3: bad mount point", "bad mount point", false),
        ] {
            let error = MountError::Helper {
                path: "/mnt".into(),
                said: Foreign::new(said.to_owned()),
            };
            assert_eq!(error.is_without_fuse(), is_without_fuse, "{said}");
            assert!(error.to_string().contains(next), "{error}");
        }
    }
}
