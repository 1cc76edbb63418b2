//! The FUSE device: further descriptors of one connection.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::ioctl::{Opcode, Setter, ioctl, opcode};

/// Path of the device.
pub const DEVICE: &str = "/dev/fuse";

/// Request that makes a clone (`FUSE_DEV_IOC_CLONE`).
const CLONE: Opcode = opcode::read::<u32>(229, 0);

/// Opens the device, for a new connection or for a clone.
///
/// # Errors
/// As `open(2)`.
pub fn open_device() -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    Ok(rustix::fs::open(DEVICE, flags, Mode::empty())?)
}

/// Opens the device for the connection that `device` has, with a queue of its own for requests whose replies are due.
///
/// # Errors
/// As `open(2)` and `ioctl(2)`: a process that was handed its descriptor may not be allowed to open the device.
pub fn clone_device(device: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let number = u32::try_from(device.as_raw_fd())
        .map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let clone = open_device()?;
    // SAFETY: FUSE_DEV_IOC_CLONE reads one number, and this is it.
    unsafe { ioctl(&clone, Setter::<CLONE, u32>::new(number))? };
    Ok(clone)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn only_a_connection_is_cloned() {
        let no_device = std::fs::File::open("/dev/null").unwrap();
        assert!(clone_device(no_device.as_fd()).is_err());
    }
}
