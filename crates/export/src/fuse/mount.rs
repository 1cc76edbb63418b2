//! Mounting and unmounting: by a call of this process, or by the program `fusermount3`.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::thread::CapabilitySet;
use scrim_sys::fuse::{DEVICE, open_device};
use scrim_sys::mounts::{self, MountId};

use super::error::{DirectoryFault, MountError, UnmountError};
use super::helper;
use super::limits::PAYLOAD;
use super::options::MountOptions;
use super::stall::StallLimit;

/// Type of the file system, as `mount` and `findmnt` show it.
pub const KIND: &str = "fuse.scrim";
const SUBTYPE: &str = "scrim";

/// Program that takes a mount away for a process with the right to it.
const UNMOUNT_PROGRAM: &str = "umount";

/// Way in which something was mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// By the call mount(2), as root or in a user namespace of one's own.
    Call,
    /// By the program `fusermount3`.
    Helper,
}

/// Consideration for those who use a mount that is taken away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unmount {
    /// Refused while a program uses it. The kernel writes back what it has first.
    InOrder,
    /// Also while it is in use; it goes on until nothing uses it.
    Lazy,
    /// As `Lazy`, and requests that wait for an answer fail at once, where this process may demand that.
    Abort,
}

/// A mount that this process has made.
#[derive(Debug, Clone)]
pub(super) struct Place {
    /// The folder on which it was mounted, an absolute path without links.
    pub(super) directory: PathBuf,
    /// The folder above that one. A folder that is mounted on keeps its name, but those above may get others.
    above: Arc<OwnedFd>,
    pub(super) method: Method,
    pub(super) id: MountId,
}

/// Checks the folder, and mounts there. `has_permissions` lets the kernel check modes and owners.
pub(super) fn mount(
    directory: &Path,
    options: &MountOptions,
    has_permissions: bool,
) -> Result<(OwnedFd, Place), MountError> {
    let directory = check_directory(directory)?;
    let above = open_above(&directory).map_err(|error| MountError::Directory {
        path: directory.clone(),
        fault: DirectoryFault::Unreadable(error),
    })?;
    let (device, method) = mount_on(&directory, options, has_permissions)?;
    match identify(&directory) {
        Ok(id) => {
            let place = Place {
                directory,
                above,
                method,
                id,
            };
            Ok((device, place))
        }
        Err(error) => {
            // Nothing has used it yet, and what cannot be identified cannot be taken away later.
            let _ = match method {
                Method::Helper => helper::unmount(&directory, true).is_ok(),
                Method::Call => unmount_at(&directory, UnmountFlags::DETACH).is_ok(),
            };
            Err(MountError::Session(error))
        }
    }
}

fn open_above(directory: &Path) -> io::Result<Arc<OwnedFd>> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let above = directory.parent().unwrap_or(directory);
    Ok(Arc::new(openat(CWD, above, flags, Mode::empty())?))
}

/// Finds the identity of the mount that was just made on a folder.
fn identify(directory: &Path) -> io::Result<MountId> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let root = openat(CWD, directory, flags, Mode::empty())?;
    match mounts::find_of(root)? {
        Some(mount) if mount.kind == KIND => Ok(mount.id),
        _ => Err(io::Error::other(
            "the mount is not in the kernel's table of mounts",
        )),
    }
}

/// Finds the mount on a folder that has a type as asked for, and the way in which this process can take it away.
pub(super) fn find_mounted(directory: &Path, is_type: impl Fn(&str) -> bool) -> Option<Place> {
    let mount = mounts::find(directory).ok()??;
    if !is_type(&mount.kind) {
        return None;
    }
    let method = match may_mount() {
        true => Method::Call,
        false => Method::Helper,
    };
    Some(Place {
        directory: directory.to_owned(),
        above: open_above(directory).ok()?,
        method,
        id: mount.id,
    })
}

fn mount_on(
    directory: &Path,
    options: &MountOptions,
    has_permissions: bool,
) -> Result<(OwnedFd, Method), MountError> {
    if may_mount() {
        match open_device() {
            Ok(device) => match call(&device, directory, options, has_permissions) {
                Ok(()) => return Ok((device, Method::Call)),
                Err(Errno::PERM) => {}
                Err(Errno::NODEV) => return Err(MountError::NoDevice(Errno::NODEV.into())),
                Err(error) => {
                    return Err(MountError::Mount {
                        path: directory.to_owned(),
                        source: error.into(),
                    });
                }
            },
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            Err(error) => return Err(MountError::NoDevice(error)),
        }
    } else if let Err(error) = std::fs::metadata(DEVICE) {
        return Err(MountError::NoDevice(error));
    }
    if options.allow_other && !rustix::process::getuid().is_root() && !may_allow_other() {
        return Err(MountError::AllowOther);
    }
    let device = helper::mount(directory, &helper_options(options, has_permissions))?;
    Ok((device, Method::Helper))
}

