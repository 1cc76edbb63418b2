//! Data of a write that is received before any of it is written.

use scrim_sys::memory::DataBuffer;

/// A buffer for one piece of a write, and the part of it that has been received.
pub(super) struct Gathered {
    pub(super) buffer: DataBuffer,
    /// Number of bytes received.
    pub(super) len: usize,
}

impl Gathered {
    /// Allocates the buffer of pieces of at most `longest` bytes; `None` if there is no memory for it.
    pub(super) fn allocate(longest: usize) -> Option<Self> {
        Some(Self {
            buffer: DataBuffer::try_zeroed(longest)?,
            len: 0,
        })
    }

    /// Appends `data`, as much as fits.
    pub(super) fn put(&mut self, data: &[u8]) {
        let free = &mut self.buffer[self.len..];
        let len = data.len().min(free.len());
        free[..len].copy_from_slice(&data[..len]);
        self.len += len;
    }

    /// Returns what has been received.
    pub(super) fn filled(&mut self) -> &mut [u8] {
        &mut self.buffer[..self.len]
    }
}
