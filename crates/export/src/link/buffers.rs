//! The two buffers of a connection.

use scrim_sys::memory::DataBuffer;

use crate::limits;

/// Received bytes that no request has taken yet.
pub(crate) struct Inbox {
    buffer: DataBuffer,
    start: usize,
    end: usize,
}

impl Inbox {
    pub(super) fn new() -> Self {
        Self {
            buffer: DataBuffer::zeroed(limits::HANDSHAKE_BUFFER),
            start: 0,
            end: 0,
        }
    }

    /// Replaces the buffer by the one for requests; `None` if there is no memory for it.
    pub(super) fn widen(&mut self) -> Option<()> {
        let mut wide = DataBuffer::try_zeroed(limits::RECEIVE_BUFFER)?;
        let left = self.start..self.end;
        wide[..left.len()].copy_from_slice(&self.buffer[left.clone()]);
        (self.start, self.end) = (0, left.len());
        self.buffer = wide;
        Some(())
    }

    pub(crate) fn len(&self) -> usize {
        self.end - self.start
    }

    /// The first `N` bytes, if they are there.
    pub(crate) fn first<const N: usize>(&self) -> Option<&[u8; N]> {
        self.buffer[self.start..self.end].first_chunk()
    }

    /// Takes the first `len` bytes, at most as many as there are. They stay where they are until
    /// more is received.
    pub(crate) fn take(&mut self, len: usize) -> &mut [u8] {
        let taken = self.start..self.start + len.min(self.len());
        self.start = taken.end;
        &mut self.buffer[taken]
    }

    /// Moves what is left to the front if the buffer is more than half used or nothing is left, so that more can be
    /// received; returns the number of bytes moved, never more than part of one request.
    pub(crate) fn compact(&mut self) -> usize {
        let left = self.len();
        let used_up = self.end > self.buffer.len() / 2;
        if left > 0 && !used_up {
            return 0;
        }
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, left);
        left
    }

    /// Free part of the buffer, into which the next bytes are received.
    pub(crate) fn spare(&mut self) -> &mut [u8] {
        &mut self.buffer[self.end..]
    }

    pub(crate) fn received(&mut self, len: usize) {
        self.end += len;
    }
}

/// Replies that are ready to be sent.
pub(crate) struct Outbox {
    buffer: DataBuffer,
    /// Number of bytes that have been sent.
    pub(super) sent: usize,
    len: usize,
    /// True if it has more memory than [`limits::SEND_BUFFER`], for what is in it now.
    pub(super) has_grown: bool,
}

impl Outbox {
    pub(super) fn new() -> Self {
        Self {
            buffer: DataBuffer::zeroed(limits::HANDSHAKE_BUFFER),
            sent: 0,
            len: 0,
            has_grown: false,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn capacity(&self) -> usize {
        self.buffer.len()
    }

    /// Replaces the buffer, which is empty, by one of `len` bytes; `None` if there is no memory for it.
    pub(super) fn widen(&mut self, len: usize) -> Option<()> {
        self.buffer = DataBuffer::try_zeroed(len)?;
        self.clear();
        Some(())
    }

    /// Makes the buffer larger if `len` more bytes do not fit it; `None` if there is no memory for that.
    pub(super) fn grow(&mut self, len: usize) -> Option<()> {
        if self.spare().len() >= len {
            return Some(());
        }
        let due = self.filled().len();
        let mut larger = DataBuffer::try_zeroed(due + len)?;
        larger[..due].copy_from_slice(self.filled());
        self.buffer = larger;
        (self.sent, self.len) = (0, due);
        self.has_grown = true;
        Some(())
    }

    /// Gives back the memory that it has grown by. It is empty.
    pub(super) fn shrink(&mut self) {
        if std::mem::take(&mut self.has_grown) {
            // Without memory for another one it stays as it is.
            let _ = self.widen(limits::SEND_BUFFER);
        }
    }

    /// The part that is still free.
    pub(crate) fn spare(&mut self) -> &mut [u8] {
        &mut self.buffer[self.len..]
    }

    /// Counts the first `len` bytes of [`Outbox::spare`] as filled.
    pub(crate) fn advance(&mut self, len: usize) {
        self.len += len.min(self.buffer.len() - self.len);
    }

    /// Appends `bytes`, which fit the spare part.
    pub(crate) fn put(&mut self, bytes: &[u8]) {
        self.spare()[..bytes.len()].copy_from_slice(bytes);
        self.advance(bytes.len());
    }

    pub(super) fn filled(&self) -> &[u8] {
        &self.buffer[self.sent..self.len]
    }

    pub(super) fn clear(&mut self) {
        (self.sent, self.len) = (0, 0);
    }
}
