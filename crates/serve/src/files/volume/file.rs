//! An open file in a volume: its ciphertext, and reads of its plaintext.

use std::io::{self, IoSliceMut};
use std::sync::Arc;

use aws_lc_rs::digest;
use scrim_files::{File, FileSystem, Inode, Place, ReadMode};
use scrim_volume::FetchedCiphertext;

use super::VolumeFiles;

/// An open file in a volume.
#[derive(Debug)]
pub(crate) struct VolumeFile {
    files: Arc<VolumeFiles>,
    file: File,
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
            file: File::new(Arc::clone(&files.volume), fs, inode),
        }
    }

    pub(crate) fn inode(&self) -> &Inode {
        self.file.inode()
    }

    /// Digest that distinguishes the file from others, and from its own earlier content, in this file system or another: it
    /// depends on numbers that kernels make differ. It does not reveal UUIDs.
    pub(crate) fn identity(&self) -> String {
        let inode = self.inode();
        let (seconds, nanoseconds) = inode.changed();
        let mut digest = digest::Context::new(&digest::SHA256);
        digest.update(self.files.identity.uuid.as_bytes());
        digest.update(&self.file.file_system().uuid());
        digest.update(&inode.number().to_le_bytes());
        digest.update(&inode.generation().to_le_bytes());
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
        if let Some(content) = self.inode().inline() {
            return Ok(Extent::Unaligned(
                (content.len() as u64).saturating_sub(offset),
            ));
        }
        let run = self.file.run(offset, ReadMode::Now)?;
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
        let read = self.file.read_vectored_at(pieces, offset, mode)?;
        match self.files.is_unchanged(self.file.file_system()) {
            Ok(true) => Ok(read),
            Ok(false) => Err(io::Error::other(
                "the file system was mounted for writing since the file was opened; ask for the file again",
            )),
            Err(error) => Err(io::Error::other(error)),
        }
    }
}
