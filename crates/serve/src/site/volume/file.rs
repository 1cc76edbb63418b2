//! A file's bytes in a volume.

use std::fmt;
use std::io::{self, IoSliceMut};
use std::sync::{Arc, Mutex, PoisonError};

use aws_lc_rs::digest;
use scrim_ext4::{FileSystem, Inode, Patience, Place, Run};
use scrim_volume::FetchedCiphertext;

use super::VolumeFiles;
use super::device::{read, read_now};

/// A file in a volume that is open.
pub(crate) struct VolumeFile {
    files: Arc<VolumeFiles>,
    /// The file system as it was when the file was found.
    fs: Arc<FileSystem>,
    inode: Arc<Inode>,
    /// Run of the bytes that were asked for last, and the offset of its first byte.
    last: Mutex<Option<(u64, Run)>>,
}

/// Location of bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lies {
    /// In whole sectors of the volume, the last of which may be needed in part only.
    InSectors {
        /// Offset in the volume, in bytes.
        at: u64,
        /// Number of bytes.
        len: u64,
    },
    /// Not in whole sectors: this number of bytes has to be read as plaintext.
    Apart(u64),
}

impl VolumeFile {
    pub(super) fn new(files: &Arc<VolumeFiles>, fs: Arc<FileSystem>, inode: Arc<Inode>) -> Self {
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

    /// Digest that tells the file from others, and from itself as it was before a change, in this file system or
    /// another: as far as the system that wrote them made the numbers differ, as kernels do. No UUID is in clear.
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
        // 128 bits are never the same by chance.
        let bytes = digest.as_ref().iter().take(16);
        bytes.map(|byte| format!("{byte:02x}")).collect()
    }

    /// Bytes of a sector, the smallest unit that can be decrypted by itself.
    pub(crate) fn sector(&self) -> usize {
        usize::try_from(self.files.volume.block_size()).unwrap_or(usize::MAX)
    }

    /// Location of the bytes from `offset` on, if that can be told at once.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`], and those of the file system.
    pub(crate) fn lies(&self, offset: u64) -> io::Result<Lies> {
        if let Some(content) = self.inode.inline() {
            return Ok(Lies::Apart((content.len() as u64).saturating_sub(offset)));
        }
        let run = self.run(offset, Patience::Now)?;
        let sector = self.sector() as u64;
        Ok(match run.place {
            Place::Zeros => Lies::Apart(run.len),
            Place::At(at) if at.is_multiple_of(sector) => Lies::InSectors { at, len: run.len },
            Place::At(at) => Lies::Apart(run.len.min(sector - at % sector)),
        })
    }

    /// Fetches what is stored from a byte of the volume on; see [`scrim_volume::Volume::fetch_now`].
    pub(crate) fn fetch_now(
        &self,
        at: u64,
        pieces: &mut [IoSliceMut<'_>],
    ) -> io::Result<(usize, FetchedCiphertext)> {
        let fetched = self.files.volume.fetch_now(at, pieces);
        fetched.ok_or_else(|| io::ErrorKind::WouldBlock.into())
    }

    /// Fills `pieces` one after the other with plaintext; see [`super::super::OpenFile::read_at`]. Where others may
    /// write to the volume, what was read counts only if nobody had mounted it for that: its places may have become
    /// another file's.
    pub(crate) fn read_at(
        &self,
        pieces: &mut [IoSliceMut<'_>],
        offset: u64,
        patience: Patience,
    ) -> io::Result<usize> {
        let read = self.read_pieces(pieces, offset, patience)?;
        match self.files.is_unchanged(&self.fs) {
            Ok(true) => Ok(read),
            Ok(false) => Err(io::Error::other(
                "somebody has mounted its file system for writing since; it can be asked for again",
            )),
            Err(error) => Err(io::Error::other(error)),
        }
    }

    fn read_pieces(
        &self,
        pieces: &mut [IoSliceMut<'_>],
        offset: u64,
        patience: Patience,
    ) -> io::Result<usize> {
        let mut total = 0;
        for piece in pieces {
            let mut done = 0;
            while done < piece.len() {
                let at = offset + total as u64;
                match self.read_some(&mut piece[done..], at, patience) {
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

    fn read_some(&self, into: &mut [u8], offset: u64, patience: Patience) -> io::Result<usize> {
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
        let run = self.run(offset, patience)?;
        let len = fits(run.len);
        let into = &mut into[..len];
        match (run.place, patience) {
            (_, _) if len == 0 => Ok(0),
            (Place::Zeros, _) => {
                into.fill(0);
                Ok(len)
            }
            (Place::At(at), Patience::Now) => read_now(&self.files.volume, at, into),
            (Place::At(at), Patience::Wait) => {
                read(&self.files.volume, at, into)?;
                Ok(len)
            }
        }
    }

    fn run(&self, offset: u64, patience: Patience) -> io::Result<Run> {
        let known = || *self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((first, run)) = known()
            && let Some(skip) = offset.checked_sub(first)
            && skip < run.len
        {
            return Ok(run.from(skip));
        }
        let run = self.fs.run(&self.inode, offset, patience)?;
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
