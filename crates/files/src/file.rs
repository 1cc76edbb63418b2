//! The bytes of a file in a volume.

use std::fmt;
use std::io::{self, IoSliceMut};
use std::sync::{Arc, Mutex, PoisonError};

use scrim_ext4::{FileSystem, Inode, Place, ReadMode, Run};
use scrim_volume::Volume;

use crate::device::{read, read_now};

/// A file of a volume's file system, open for reading at any offset, by any number of threads.
pub struct File {
    volume: Arc<Volume>,
    /// State of the file system when the file was opened.
    fs: Arc<FileSystem>,
    inode: Arc<Inode>,
    /// Last mapped run, with the offset of its first byte in the file.
    last: Mutex<Option<(u64, Run)>>,
}

/// Bytes of a file that are of one kind, by their number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Span {
    Data(u64),
    /// Zeros that are stored nowhere.
    Hole(u64),
}

impl File {
    /// Opens the file of an inode. The caller has called [`Inode::check_readable`].
    #[must_use]
    pub fn new(volume: Arc<Volume>, fs: Arc<FileSystem>, inode: Arc<Inode>) -> Self {
        Self {
            volume,
            fs,
            inode,
            last: Mutex::default(),
        }
    }

    /// Inode that the file was opened by.
    #[must_use]
    pub fn inode(&self) -> &Inode {
        &self.inode
    }

    /// The file system that it belongs to, as it was when the file was opened.
    #[must_use]
    pub fn file_system(&self) -> &FileSystem {
        &self.fs
    }

    /// Fills `into` from byte `offset` of the file on; returns the number of bytes, which is smaller at the end of the
    /// file and before what cannot be read.
    ///
    /// # Errors
    /// If the byte at `offset` cannot be read: the storage fails, the map is damaged, or, in [`ReadMode::Now`], it is not in
    /// memory ([`io::ErrorKind::WouldBlock`]).
    pub fn read_at(&self, into: &mut [u8], offset: u64, mode: ReadMode) -> io::Result<usize> {
        self.read_vectored_at(&mut [IoSliceMut::new(into)], offset, mode)
    }

    /// As [`File::read_at`], into several buffers.
    ///
    /// # Errors
    /// As for [`File::read_at`].
    pub fn read_vectored_at(
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
                    // The next read tells.
                    Err(_) if total > 0 => return Ok(total),
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
            (Place::At(at), ReadMode::Now) => read_now(&self.volume, at, into),
            (Place::At(at), ReadMode::Wait) => match read(&self.volume, at, into) {
                Ok(()) => Ok(len),
                Err(_) => self.read_blocks(into, offset, at),
            },
        }
    }

    /// Reads block by block where a longer read has failed, up to the first block that fails. Its error names it.
    fn read_blocks(&self, into: &mut [u8], offset: u64, at: u64) -> io::Result<usize> {
        let size = u64::from(self.fs.block_size());
        let mut done = 0;
        while done < into.len() {
            let at = at + done as u64;
            let left = usize::try_from(size - at % size).unwrap_or(usize::MAX);
            let end = into.len().min(done.saturating_add(left));
            match read(&self.volume, at, &mut into[done..end]) {
                Ok(()) => done = end,
                Err(_) if done > 0 => break,
                Err(error) => {
                    let block = at / size;
                    let text = format!(
                        "byte {offset} of the file, in block {block} of the file system: {error}"
                    );
                    return Err(io::Error::new(error.kind(), text));
                }
            }
        }
        Ok(done)
    }

    /// Returns the kind of the bytes at `offset`, and the number of bytes for which it is known to be the same; 0 at the
    /// end of the file.
    ///
    /// # Errors
    /// As for [`File::run`].
    pub fn span(&self, offset: u64, mode: ReadMode) -> io::Result<Span> {
        if let Some(content) = self.inode.inline() {
            return Ok(Span::Data((content.len() as u64).saturating_sub(offset)));
        }
        let run = self.run(offset, mode)?;
        Ok(match run.place {
            Place::Zeros if run.len > 0 => Span::Hole(run.len),
            Place::Zeros | Place::At(_) => Span::Data(run.len),
        })
    }

    /// Maps the bytes from `offset` on, which are not those of an inline file.
    ///
    /// # Errors
    /// If the storage fails, the map is damaged, or, in [`ReadMode::Now`], the map is not in memory.
    pub fn run(&self, offset: u64, mode: ReadMode) -> io::Result<Run> {
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

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File")
            .field("inode", &self.inode.number())
            .finish_non_exhaustive()
    }
}