/// Finds the folder's path without links, and checks that a mount there hides nothing.
pub(super) fn check_directory(directory: &Path) -> Result<PathBuf, MountError> {
    let refuse = |fault| MountError::Directory {
        path: directory.to_owned(),
        fault,
    };
    let read = |error: io::Error| {
        refuse(match error.kind() {
            io::ErrorKind::NotFound => DirectoryFault::Absent,
            io::ErrorKind::NotADirectory => DirectoryFault::NotDirectory,
            io::ErrorKind::NotConnected => DirectoryFault::DeadMount,
            _ => DirectoryFault::Unreadable(error),
        })
    };
    let path = directory.canonicalize().map_err(read)?;
    let status = std::fs::metadata(&path).map_err(read)?;
    if !status.is_dir() {
        return Err(refuse(DirectoryFault::NotDirectory));
    }
    if mounts::find(&path).is_ok_and(|mount| mount.is_some()) {
        return Err(refuse(DirectoryFault::MountPoint));
    }
    match std::fs::read_dir(&path).map_err(read)?.next() {
        None => Ok(path),
        Some(_) => Err(refuse(DirectoryFault::NotEmpty)),
    }
}

/// Returns whether this process may mount, as root or in its namespace.
fn may_mount() -> bool {
    rustix::thread::capabilities(None)
        .is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_ADMIN))
}

/// Returns whether /etc/fuse.conf lets users let others in. Where that cannot be read, `fusermount3` decides.
fn may_allow_other() -> bool {
    let Ok(configuration) = std::fs::read_to_string("/etc/fuse.conf") else {
        return true;
    };
    let mut lines = configuration.lines();
    lines.any(|line| line.trim() == "user_allow_other")
}

/// Unmounts what is mounted on a path that has no links, whatever the folders on the way are replaced by meanwhile.
fn unmount_at(point: &Path, flags: UnmountFlags) -> Result<(), Errno> {
    let flags = flags | UnmountFlags::NOFOLLOW;
    let (Some(above), Some(name)) = (point.parent(), point.file_name()) else {
        return rustix::mount::unmount(point, flags);
    };
    let open = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = openat2(CWD, above, open, Mode::empty(), ResolveFlags::NO_SYMLINKS);
    let above = match opened {
        // Before Linux 5.6, and where a sandbox does not know the call.
        Err(Errno::NOSYS | Errno::PERM) => openat(CWD, above, open, Mode::empty())?,
        opened => opened?,
    };
    let folder = format!("/proc/thread-self/fd/{}", above.as_raw_fd());
    rustix::mount::unmount(Path::new(&folder).join(name), flags)
}

/// Options that both ways of mounting know.
fn common_options(options: &MountOptions, has_permissions: bool) -> Vec<String> {
    let mut list = vec![format!("max_read={PAYLOAD}")];
    if options.allow_other {
        list.push("allow_other".to_owned());
    }
    if has_permissions {
        list.push("default_permissions".to_owned());
    }
    list
}

fn call(
    device: &OwnedFd,
    directory: &Path,
    options: &MountOptions,
    has_permissions: bool,
) -> Result<(), Errno> {
    let mut flags = MountFlags::NOSUID | MountFlags::NODEV;
    if options.read_only {
        flags |= MountFlags::RDONLY;
    }
    let mut data = vec![
        format!("fd={}", device.as_raw_fd()),
        "rootmode=40000".to_owned(),
        format!("user_id={}", rustix::process::geteuid().as_raw()),
        format!("group_id={}", rustix::process::getegid().as_raw()),
    ];
    data.extend(common_options(options, has_permissions));
    let data = CString::new(data.join(",")).map_err(|_| Errno::INVAL)?;
    let source = source(options);
    rustix::mount::mount(source, directory, KIND, flags, Some(data.as_c_str()))
}

fn helper_options(options: &MountOptions, has_permissions: bool) -> String {
    let mut list = vec![
        match options.read_only {
            true => "ro",
            false => "rw",
        }
        .to_owned(),
        "nosuid".to_owned(),
        "nodev".to_owned(),
        format!("subtype={SUBTYPE}"),
        format!("fsname={}", escaped(&source(options))),
    ];
    list.extend(common_options(options, has_permissions));
    list.join(",")
}

/// The source that is shown: not empty, and without a NUL.
fn source(options: &MountOptions) -> String {
    match options.name.replace('\0', "") {
        name if name.is_empty() => SUBTYPE.to_owned(),
        name => name,
    }
}

/// Escapes what would end an option.
fn escaped(name: &str) -> String {
    name.replace('\\', "\\\\").replace(',', "\\,")
}

impl Place {
    /// Returns whether the mount is no longer there.
    pub(super) fn is_gone(&self) -> bool {
        matches!(mounts::find_at(&self.point(), &self.id), Ok(None))
    }

