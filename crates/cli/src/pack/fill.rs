//! The plaintext that mke2fs writes: the volume's own over FUSE, or a file in memory that is encrypted afterwards.

use std::ffi::OsStr;
use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{FallocateFlags, MemfdFlags, SeekFrom, fallocate, memfd_create, seek};
use rustix::io::Errno;
use scrim_backend::Durability;
use scrim_export::fuse::{MountError, MountOptions, Mounted, PageCache, RawFile};
use scrim_figures::Size;
use scrim_sys::memory::DataBuffer;
use scrim_volume::Volume;
use serde::Serialize;

use super::folder::Content;
use super::layout::FileSystem;
use super::mke2fs::{Ended, Mke2fs};
use crate::doctor::{available_to_this_process, plain_swap};
use crate::error::{CliError, Exit};
use crate::nbd::runtime::RuntimeDir;
use crate::process::interruption::Interruption;
use crate::terminal::note;
use crate::terminal::progress::Display;
use crate::transfer::Kind;

/// Name of the plaintext as a file.
const NAME: &str = "plaintext";

/// Name by which a program opens the file that is its standard input.
const STANDARD_INPUT: &str = "/proc/self/fd/0";

/// Number of bytes that are encrypted at a time.
const PIECE: u64 = 1 << 20;

/// One part of this many of the available memory is left to others.
const MEMORY_LEFT: u64 = 8;

/// Time for the last process to leave the mount, and pause between two looks.
const LEAVING: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(50);

/// Everything that a volume is filled by.
pub(super) struct Filling<'a> {
    pub(super) program: &'a Mke2fs,
    pub(super) folder: &'a Path,
    pub(super) content: &'a Content,
    pub(super) file_system: &'a FileSystem,
    pub(super) volume: &'a Arc<Volume>,
    pub(super) interruption: &'a Interruption,
}

/// Way in which the file system was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Way {
    Fuse,
    Memory,
}

/// Outcome that is not an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Done(Way),
    Interrupted,
}

