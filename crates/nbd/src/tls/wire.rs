//! Buffers of TLS records on their way between a session and a socket.

use scrim_sys::memory::DataBuffer;

/// Most plaintext in a record, bytes.
pub const PLAINTEXT_MAX: usize = 16 << 10;

/// Most bytes that a record has beside its plaintext: header, explicit nonce, tag, content type.
const RECORD_OVERHEAD: usize = 64;

/// Space for records that are not data, such as an alert or an update of keys.
const SLACK: usize = 1024;

/// Receive buffer of a session, bytes: what one system call takes of a client's 128 KiB request, and
/// more than the longest handshake message (64 KiB).
pub const RECEIVE_BUFFER: usize = 160 << 10;

/// Send buffer of a session, bytes: four full records and some space for others, so that the other side decrypts
/// them while the next four are encrypted, and they stay in the cache until they are sent.
pub const SEND_BUFFER: usize = 4 * (PLAINTEXT_MAX + RECORD_OVERHEAD) + SLACK;

/// Received bytes that were not taken yet, or bytes that wait to be sent. They are decrypted in place, so the
/// memory is of the kind that plaintext has.
pub struct Wire {
    buffer: DataBuffer,
    start: usize,
    end: usize,
}

impl Wire {
    /// An empty buffer of [`RECEIVE_BUFFER`].
    #[must_use]
    pub fn to_receive() -> Self {
        Self::new(RECEIVE_BUFFER)
    }

    /// An empty buffer of [`SEND_BUFFER`].
    #[must_use]
    pub fn to_send() -> Self {
        Self::new(SEND_BUFFER)
    }

    pub(super) fn new(len: usize) -> Self {
        Self {
            buffer: DataBuffer::zeroed(len),
            start: 0,
            end: 0,
        }
    }

    /// Returns whether it holds nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Bytes in the buffer.
    #[must_use]
    pub fn filled(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    pub(super) fn filled_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[self.start..self.end]
    }

    /// Forgets the first `len` bytes, or all if it has fewer.
    pub fn consume(&mut self, len: usize) {
        self.start += len.min(self.end - self.start);
    }

    /// Free part of the buffer; empty when it is full. The filled part moves to the front once more than half
    /// of the buffer is used.
    pub fn spare(&mut self) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.start > 0 && self.end > self.buffer.len() / 2 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        &mut self.buffer[self.end..]
    }

    /// Counts the first `len` bytes of [`Wire::spare`] as filled.
    pub fn advance(&mut self, len: usize) {
        self.end += len.min(self.buffer.len() - self.end);
    }

    /// Bytes of plaintext, in full records, that fit in as ciphertext.
    pub(super) fn plaintext_capacity(&mut self) -> usize {
        let spare = self.spare().len().saturating_sub(SLACK);
        spare / (PLAINTEXT_MAX + RECORD_OVERHEAD) * PLAINTEXT_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_go_through_in_order_and_room_comes_back() {
        let mut wire = Wire::new(8);
        wire.spare()[..6].copy_from_slice(b"abcdef");
        wire.advance(6);
        wire.consume(4);
        assert_eq!(wire.filled(), b"ef");
        assert_eq!(wire.spare().len(), 6);
        wire.spare()[..6].copy_from_slice(b"ghijkl");
        wire.advance(100);
        assert_eq!(wire.filled(), b"efghijkl");
        assert!(wire.spare().is_empty());
        wire.consume(100);
        assert!(wire.is_empty());
        assert_eq!(wire.spare().len(), 8);
    }

    #[test]
    fn four_records_fit_the_send_buffer() {
        assert_eq!(Wire::to_send().plaintext_capacity(), 4 * PLAINTEXT_MAX);
    }
}