    /// Path of the mount now: a folder above it may have another name since it was made.
    pub(super) fn point(&self) -> PathBuf {
        let above = std::fs::read_link(self.above());
        match (above, self.directory.file_name()) {
            (Ok(above), Some(name)) => above.join(name),
            _ => self.directory.clone(),
        }
    }

    /// A link to the folder above the mount, for a process that has its descriptors from this one.
    pub(super) fn above(&self) -> String {
        format!("/proc/thread-self/fd/{}", self.above.as_raw_fd())
    }

    /// Takes the mount away, and waits for the kernel as long as `stall_limit` lasts.
    pub(super) fn unmount(
        &self,
        how: Unmount,
        stall_limit: &mut StallLimit,
    ) -> Result<(), UnmountError> {
        if self.is_gone() {
            return Ok(());
        }
        let (place, point) = (self.clone(), self.point());
        let waited = stall_limit.wait_for(self.method == Method::Call, move || {
            place.unmount_and_wait(&point, how)
        });
        let path = || self.directory.clone();
        match waited {
            Ok(Some(result)) => result,
            Ok(None) => Err(UnmountError::Stalled { path: path() }),
            Err(source) => Err(UnmountError::System {
                path: path(),
                source,
            }),
        }
    }

    /// Has the kernel write back what it has of the file system in its page cache; returns whether it did.
    pub(super) fn write_back(&self, stall_limit: &mut StallLimit) -> bool {
        let directory = self.point();
        let sync = move || {
            let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
            let root = rustix::fs::open(&directory, flags, Mode::empty())?;
            rustix::fs::syncfs(&root)
        };
        // On a thread without descriptors also where a helper would unmount, because this is a call.
        let synced = stall_limit.wait_for(true, sync);
        matches!(synced, Ok(Some(Ok(()))))
    }

    /// As [`write_back`](Self::write_back), for a tree of one folder that this process serves: `syncfs` need not wait for
    /// the writes of a FUSE file system, but `fsync` of a file does.
    pub(super) fn write_back_files(&self, stall_limit: &mut StallLimit) -> bool {
        let directory = self.point();
        let sync = move || {
            for entry in std::fs::read_dir(directory)? {
                std::fs::File::open(entry?.path())?.sync_all()?;
            }
            Ok::<_, io::Error>(())
        };
        let synced = stall_limit.wait_for(true, sync);
        matches!(synced, Ok(Some(Ok(()))))
    }

    fn unmount_and_wait(&self, point: &Path, how: Unmount) -> Result<(), UnmountError> {
        match self.method {
            Method::Helper => helper::unmount(point, how != Unmount::InOrder),
            Method::Call => {
                let flags = match how {
                    Unmount::InOrder => UnmountFlags::empty(),
                    Unmount::Lazy => UnmountFlags::DETACH,
                    Unmount::Abort => UnmountFlags::DETACH | UnmountFlags::FORCE,
                };
                unmount_at(point, flags).map_err(|error| match error {
                    Errno::BUSY => UnmountError::Busy {
                        path: self.directory.clone(),
                    },
                    error => UnmountError::System {
                        path: self.directory.clone(),
                        source: error.into(),
                    },
                })
            }
        }
    }

    /// Program and arguments, before the folder, that take the mount away whoever runs them as this user.
    pub(super) fn unmount_command(&self) -> (&'static str, &'static [&'static str]) {
        match self.method {
            Method::Helper => (helper::PROGRAM, helper::unmount_arguments(true)),
            Method::Call => (UNMOUNT_PROGRAM, &["-l"]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_end_its_option() {
        let options = MountOptions {
            name: "a,dev,b\\".to_owned(),
            allow_other: true,
            ..MountOptions::default()
        };
        assert_eq!(
            helper_options(&options, true),
            "rw,nosuid,nodev,subtype=scrim,fsname=a\\,dev\\,b\\\\,max_read=1048576,allow_other,default_permissions"
        );
        assert_eq!(source(&MountOptions::default()), "scrim");
    }

    #[test]
    fn folders_that_do_not_suit_are_refused_with_the_reason() {
        let place = tempfile::tempdir().unwrap();
        let fault = |path: &Path| match check_directory(path) {
            Err(MountError::Directory { fault, .. }) => Some(format!("{fault:?}")),
            _ => None,
        };
        assert_eq!(fault(place.path()), None);
        let file = place.path().join("file");
        assert_eq!(fault(&file).as_deref(), Some("Absent"));
        std::fs::write(&file, "").unwrap();
        assert_eq!(fault(&file).as_deref(), Some("NotDirectory"));
        assert_eq!(fault(place.path()).as_deref(), Some("NotEmpty"));
        assert_eq!(fault(Path::new("/proc")).as_deref(), Some("MountPoint"));
    }
}
