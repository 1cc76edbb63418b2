//! Storage that loads go to: a block device, a file on a volume's file system, or a volume's NBD export.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{OFlags, statvfs};
use scrim_bench::tune::{BackendTarget, Direction, FileTarget, Load, Requests, fill};

use crate::error::CliError;
use crate::storage::Storage;

/// Largest file that is written, in bytes.
const FILE_MAX: u64 = 256 << 20;
/// Smallest file that is worth measuring, in bytes.
const FILE_MIN: u64 = 16 << 20;
/// Unit of the file's size, in bytes.
const MIB: u64 = 1 << 20;

/// Storage for loads that write: a file without a name on a volume's file system, which is gone once it is closed, or the
/// volume itself.
pub(crate) struct WriteFile {
    file: File,
    len: u64,
}

impl WriteFile {
    /// Makes the file and fills it; it takes at most a tenth of the room.
    pub(crate) fn create(folder: &Path) -> Result<Self, CliError> {
        let fail = |error: io::Error| {
            CliError::io(
                format_args!("make a file in {} for writes", folder.display()),
                &error,
            )
        };
        let room = statvfs(folder).map_err(|error| fail(error.into()))?;
        let tenth = room.f_bavail.saturating_mul(room.f_frsize) / 10;
        let len = tenth.min(FILE_MAX) / MIB * MIB;
        if len < FILE_MIN {
            return Err(CliError::usage(format!(
                "{}: a tenth of its room is less than the {} MiB that writes need; name another folder with \
                 --write-to, or leave writes out with --no-writes",
                folder.display(),
                FILE_MIN >> 20
            )));
        }
        let file = direct(File::options().read(true).write(true), OFlags::TMPFILE)
            .mode(0o600)
            .open(folder)
            .map_err(fail)?;
        fill(&file, len)
            .and_then(|()| file.sync_all())
            .map_err(fail)?;
        Ok(Self { file, len })
    }

    /// A whole block device, whose data are lost.
    pub(crate) fn device(node: &Path) -> Result<Self, CliError> {
        let fail = |error| CliError::io(format_args!("open {}", node.display()), &error);
        let mut file = direct(File::options().read(true).write(true), OFlags::EXCL)
            .open(node)
            .map_err(fail)?;
        let len = io::Seek::seek(&mut file, io::SeekFrom::End(0)).map_err(fail)?;
        Ok(Self { file, len })
    }

    fn handle(&self) -> io::Result<(File, u64)> {
        Ok((self.file.try_clone()?, self.len))
    }
}

/// Loads on a block device, and on the file.
pub(crate) fn device(node: &Path, write: Option<&WriteFile>) -> Result<FileTarget, CliError> {
    let fail = |error| CliError::io(format_args!("open {}", node.display()), &error);
    let mut read = direct(File::options().read(true), OFlags::empty())
        .open(node)
        .map_err(fail)?;
    let len = io::Seek::seek(&mut read, io::SeekFrom::End(0)).map_err(fail)?;
    let write = write.map(WriteFile::handle).transpose().map_err(fail)?;
    Ok(FileTarget::new(read, len, write))
}

/// Options that open past the page cache, with further flags.
fn direct(options: &mut OpenOptions, flags: OFlags) -> &mut OpenOptions {
    let flags = flags | OFlags::DIRECT;
    options.custom_flags(i32::try_from(flags.bits()).unwrap_or_default())
}

/// Loads of a volume that Scrim's own engine runs: reads over NBD, writes to a file on its file system.
pub(crate) struct Targets {
    reads: BackendTarget<Storage>,
    writes: Option<FileTarget>,
}

impl Targets {
    pub(crate) fn new(plaintext: Storage, write: Option<&WriteFile>) -> Result<Self, CliError> {
        let fail = |error| CliError::io("open the file for writes", &error);
        let handles = write.map(|file| Ok((file.handle()?, file.handle()?)));
        let handles = handles.transpose().map_err(fail)?;
        Ok(Self {
            reads: BackendTarget(plaintext),
            writes: handles.map(|((read, len), write)| FileTarget::new(read, len, Some(write))),
        })
    }
}

impl Requests for Targets {
    fn run(&mut self, load: &Load, time: Duration) -> io::Result<f64> {
        match (load.direction, &mut self.writes) {
            (Direction::Read, _) => self.reads.run(load, time),
            (Direction::Write, Some(writes)) => writes.run(load, time),
            (Direction::Write, None) => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}
