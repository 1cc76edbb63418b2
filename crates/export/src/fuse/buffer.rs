//! Memory of one request and its reply.

use scrim_fuse::wire::{IN_HEADER, OUT_HEADER, WRITE_IN};
use scrim_sys::memory::DataBuffer;

use super::limits::PAYLOAD;

/// The connection to the kernel has ended.
pub(super) struct Ended;

/// Memory of one request and its reply. Data begins at a page, in a write as in the reply to a read: so storage past the
/// page cache (`O_DIRECT`) takes it where it is.
pub(super) struct Buffer(DataBuffer);

impl Buffer {
    /// Place of data: a page, which is also the largest encryption sector.
    const DATA: usize = 4096;
    /// Place of a request. In front of a write's payload are two structures.
    const REQUEST: usize = Self::DATA - IN_HEADER - WRITE_IN;

    /// Returns `None` if there is not enough memory.
    pub(super) fn new() -> Option<Self> {
        DataBuffer::try_zeroed(Self::DATA + PAYLOAD).map(Self)
    }

    /// Memory into which a request is read.
    pub(super) fn free(&mut self) -> &mut [u8] {
        &mut self.0[Self::REQUEST..]
    }

    /// The request of `len` bytes that was read.
    pub(super) fn request(&mut self, len: usize) -> &mut [u8] {
        let end = Self::REQUEST + len.min(self.0.len() - Self::REQUEST);
        &mut self.0[Self::REQUEST..end]
    }

    /// Memory for the data of a reply.
    pub(super) fn data(&mut self) -> &mut [u8] {
        &mut self.0[Self::DATA..]
    }

    /// Memory for `size` bytes of data, if there is that much.
    pub(super) fn data_of(&mut self, size: u32) -> Option<&mut [u8]> {
        self.data().get_mut(..size as usize)
    }

    /// Puts the header before `len` bytes of data. The result is the whole reply.
    pub(super) fn reply(&mut self, header: &[u8; OUT_HEADER], len: usize) -> &[u8] {
        let start = Self::DATA - OUT_HEADER;
        let end = Self::DATA + len.min(self.0.len() - Self::DATA);
        self.0[start..Self::DATA].copy_from_slice(header);
        &self.0[start..end]
    }
}
