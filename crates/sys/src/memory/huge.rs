//! A large slice on huge pages, for memory-hard key derivation.

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use rustix::mm::Advice;

use super::pages::{Lock, PAGE, Pages};

/// A slice of plain values on memory that the kernel is asked to back with huge pages: page faults
/// and TLB misses are most of what Argon2 with 1 GiB costs otherwise. Unlocked (it would not fit any
/// limit), undumpable, and returned to the kernel, which clears it, at the end.
pub struct HugeSlice<T> {
    values: NonNull<T>,
    len: usize,
    _pages: Pages,
}

// SAFETY: `HugeSlice<T>` owns its values as a `Box<[T]>` does.
unsafe impl<T: Send> Send for HugeSlice<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for HugeSlice<T> {}

/// Plain values that may be all zero bytes.
///
/// # Safety
/// A value of which every byte is zero must be valid, and dropping it must do nothing.
pub unsafe trait Zeroable: Copy {}

// SAFETY: every pattern of bits is a number.
unsafe impl Zeroable for u64 {}
// SAFETY: an array of valid values is valid, and has no padding of its own.
unsafe impl<T: Zeroable, const N: usize> Zeroable for [T; N] {}

impl<T: Zeroable> HugeSlice<T> {
    /// Returns `len` zeros, or `None` where the kernel does not have enough memory, or their size overflows.
    ///
    /// No page is touched: each is made, zeroed, when it is first written, by the thread that writes it.
    /// So the threads that share the slice share that work too.
    #[must_use]
    pub fn zeroed(len: usize) -> Option<Self> {
        const { assert!(align_of::<T>() <= PAGE) };
        let bytes = size_of::<T>().checked_mul(len)?;
        let pages = Pages::try_map(bytes, Lock::No)?;
        pages.advise(Advice::LinuxHugepage);
        Some(Self {
            // A new mapping is all zeros, page-aligned and ours alone.
            values: pages.start().cast(),
            len,
            _pages: pages,
        })
    }
}

impl<T> Deref for HugeSlice<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `zeroed` mapped `len` values, which are valid as zeros; they live as long as `self`.
        unsafe { std::slice::from_raw_parts(self.values.as_ptr(), self.len) }
    }
}

impl<T> DerefMut for HugeSlice<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as for `deref`, and `&mut self` is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.values.as_ptr(), self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_that_can_be_written() {
        let mut slice = HugeSlice::<[u64; 2]>::zeroed(100_000).unwrap();
        assert!(slice.iter().flatten().all(|word| *word == 0));
        slice[99_999] = [7, 8];
        assert_eq!(slice.iter().flatten().sum::<u64>(), 15);
    }

    #[test]
    fn what_cannot_be_had_is_none() {
        assert!(HugeSlice::<u64>::zeroed(usize::MAX).is_none());
        assert!(HugeSlice::<u64>::zeroed(usize::MAX / 16).is_none());
        assert!(HugeSlice::<u64>::zeroed(0).unwrap().is_empty());
    }
}
