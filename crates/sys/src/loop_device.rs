//! Loop devices: a file as a block device (`loop(4)`).

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::ioctl::{Opcode, Setter, ioctl};

/// Request for the number of a free device (`LOOP_CTL_GET_FREE`).
const GET_FREE: u64 = 0x4C82;
/// `LOOP_CONFIGURE`, of Linux 5.8.
const CONFIGURE: Opcode = 0x4C0A;

/// Request to take the file's present size (`LOOP_SET_CAPACITY`).
const SET_CAPACITY: u64 = 0x4C07;

const READ_ONLY: u32 = 1;
/// The device lets go of its file when nobody has it open any more.
const AUTOCLEAR: u32 = 4;
const DIRECT_IO: u32 = 16;

/// Number of times that a free device is asked for, where others take what was free.
const TRIES: usize = 64;

/// A device's properties, as the kernel reads them: `struct loop_info64`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Info {
    device: u64,
    inode: u64,
    node: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encryption: [u32; 2],
    flags: u32,
    file_name: [u8; 64],
    unused_name: [u8; 64],
    unused_key: [u8; 32],
    unused: [u64; 2],
}

/// Argument of `CONFIGURE`: `struct loop_config`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Config {
    file: u32,
    block_size: u32,
    info: Info,
    reserved: [u64; 8],
}

/// A loop device that is held open. It goes when nobody holds it any more.
pub struct LoopDevice {
    file: File,
    path: PathBuf,
}

impl LoopDevice {
    /// Makes a loop device of an open file from byte `offset` on, `len` bytes long, or to its end if `None`.
    /// The device keeps the file open as it is, with its locks. It passes the page cache by where the file system allows it.
    ///
    /// # Errors
    /// As `open(2)` and `ioctl(2)`: `NotFound` where the kernel has no loop devices.
    pub fn of(
        backing: BorrowedFd<'_>,
        name: &Path,
        offset: u64,
        len: Option<u64>,
        read_only: bool,
    ) -> io::Result<Self> {
        let control = open(Path::new("/dev/loop-control"), OFlags::RDWR)?;
        let access = match read_only {
            true => OFlags::RDONLY,
            false => OFlags::RDWR,
        };
        let file = u32::try_from(backing.as_raw_fd()).map_err(io::Error::other)?;
        for _ in 0..TRIES {
            // SAFETY: LOOP_CTL_GET_FREE has no argument.
            let number = unsafe { libc::ioctl(control.as_raw_fd(), GET_FREE as libc::Ioctl) };
            if number < 0 {
                return Err(io::Error::last_os_error());
            }
            let path = PathBuf::from(format!("/dev/loop{number}"));
            let device = open(&path, access)?;
            let config = Config {
                file,
                block_size: 0,
                info: info(name, offset, len, read_only),
                reserved: [0; 8],
            };
            // SAFETY: LOOP_CONFIGURE reads a `struct loop_config`, and this is one.
            match unsafe { ioctl(device.as_fd(), Setter::<CONFIGURE, Config>::new(config)) } {
                Ok(()) => return Ok(Self { file: device, path }),
                // Another program was quicker.
                Err(rustix::io::Errno::BUSY) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(io::ErrorKind::ResourceBusy.into())
    }

    /// Path of its node.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Number of the block device, as in `st_rdev` of its node.
    ///
    /// # Errors
    /// As `fstat(2)`.
    pub fn number(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.rdev())
    }
}

/// Has a loop device take the present size of its file.
///
/// # Errors
/// As `open(2)` and `ioctl(2)`.
pub fn take_size_of_file(device: &Path) -> io::Result<()> {
    let device = open(device, OFlags::RDONLY)?;
    // SAFETY: LOOP_SET_CAPACITY has no argument.
    match unsafe { libc::ioctl(device.as_raw_fd(), SET_CAPACITY as libc::Ioctl) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

fn info(name: &Path, offset: u64, len: Option<u64>, read_only: bool) -> Info {
    let mut file_name = [0; 64];
    // The kernel's own record of the path, in sysfs, is not cut off.
    let name = name.as_os_str().as_encoded_bytes();
    let shown = name.len().min(file_name.len() - 1);
    file_name[..shown].copy_from_slice(&name[..shown]);
    let read_only = if read_only { READ_ONLY } else { 0 };
    Info {
        device: 0,
        inode: 0,
        node: 0,
        offset,
        // Zero stands for the end of the file.
        size_limit: len.unwrap_or(0),
        number: 0,
        encryption: [0; 2],
        flags: AUTOCLEAR | DIRECT_IO | read_only,
        file_name,
        unused_name: [0; 64],
        unused_key: [0; 32],
        unused: [0; 2],
    }
}

fn open(path: &Path, access: OFlags) -> io::Result<File> {
    let opened = rustix::fs::open(path, access | OFlags::CLOEXEC, Mode::empty())?;
    Ok(File::from(opened))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_reads_what_is_meant() {
        // linux/loop.h
        assert_eq!(size_of::<Info>(), 232);
        assert_eq!(size_of::<Config>(), 304);
    }

    #[test]
    fn a_device_has_the_bytes_of_its_file_and_goes_with_its_holder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        let bytes: Vec<u8> = (0..128u8).flat_map(|sector| [sector; 512]).collect();
        std::fs::write(&path, &bytes).unwrap();
        let image = File::open(&path).unwrap();
        let made = LoopDevice::of(image.as_fd(), &path, 4096, Some(8192), true);
        let Ok(device) = made else {
            eprintln!("skipped: no loop devices for this user");
            return;
        };
        assert_eq!(std::fs::read(device.path()).unwrap(), bytes[4096..12288]);
        let gone = device.path().to_owned();
        drop(device);
        // What it becomes next is not known, but it has let go of this file.
        let backing = format!(
            "/sys/block/{}/loop/backing_file",
            gone.file_name().unwrap().display()
        );
        let behind = std::fs::read_to_string(backing).unwrap_or_default();
        assert!(!behind.contains(&path.display().to_string()), "{behind}");
    }
}
