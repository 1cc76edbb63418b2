//! A volume as the device of a file system.

use std::io::{self, IoSliceMut};
use std::sync::Arc;

use scrim_ext4::{Device, Error, FileSystem, ReadMode};
use scrim_volume::{Volume, VolumeError};

/// The largest sector of a volume, in bytes.
const SECTOR_MAX: usize = 4096;

/// Read access to a volume for a file system.
struct VolumeDevice(Arc<Volume>);

/// Opens the file system in a volume.
///
/// # Errors
/// If it has none that can be read.
pub fn open(volume: &Arc<Volume>) -> Result<FileSystem, Error> {
    FileSystem::open(Box::new(VolumeDevice(Arc::clone(volume))))
}

impl Device for VolumeDevice {
    fn read(&self, offset: u64, into: &mut [u8], mode: ReadMode) -> io::Result<()> {
        if mode == ReadMode::Wait {
            return read(&self.0, offset, into);
        }
        let mut done = 0;
        while done < into.len() {
            done += read_now(&self.0, offset + done as u64, &mut into[done..])?;
        }
        Ok(())
    }
}

/// Reads and decrypts until `into` is full; may wait for a disk.
pub(crate) fn read(volume: &Volume, offset: u64, into: &mut [u8]) -> io::Result<()> {
    volume.read(offset, into).map_err(|error| match error {
        VolumeError::Backend(error) => io::Error::new(error.source.kind(), error),
        other => io::Error::other(other),
    })
}

/// Reads and decrypts what is in memory; returns the number of bytes, at least one. Part of a sector is decrypted in a
/// buffer on the stack.
///
/// # Errors
/// [`io::ErrorKind::WouldBlock`] if the first sector is not in memory.
pub fn read_now(volume: &Volume, offset: u64, into: &mut [u8]) -> io::Result<usize> {
    let wait = || io::Error::from(io::ErrorKind::WouldBlock);
    let sector = volume.block_size();
    let within = usize::try_from(offset % u64::from(sector)).map_err(|_| wait())?;
    let sector = usize::try_from(sector)
        .unwrap_or(SECTOR_MAX)
        .min(SECTOR_MAX);
    if within == 0 && into.len() >= sector {
        let whole = into.len() / sector * sector;
        return sectors_now(volume, offset, &mut into[..whole]);
    }
    let mut buffer = [0; SECTOR_MAX];
    let buffer = &mut buffer[..sector];
    sectors_now(volume, offset - within as u64, buffer)?;
    let len = into.len().min(sector - within);
    into[..len].copy_from_slice(&buffer[within..within + len]);
    Ok(len)
}

/// Reads and decrypts whole sectors that are in memory.
fn sectors_now(volume: &Volume, offset: u64, into: &mut [u8]) -> io::Result<usize> {
    let fetched = volume.fetch_now(offset, &mut [IoSliceMut::new(into)]);
    let (len, stored) = fetched.ok_or(io::ErrorKind::WouldBlock)?;
    stored.decrypt(offset, &mut into[..len]);
    stored.check()?;
    Ok(len)
}