impl Filling<'_> {
    pub(super) fn run(&self) -> Result<End, CliError> {
        let (ended, way) = match self.mount()? {
            Ok(mounted) => (self.over_fuse(mounted)?, Way::Fuse),
            Err(reason) => (self.in_memory(&reason)?, Way::Memory),
        };
        Ok(match ended {
            Ended::Done => End::Done(way),
            Ended::Interrupted => End::Interrupted,
        })
    }

    /// Mounts the volume's plaintext as one file in a directory of this user alone, if the system allows that.
    fn mount(&self) -> Result<Result<Mounted, MountError>, CliError> {
        let runtime = RuntimeDir::locate();
        runtime.ensure()?;
        let directory = runtime.pack_directory();
        let shown = directory.display();
        if directory.starts_with(self.folder) {
            return Err(CliError::usage(format!(
                "{shown}, where the plaintext is mounted, would lie within the folder that is packed; set \
                 XDG_RUNTIME_DIR to a place outside of it"
            )));
        }
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&directory)
            .map_err(|error| CliError::io(format_args!("create {shown}"), &error))?;
        let file = RawFile::new(Arc::clone(self.volume), NAME)
            .map_err(|error| CliError::usage(error.to_string()))?;
        let options = MountOptions {
            // mke2fs looks at each block of a folder for every name, block by block.
            cache: PageCache::WriteBack,
            name: NAME.to_owned(),
            ..MountOptions::default()
        };
        let mounted = Mounted::start(Arc::new(file), &directory, &options);
        if mounted.is_err() {
            let _ = std::fs::remove_dir(&directory);
        }
        Ok(mounted)
    }

    fn over_fuse(&self, mounted: Mounted) -> Result<Ended, CliError> {
        let directory = mounted.directory().to_owned();
        let made = self.make(directory.join(NAME).as_os_str(), None, || {
            mounted.traffic().write.bytes
        });
        // A search index or the like may look at each new mount.
        let deadline = Instant::now() + LEAVING;
        while mounted.unmount().is_err() && Instant::now() < deadline {
            std::thread::sleep(PAUSE);
        }
        let failures = mounted.failures();
        let stuck = mounted.stop();
        let _ = std::fs::remove_dir(directory);
        // The reason of the storage says more than the program does.
        match failures.into_iter().next_back() {
            Some(failure) if !matches!(made, Ok(Ended::Interrupted)) => {
                Err(CliError::new(Exit::WrongDevice, failure.reason))
            }
            _ if stuck > 0 => Err(CliError::new(
                Exit::WrongDevice,
                "requests still wait for the storage; check it, and give the command again",
            )),
            _ => made,
        }
    }

    /// Has mke2fs write a file in memory, and encrypts what it has written.
    fn in_memory(&self, reason: &MountError) -> Result<Ended, CliError> {
        let needed = self.file_system.written(self.content);
        check_memory(needed, reason)?;
        note(format_args!(
            "scrim: the file system is made in memory, about {}, since FUSE cannot be used: {reason}",
            Size::of_bytes(needed)
        ));
        let fail = |error: io::Error| CliError::io("make a file in memory", &error);
        let file = memfd_create(NAME, MemfdFlags::CLOEXEC).map_err(|e| fail(e.into()))?;
        let file = File::from(file);
        file.set_len(self.volume.size()).map_err(fail)?;
        let input = file.try_clone().map_err(fail)?;
        let written = || file.metadata().map_or(0, |found| found.blocks() * 512);
        match self.make(STANDARD_INPUT.as_ref(), Some(input), written)? {
            Ended::Done => self.encrypt(&file),
            Ended::Interrupted => Ok(Ended::Interrupted),
        }
    }

    fn make(
        &self,
        target: &OsStr,
        input: Option<File>,
        written: impl Fn() -> u64,
    ) -> Result<Ended, CliError> {
        let running =
            (self.program).start(self.folder, self.content, self.file_system, target, input)?;
        let mut bar = self.bar(Kind::Pack.activity());
        running.wait(self.interruption, || bar.show(written()))
    }

    /// Encrypts what the file in memory has, and gives its memory back piece by piece.
    fn encrypt(&self, file: &File) -> Result<Ended, CliError> {
        let fail = |error: io::Error| CliError::io("read the file in memory", &error);
        let mut bar = self.bar(Kind::Import.activity());
        let mut buffer = DataBuffer::zeroed(usize::try_from(PIECE).unwrap_or(0));
        let (mut end, mut done) = (0, 0);
        loop {
            let start = match seek(file, SeekFrom::Data(end)) {
                Ok(start) => start,
                Err(Errno::NXIO) => return Ok(Ended::Done),
                Err(error) => return Err(fail(error.into())),
            };
            end = seek(file, SeekFrom::Hole(start)).map_err(|e| fail(e.into()))?;
            let mut offset = start;
            while offset < end {
                if self.interruption.came() {
                    return Ok(Ended::Interrupted);
                }
                let len = (end - offset).min(PIECE);
                let piece = &mut buffer[..usize::try_from(len).unwrap_or(0)];
                file.read_exact_at(piece, offset).map_err(fail)?;
                self.volume.write(offset, piece, Durability::Cached)?;
                let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                fallocate(file, hole, offset, len).map_err(|e| fail(e.into()))?;
                offset += len;
                done += len;
                bar.show(done);
            }
        }
    }

    fn bar(&self, what: &'static str) -> Bar {
        Bar {
            folder: self.folder.display().to_string(),
            all: self.file_system.written(self.content),
            display: Display::new(what, "stops it and removes the unfinished volume"),
        }
    }
}

/// Progress up to about this many bytes.
struct Bar {
    folder: String,
    all: u64,
    display: Display,
}

impl Bar {
    fn show(&mut self, done: u64) {
        self.display.moved(&self.folder, done, self.all);
    }
}

/// Refuses to hold plaintext of `needed` bytes where it does not fit, or could get into swap that is not encrypted.
fn check_memory(needed: u64, reason: &MountError) -> Result<(), CliError> {
    let swap = plain_swap();
    if !swap.is_empty() {
        return Err(CliError::new(
            Exit::WrongDevice,
            format!(
                "without FUSE the files would be in memory, which the kernel may write to swap: {}; switch it off \
                 (`swapoff -a`), or make FUSE work: {reason}",
                swap.join(", ")
            ),
        ));
    }
    let Some(available) = available_to_this_process() else {
        return Ok(());
    };
    if needed <= available - available / MEMORY_LEFT {
        return Ok(());
    }
    Err(CliError::new(
        Exit::OutOfMemory,
        format!(
            "without FUSE the file system takes about {} of memory, and {} are available; make FUSE work: {reason}",
            Size::of_bytes(needed),
            Size::of_bytes(available)
        ),
    ))
}
