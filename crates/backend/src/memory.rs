//! Ciphertext in memory: for tests and for measuring everything but the disk.

use std::io;
use std::ops::Range;
use std::sync::{PoisonError, RwLock};

use crate::{Backend, BackendError, Durability, HeaderLock, Info, LockKind, Operation};

/// Bytes under one lock: writers of different chunks do not wait for each other.
const CHUNK: usize = 128 << 10;

/// A store in memory. Nothing survives its drop, so flushing does nothing.
pub struct MemoryBackend {
    /// Chunks, all of [`CHUNK`] bytes but the last.
    chunks: Vec<RwLock<Box<[u8]>>>,
    len: usize,
}

impl MemoryBackend {
    /// A store that holds `bytes`.
    #[must_use]
    #[expect(
        clippy::needless_pass_by_value,
        reason = "it becomes the store, and nobody is to have it twice"
    )]
    pub fn new(bytes: Vec<u8>) -> Self {
        let chunks = bytes.chunks(CHUNK).map(|chunk| RwLock::new(chunk.into()));
        Self {
            chunks: chunks.collect(),
            len: bytes.len(),
        }
    }

    /// A copy of all it holds.
    #[must_use]
    pub fn contents(&self) -> Vec<u8> {
        let mut contents = Vec::with_capacity(self.len);
        for chunk in &self.chunks {
            let chunk = chunk.read().unwrap_or_else(PoisonError::into_inner);
            contents.extend_from_slice(&chunk);
        }
        contents
    }

    /// Calls `change` for each part of the range, with where in the range it begins.
    fn modify(
        &self,
        offset: u64,
        len: usize,
        mut change: impl FnMut(&mut [u8], usize),
    ) -> Result<(), BackendError> {
        let range = place(offset, len, self.len).ok_or_else(|| {
            let len = len as u64;
            past_end(Operation::Write { offset, len })
        })?;
        for (chunk, part, done) in self.parts(range) {
            let mut chunk = chunk.write().unwrap_or_else(PoisonError::into_inner);
            change(&mut chunk[part], done);
        }
        Ok(())
    }

    /// The chunks that a range touches, each with the part of it and with how much of the range lies before.
    fn parts(
        &self,
        range: Range<usize>,
    ) -> impl Iterator<Item = (&RwLock<Box<[u8]>>, Range<usize>, usize)> {
        let first = (range.start / CHUNK).min(self.chunks.len());
        let chunks = self.chunks[first..].iter().enumerate();
        let starting = chunks.map(move |(index, chunk)| ((first + index) * CHUNK, chunk));
        let touched = starting.take_while(move |(start, _)| *start < range.end);
        touched.map(move |(start, chunk)| {
            let from = range.start.max(start);
            let to = range.end.min(start + CHUNK);
            (chunk, from - start..to - start, from - range.start)
        })
    }
}

fn place(offset: u64, len: usize, size: usize) -> Option<Range<usize>> {
    let start = usize::try_from(offset).ok()?;
    let end = start.checked_add(len)?;
    (end <= size).then_some(start..end)
}

fn past_end(operation: Operation) -> BackendError {
    BackendError::new(operation, "memory", io::ErrorKind::UnexpectedEof)
}

impl Backend for MemoryBackend {
    fn info(&self) -> Info {
        Info {
            size: self.len as u64,
            read_only: false,
        }
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), BackendError> {
        let range = place(offset, buffer.len(), self.len).ok_or_else(|| {
            let len = buffer.len() as u64;
            past_end(Operation::Read { offset, len })
        })?;
        for (chunk, part, done) in self.parts(range) {
            let chunk = chunk.read().unwrap_or_else(PoisonError::into_inner);
            buffer[done..done + part.len()].copy_from_slice(&chunk[part]);
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8], _: Durability) -> Result<(), BackendError> {
        self.modify(offset, data.len(), |part, done| {
            part.copy_from_slice(&data[done..done + part.len()]);
        })
    }

    fn flush(&self) -> Result<(), BackendError> {
        Ok(())
    }

    fn discard(&self, range: Range<u64>) -> Result<(), BackendError> {
        self.write_zeroes(range, Durability::Cached)
    }

    fn write_zeroes(&self, range: Range<u64>, _: Durability) -> Result<(), BackendError> {
        let Ok(len) = usize::try_from(range.end.saturating_sub(range.start)) else {
            return Err(past_end(Operation::Write {
                offset: range.start,
                len: u64::MAX,
            }));
        };
        self.modify(range.start, len, |part, _| part.fill(0))
    }

    fn lock_header(&self, _: LockKind) -> Result<HeaderLock, BackendError> {
        Ok(HeaderLock::unneeded())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_over_several_chunks_are_whole() {
        let bytes: Vec<u8> = (0..=250).cycle().take(2 * CHUNK + 700).collect();
        let memory = MemoryBackend::new(bytes.clone());
        let mut read = vec![0; CHUNK + 600];
        memory.read_at(CHUNK as u64 - 100, &mut read).unwrap();
        assert!(read == bytes[CHUNK - 100..][..read.len()]);
        read.reverse();
        let at = CHUNK as u64 - 7;
        memory.write_at(at, &read, Durability::Cached).unwrap();
        let mut wanted = bytes;
        wanted[CHUNK - 7..][..read.len()].copy_from_slice(&read);
        assert!(memory.contents() == wanted);
        memory.read_at(memory.info().size, &mut []).unwrap();
    }

    #[test]
    fn it_keeps_what_was_written_and_refuses_what_passes_the_end() {
        let memory = MemoryBackend::new(vec![0; 1024]);
        memory
            .write_at(512, &[7; 512], Durability::Durable)
            .unwrap();
        let mut read = [0; 512];
        memory.read_at(512, &mut read).unwrap();
        assert_eq!(read, [7; 512]);
        memory.write_zeroes(1000..1024, Durability::Cached).unwrap();
        assert!(memory.contents().ends_with(&[0; 24]));
        assert!(memory.read_at(513, &mut read).is_err());
        assert!(memory.write_at(u64::MAX, &[1], Durability::Cached).is_err());
        assert!(
            memory
                .write_zeroes(0..u64::MAX, Durability::Cached)
                .is_err()
        );
    }
}
