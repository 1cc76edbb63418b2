//! Nodes in `/dev/mapper`: udev makes them where it runs, and this process where it does not.

use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use scrim_sys::device_mapper::Udev;
use scrim_sys::udev_cookie::{Cookie, is_udev_running};

use crate::args::VolumeName;
use crate::error::CliError;
use crate::terminal::note;

/// Longest wait for udev. A worker of udev that has died completes nothing.
const UDEV_LIMIT: Duration = Duration::from_secs(10);

/// Path of a volume's node.
pub(super) fn path(name: &VolumeName) -> PathBuf {
    Path::new("/dev/mapper").join(name.as_str())
}

/// Makes a call that sends an event, and waits until udev has completed that. The call returns whether it has sent one.
pub(super) fn with_udev(call: impl FnOnce(Udev) -> io::Result<bool>) -> io::Result<()> {
    let cookie = match is_udev_running() {
        // Without System V semaphores nobody can wait; the node is looked for later.
        true => Cookie::new().ok(),
        false => None,
    };
    let event = cookie.as_ref().map_or(Udev::NONE, Cookie::event);
    let was_sent = call(event)?;
    if let Some(cookie) = cookie.filter(|_| was_sent)
        && !cookie.wait(UDEV_LIMIT)?
    {
        note(format_args!(
            "scrim: warning: udev has not handled the device within {} s; see `udevadm settle` and udev's log",
            UDEV_LIMIT.as_secs()
        ));
    }
    Ok(())
}

/// Makes a volume's node if it is missing, or of another device.
pub(super) fn make(name: &VolumeName, device: u64) -> Result<(), CliError> {
    let path = path(name);
    match std::fs::metadata(&path) {
        Ok(found) if found.file_type().is_block_device() && found.rdev() == device => {
            return Ok(());
        }
        // A node of a device that has gone.
        Ok(_) => remove(name),
        Err(_) => {}
    }
    let mode = Mode::RUSR | Mode::WUSR;
    mknodat(CWD, &path, FileType::BlockDevice, mode, device).map_err(|error| {
        CliError::io(
            format_args!("make the node {}", path.display()),
            &error.into(),
        )
    })
}

/// Removes a volume's node if it is still there.
pub(super) fn remove(name: &VolumeName) {
    let path = path(name);
    // udev may have removed it.
    if let Err(error) = std::fs::remove_file(&path)
        && error.kind() != io::ErrorKind::NotFound
    {
        note(format_args!(
            "scrim: warning: cannot remove {}: {error}",
            path.display()
        ));
    }
}
