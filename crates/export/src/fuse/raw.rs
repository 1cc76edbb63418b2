//! The tree of a volume's plaintext: one folder with one file.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use rustix::io::Errno;
use scrim_fuse::request::{Allocate, AllocateMode, NewTime, SetAttributes};
use scrim_fuse::wire::ROOT_ID;
use scrim_fuse::{Attributes, FileKind, Statistics, Time, reply::Entry};
use scrim_volume::Volume;

use super::error::FileError;
use super::tree::{DirectoryEntry, Durability, FileTree, OpenFile, SyncKind};
use crate::limits;

/// Node of the one file.
const FILE: u64 = 2;

/// Longest name of a file, in bytes (`NAME_MAX`).
const NAME_MAX: usize = 255;

/// Size of requests that programs are advised to use, in bytes.
const BLOCK: u32 = 4096;

/// A folder with one file, the plaintext of a volume, which belongs to this process's user alone (mode 0600).
///
/// The file has the size of the volume, as a disk has. It cannot be made longer or shorter (`EPERM`; a call that sets the
/// size it has succeeds), and writes behind its end get `ENOSPC`. `fsync` returns when everything that was written is
/// durable, and a write with `O_SYNC` or `O_DSYNC` when its data is.
pub struct RawFile {
    volume: Arc<Volume>,
    name: String,
    holes: PunchHole,
    uid: u32,
    gid: u32,
    times: Mutex<Times>,
}

/// Answer to a request for a hole in the file (`fallocate` with `FALLOC_FL_PUNCH_HOLE`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PunchHole {
    /// Refuse it (`EOPNOTSUPP`). Programs then write zeros where they need them.
    #[default]
    Refuse,
    /// Discard the range in the volume, which must allow that. The range then reads as noise, not as zeros as the call
    /// promises: only for programs that use holes as discards and expect nothing of their contents.
    Discard,
}

struct Times {
    accessed: Time,
    modified: Time,
}

impl RawFile {
    /// Makes the tree of `volume`, with a file called `name`.
    ///
    /// # Errors
    /// When this cannot be the name of a file.
    pub fn new(volume: Arc<Volume>, name: &str) -> Result<Self, FileNameError> {
        let is_path = name.contains(['/', '\0']) || matches!(name, "" | "." | "..");
        if is_path || name.len() > NAME_MAX {
            return Err(FileNameError(name.to_owned()));
        }
        let now = now();
        Ok(Self {
            volume,
            name: name.to_owned(),
            holes: PunchHole::default(),
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            times: Mutex::new(Times {
                accessed: now,
                modified: now,
            }),
        })
    }

    /// Sets the answer to requests for holes.
    #[must_use]
    pub fn with_holes(self, holes: PunchHole) -> Self {
        Self { holes, ..self }
    }

    fn root(&self) -> Attributes {
        Attributes {
            inode: ROOT_ID,
            size: 0,
            blocks: 0,
            kind: FileKind::Directory,
            permissions: 0o500,
            links: 2,
            ..self.file()
        }
    }

    fn file(&self) -> Attributes {
        let size = self.volume.size();
        let times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        Attributes {
            inode: FILE,
            size,
            blocks: size / 512,
            accessed: times.accessed,
            modified: times.modified,
            changed: times.modified,
            kind: FileKind::Regular,
            permissions: if self.volume.is_read_only() {
                0o400
            } else {
                0o600
            },
            links: 1,
            uid: self.uid,
            gid: self.gid,
            device: 0,
            block_size: BLOCK,
        }
    }

    fn entry(attributes: Attributes) -> Entry {
        Entry {
            node: attributes.inode,
            generation: 0,
            attributes,
        }
    }

    fn touch(&self) {
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        times.modified = now();
    }

    /// Cuts a request at the end of the volume, which `size` is.
    fn within(&self, offset: u64, len: usize) -> usize {
        let left = self.volume.size().saturating_sub(offset);
        usize::try_from(left).map_or(len, |left| left.min(len))
    }

    /// Carries out a long request in steps, between which the session can stop.
    fn in_steps(
        &self,
        range: &Allocate,
        is_stopping: &dyn Fn() -> bool,
        step: impl Fn(u64, u64) -> Result<(), FileError>,
    ) -> Result<(), FileError> {
        let size = self.volume.size();
        if range.offset >= size {
            return Err(Errno::NOSPC.into());
        }
        let end = range.offset.saturating_add(range.len).min(size);
        let mut offset = range.offset;
        while offset < end {
            if is_stopping() {
                return Err(Errno::INTR.into());
            }
            let len = (end - offset).min(limits::STEP as u64);
            step(offset, len)?;
            offset += len;
        }
        self.touch();
        Ok(())
    }
}

impl FileTree for RawFile {
    fn lookup(&self, parent: u64, name: &[u8]) -> Result<Entry, FileError> {
        if parent != ROOT_ID {
            return Err(Errno::NOTDIR.into());
        }
        match name {
            b"." | b".." => Ok(Self::entry(self.root())),
            _ if name == self.name.as_bytes() => Ok(Self::entry(self.file())),
            _ => Err(Errno::NOENT.into()),
        }
    }

    fn attributes(&self, node: u64) -> Result<Attributes, FileError> {
        match node {
            ROOT_ID => Ok(self.root()),
            FILE => Ok(self.file()),
            _ => Err(Errno::NOENT.into()),
        }
    }

