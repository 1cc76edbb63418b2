//! Sources that others may change.

use std::marker::PhantomData;
use std::ptr;

use scrim_sys::memory::MappedBytes;

/// Bytes in memory that others may change at any moment: memory shared with another process or a
/// guest, a file that is mapped. A Rust reference would promise that such bytes do not change, so this is
/// an address and a length.
///
/// [`Vectored::encrypt_from_shared`](crate::vectored::Vectored::encrypt_from_shared) reads each byte *once*: whatever
/// others write meanwhile, the result is the ciphertext of one value of each byte, and decrypts to it.
#[derive(Clone, Copy)]
pub struct SharedSource<'a> {
    start: *const u8,
    len: usize,
    memory: PhantomData<&'a ()>,
}

// SAFETY: it only reads, and `new` asks for memory that may be read whatever else uses it.
unsafe impl Send for SharedSource<'_> {}
// SAFETY: as above.
unsafe impl Sync for SharedSource<'_> {}

impl<'a> SharedSource<'a> {
    /// The `len` bytes at `start`, which needs no alignment.
    ///
    /// # Safety
    /// For all of `'a`:
    /// - the bytes can be read, and `len` is at most `isize::MAX`;
    /// - no reference of this process (`&[u8]`, `&mut [u8]`) to any of them is used. That includes
    ///   destinations: they never overlap a shared source.
    ///
    /// Others may write to the bytes at any time: another process, a guest, a device, or threads of
    /// this process through atomic or volatile writes. If a byte changes while it is read, the
    /// old or the new value is seen, and of several bytes any mixture.
    #[must_use]
    pub const unsafe fn new(start: *const u8, len: usize) -> Self {
        Self {
            start,
            len,
            memory: PhantomData,
        }
    }

    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no bytes.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Address of the first byte.
    #[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
    pub(super) fn start(self) -> *const u8 {
        self.start
    }

    /// `len` of the bytes, from byte `at` on.
    ///
    /// # Panics
    /// When the source is shorter than `at + len`.
    pub(crate) fn part(self, at: usize, len: usize) -> Self {
        let left = self.len.checked_sub(at);
        assert!(
            left.is_some_and(|left| len <= left),
            "{len} bytes from {at} on, of {}",
            self.len
        );
        Self {
            // SAFETY: `at` is within the bytes or one past them.
            start: unsafe { self.start.add(at) },
            len,
            memory: PhantomData,
        }
    }

    /// Copies all bytes, reading each once.
    ///
    /// # Panics
    /// When `destination` has another length.
    pub(crate) fn copy_to(self, destination: &mut [u8]) {
        assert!(
            self.len == destination.len(),
            "a source of {} bytes for a destination of {}",
            self.len,
            destination.len()
        );
        let (head, rest) = self.split(self.start.align_offset(WORD).min(self.len));
        let (words, tail) = rest.split(rest.len / WORD * WORD);
        let (to_head, rest) = destination.split_at_mut(head.len);
        let (to_words, to_tail) = rest.as_chunks_mut();
        head.copy_bytes(to_head);
        words.copy_words(to_words);
        tail.copy_bytes(to_tail);
    }

    fn split(self, at: usize) -> (Self, Self) {
        (self.part(0, at), self.part(at, self.len - at))
    }

    /// `destination` is as long as `self`.
    fn copy_bytes(self, destination: &mut [u8]) {
        for (at, byte) in destination[..self.len].iter_mut().enumerate() {
            // SAFETY: `at` is less than `len`. Being volatile, it is one access.
            *byte = unsafe { ptr::read_volatile(self.start.add(at)) };
        }
    }

    /// `self` is aligned to a word, and `destination` as long as it.
    fn copy_words(self, destination: &mut [[u8; WORD]]) {
        let start: *const u64 = self.start.cast();
        for (at, word) in destination[..self.len / WORD].iter_mut().enumerate() {
            // SAFETY: word `at` lies within `len` bytes, and `start` is aligned. Being volatile, it
            // is one access.
            *word = unsafe { ptr::read_volatile(start.add(at)) }.to_ne_bytes();
        }
    }
}

impl<'a> From<MappedBytes<'a>> for SharedSource<'a> {
    fn from(bytes: MappedBytes<'a>) -> Self {
        // SAFETY: that they can be read for `'a`, and are never referred to, is what they are; no mapping is
        // longer than `isize::MAX`.
        unsafe { Self::new(bytes.start(), bytes.len()) }
    }
}

const WORD: usize = size_of::<u64>();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_every_length_and_alignment() {
        let bytes: Vec<u8> = (0..40).collect();
        for at in 0..WORD {
            for len in 0..=bytes.len() - at {
                // SAFETY: nobody writes to `bytes`.
                let source = unsafe { SharedSource::new(bytes.as_ptr(), bytes.len()) };
                let mut copy = vec![0xff; len];
                source.part(at, len).copy_to(&mut copy);
                assert_eq!(copy, bytes[at..at + len]);
                assert_eq!(source.part(at, len).is_empty(), len == 0);
            }
        }
    }

    #[test]
    #[should_panic(expected = "2 bytes from 3 on, of 4")]
    fn parts_lie_within() {
        // SAFETY: nobody writes to the constant.
        let source = unsafe { SharedSource::new([0; 4].as_ptr(), 4) };
        let _ = source.part(3, 2);
    }
}
