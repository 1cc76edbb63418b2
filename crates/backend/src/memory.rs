//! Ciphertext in memory: for tests and for measuring everything but the disk.

use std::io;
use std::ops::Range;
use std::sync::{PoisonError, RwLock};

use crate::{Backend, BackendError, Durability, HeaderLock, Info, LockKind, Operation};

/// A store in memory. Nothing survives its drop, so flushing does nothing.
pub struct MemoryBackend {
    bytes: RwLock<Vec<u8>>,
}

impl MemoryBackend {
    /// A store that holds `bytes`.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        Self {
            bytes: RwLock::new(bytes),
        }
    }

    /// A copy of all it holds.
    #[must_use]
    pub fn contents(&self) -> Vec<u8> {
        self.bytes
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn modify(
        &self,
        offset: u64,
        len: usize,
        change: impl FnOnce(&mut [u8]),
    ) -> Result<(), BackendError> {
        let mut bytes = self.bytes.write().unwrap_or_else(PoisonError::into_inner);
        let len_bytes = bytes.len();
        let range = place(offset, len, len_bytes).ok_or_else(|| {
            let len = len as u64;
            past_end(Operation::Write { offset, len })
        })?;
        change(&mut bytes[range]);
        Ok(())
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
        let bytes = self.bytes.read().unwrap_or_else(PoisonError::into_inner);
        Info {
            size: bytes.len() as u64,
            read_only: false,
        }
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), BackendError> {
        let bytes = self.bytes.read().unwrap_or_else(PoisonError::into_inner);
        let range = place(offset, buffer.len(), bytes.len()).ok_or_else(|| {
            let len = buffer.len() as u64;
            past_end(Operation::Read { offset, len })
        })?;
        buffer.copy_from_slice(&bytes[range]);
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8], _: Durability) -> Result<(), BackendError> {
        self.modify(offset, data.len(), |bytes| bytes.copy_from_slice(data))
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
        self.modify(range.start, len, |bytes| bytes.fill(0))
    }

    fn lock_header(&self, _: LockKind) -> Result<HeaderLock, BackendError> {
        Ok(HeaderLock::unneeded())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
