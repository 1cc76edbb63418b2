//! An open file in a volume: its ciphertext, and reads of its plaintext.

use std::fmt;
use std::io::{self, IoSliceMut};
use std::sync::{Arc, Mutex, PoisonError};

use aws_lc_rs::digest;
use scrim_ext4::{FileSystem, Inode, Place, ReadMode, Run};
use scrim_volume::FetchedCiphertext;

use super::VolumeFiles;
use super::device::{read, read_now};

/// An open file in a volume.
pub(crate) struct VolumeFile {
    files: Arc<VolumeFiles>,
    /// State of the file system when the file was opened.
    fs: Arc<FileSystem>,
    inode: Arc<Inode>,
    /// Last mapped run, with the offset of its first byte in the file.
    last: Mutex<Option<(u64, Run)>>,
}

/// Mapping of a range of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Whole sectors of the volume; only part of the last one may belong to the range.
    Sectors {
        /// Offset in the volume, in bytes.
        at: u64,
        len: u64,
    },
    /// Not whole sectors: this number of bytes has to be read as plaintext.
    Unaligned(u64),
}

impl VolumeFile {
    pub(crate) fn new(files: &Arc<VolumeFiles>, fs: Arc<FileSystem>, inode: Arc<Inode>) -> Self {
        Self {
            files: Arc::clone(files),
            fs,
            inode,
            last: Mutex::default(),
        }
    }

    pub(crate) fn inode(&self) -> &Inode {
        &self.inode
    }

    /// Digest that distinguishes the file from others, and from its own earlier content, in this file system or another: it
    /// depends on numbers that kernels make differ. It does not reveal UUIDs.
    pub(crate) fn identity(&self) -> String {
        let (seconds, nanoseconds) = self.inode.changed();
        let mut digest = digest::Context::new(&digest::SHA256);
        digest.update(self.files.identity.uuid.as_bytes());
        digest.update(&self.fs.uuid());
        digest.update(&self.inode.number().to_le_bytes());
        digest.update(&self.inode.generation().to_le_bytes());
        digest.update(&seconds.to_le_bytes());
        digest.update(&nanoseconds.to_le_bytes());
        let digest = digest.finish();
        // 128 bits do not collide by chance.
        let bytes = digest.as_ref().iter().take(16);
        bytes.map(|byte| format!("{byte:02x}")).collect()
    }

    /// Size in bytes of a sector, the unit of decryption.
    pub(crate) fn sector(&self) -> usize {
        usize::try_from(self.files.volume.block_size()).unwrap_or(usize::MAX)
    }

    /// Maps the bytes from `offset` on, without waiting for a disk.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if the mapping is not in memory, and errors of the file system.
    pub(crate) fn extent(&self, offset: u64) -> io::Result<Extent> {
        if let Some(content) = self.inode.inline() {
            return Ok(Extent::Unaligned(
                (content.len() as u64).saturating_sub(offset),
            ));
        }
        let run = self.run(offset, ReadMode::Now)?;
        let sector = self.sector() as u64;
        Ok(match run.place {
            Place::Zeros => Extent::Unaligned(run.len),
            Place::At(at) if at.is_multiple_of(sector) => Extent::Sectors { at, len: run.len },
            Place::At(at) => Extent::Unaligned(run.len.min(sector - at % sector)),
        })
    }

    /// Fetches ciphertext from byte `at` of the volume on; see [`scrim_volume::Volume::fetch_now`]. A volume that other
    /// processes may write to is read over their socket, of which nothing can be fetched: [`Self::read_at`] reads it.
    pub(crate) fn fetch_now(
        &self,
        at: u64,
        pieces: &mut [IoSliceMut<'_>],
    ) -> io::Result<(usize, FetchedCiphertext)> {
        let fetched = self.files.volume.fetch_now(at, pieces);
        fetched.ok_or_else(|| io::ErrorKind::WouldBlock.into())
    }

    /// Fills `pieces` with plaintext; see [`OpenFile::read_at`](crate::files::OpenFile::read_at). If other processes may
    /// write to the volume, the read fails if the file system was mounted for writing meanwhile: its sectors may then
    /// belong to another file.
    pub(crate) fn read_at(
        &self,
        pieces: &mut [IoSliceMut<'_>],
        offset: u64,
        mode: ReadMode,
    ) -> io::Result<usize> {
        let read = self.read_pieces(pieces, offset, mode)?;
        match self.files.is_unchanged(&self.fs) {
            Ok(true) => Ok(read),
            Ok(false) => Err(io::Error::other(
                "the file system was mounted for writing since the file was opened; ask for the file again",
            )),
            Err(error) => Err(io::Error::other(error)),
        }
    }

    fn read_pieces(
        &self,
        pieces: &mut [IoSliceMut<'_>],
        offset: u64,
        mode: ReadMode,
    ) -> io::Result<usize> {
        let mut total = 0;
        for piece in pieces {
            let mut done = 0;
            while done < piece.len() {
                let at = offset + total as u64;
                match self.read_some(&mut piece[done..], at, mode) {
                    Ok(0) => return Ok(total),
                    Ok(read) => {
                        done += read;
                        total += read;
                    }
                    Err(error) if total > 0 && error.kind() == io::ErrorKind::WouldBlock => {
                        return Ok(total);
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(total)
    }

    fn read_some(&self, into: &mut [u8], offset: u64, mode: ReadMode) -> io::Result<usize> {
        let fits = |len: u64| usize::try_from(len).map_or(into.len(), |len| len.min(into.len()));
        if let Some(content) = self.inode.inline() {
            let rest = usize::try_from(offset)
                .ok()
                .and_then(|at| content.get(at..));
            let rest = rest.unwrap_or_default();
            let len = fits(rest.len() as u64);
            into[..len].copy_from_slice(&rest[..len]);
            return Ok(len);
        }
        let run = self.run(offset, mode)?;
        let len = fits(run.len);
        let into = &mut into[..len];
        match (run.place, mode) {
            (_, _) if len == 0 => Ok(0),
            (Place::Zeros, _) => {
                into.fill(0);
                Ok(len)
            }
            (Place::At(at), ReadMode::Now) => read_now(&self.files.volume, at, into),
            (Place::At(at), ReadMode::Wait) => {
                read(&self.files.volume, at, into)?;
                Ok(len)
            }
        }
    }

    fn run(&self, offset: u64, mode: ReadMode) -> io::Result<Run> {
        let known = || *self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((first, run)) = known()
            && let Some(skip) = offset.checked_sub(first)
            && skip < run.len
        {
            return Ok(run.from(skip));
        }
        let run = self.fs.run(&self.inode, offset, mode)?;
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some((offset, run));
        Ok(run)
    }
}

impl fmt::Debug for VolumeFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VolumeFile")
            .field("inode", &self.inode.number())
            .finish_non_exhaustive()
    }
}