    fn set_attributes(&self, node: u64, changes: &SetAttributes) -> Result<Attributes, FileError> {
        let now_are = self.attributes(node)?;
        let keeps = |wanted: Option<u64>, is: u64| wanted.is_none_or(|wanted| wanted == is);
        let is_allowed = keeps(changes.size, now_are.size)
            && keeps(
                changes.permissions.map(u64::from),
                now_are.permissions.into(),
            )
            && keeps(changes.uid.map(u64::from), now_are.uid.into())
            && keeps(changes.gid.map(u64::from), now_are.gid.into());
        if !is_allowed {
            return Err(Errno::PERM.into());
        }
        let time = |new: NewTime| match new {
            NewTime::Now => now(),
            NewTime::At(time) => time,
        };
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(accessed) = changes.accessed {
            times.accessed = time(accessed);
        }
        if let Some(modified) = changes.modified {
            times.modified = time(modified);
        }
        drop(times);
        self.attributes(node)
    }

    fn open(&self, node: u64, writes: bool) -> Result<u64, FileError> {
        match node {
            ROOT_ID => Err(Errno::ISDIR.into()),
            FILE if writes && self.volume.is_read_only() => Err(Errno::ROFS.into()),
            FILE => Ok(0),
            _ => Err(Errno::NOENT.into()),
        }
    }

    fn read(&self, file: OpenFile, offset: u64, buffer: &mut [u8]) -> Result<usize, FileError> {
        check(file)?;
        let len = self.within(offset, buffer.len());
        if len > 0 {
            self.volume.read(offset, &mut buffer[..len])?;
        }
        Ok(len)
    }

    fn write(
        &self,
        file: OpenFile,
        offset: u64,
        data: &mut [u8],
        durability: Durability,
    ) -> Result<usize, FileError> {
        check(file)?;
        let len = self.within(offset, data.len());
        if len == 0 && !data.is_empty() {
            return Err(Errno::NOSPC.into());
        }
        self.volume.write(offset, &mut data[..len], durability)?;
        self.touch();
        Ok(len)
    }

    fn fsync(&self, _file: OpenFile, _how: SyncKind) -> Result<(), FileError> {
        // Nothing but data is stored.
        Ok(self.volume.flush()?)
    }

    fn allocate(
        &self,
        node: u64,
        range: &Allocate,
        is_stopping: &dyn Fn() -> bool,
    ) -> Result<(), FileError> {
        check(OpenFile {
            node,
            handle: range.handle,
        })?;
        let end = range.offset.checked_add(range.len);
        let passes_end = end.is_none_or(|end| end > self.volume.size());
        match range.mode {
            AllocateMode::Reserve { keep_size: false }
            | AllocateMode::ZeroRange { keep_size: false }
                if passes_end =>
            {
                Err(Errno::NOSPC.into())
            }
            // All of it has its place.
            AllocateMode::Reserve { .. } => Ok(()),
            AllocateMode::ZeroRange { .. } => self.in_steps(range, is_stopping, |offset, len| {
                Ok(self.volume.write_zeroes(offset, len, Durability::Cached)?)
            }),
            AllocateMode::PunchHole
                if self.holes == PunchHole::Discard && self.volume.allows_discard() =>
            {
                self.in_steps(range, is_stopping, |offset, len| {
                    Ok(self.volume.discard(offset, len)?)
                })
            }
            AllocateMode::PunchHole | AllocateMode::Other(_) => Err(Errno::OPNOTSUPP.into()),
        }
    }

    fn read_directory(
        &self,
        directory: OpenFile,
        cursor: u64,
        sink: &mut dyn FnMut(&DirectoryEntry<'_>) -> bool,
    ) -> Result<(), FileError> {
        if directory.node != ROOT_ID {
            return Err(Errno::NOTDIR.into());
        }
        let entries = [
            (ROOT_ID, FileKind::Directory, &b"."[..]),
            (ROOT_ID, FileKind::Directory, b".."),
            (FILE, FileKind::Regular, self.name.as_bytes()),
        ];
        for (next, (inode, kind, name)) in (1u64..).zip(entries) {
            let entry = DirectoryEntry {
                inode,
                kind,
                name,
                next,
            };
            if next > cursor && !sink(&entry) {
                break;
            }
        }
        Ok(())
    }

    fn statistics(&self) -> Result<Statistics, FileError> {
        Ok(Statistics {
            block_size: BLOCK,
            blocks: self.volume.size() / u64::from(BLOCK),
            files: 2,
            // Fits: it is 255.
            name_max: u32::try_from(NAME_MAX).unwrap_or(u32::MAX),
            ..Statistics::default()
        })
    }
}

/// Checks that a request is about the file.
fn check(file: OpenFile) -> Result<(), FileError> {
    match file.node {
        FILE => Ok(()),
        ROOT_ID => Err(Errno::ISDIR.into()),
        _ => Err(Errno::NOENT.into()),
    }
}

fn now() -> Time {
    let since = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or(Duration::ZERO);
    Time {
        seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        nanoseconds: since.subsec_nanos(),
    }
}

/// A name that no file can have.
#[derive(Debug)]
pub struct FileNameError(String);

impl fmt::Display for FileNameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} cannot be the name of a file: choose 1 to {NAME_MAX} bytes without `/`",
            self.0
        )
    }
}

impl std::error::Error for FileNameError {}
