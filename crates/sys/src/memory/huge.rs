//! A large slice on huge pages, for memory-hard key derivation.

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use rustix::mm::Advice;

use super::pages::{Lock, PAGE, Pages};

/// A slice of plain values on memory that the kernel is asked to back with huge pages: page faults
/// and TLB misses are most of what Argon2 with 1 GiB costs otherwise. Unlocked (it would not fit any
/// limit), undumpable, wiped at the end by returning it to the kernel.
pub struct HugeSlice<T> {
    values: NonNull<T>,
    len: usize,
    _pages: Pages,
}

// SAFETY: `HugeSlice<T>` owns its values as a `Box<[T]>` does.
unsafe impl<T: Send> Send for HugeSlice<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for HugeSlice<T> {}

impl<T: Copy> HugeSlice<T> {
    /// `len` copies of `value`, or `None` where their size overflows.
    #[must_use]
    pub fn filled(len: usize, value: T) -> Option<Self> {
        const { assert!(align_of::<T>() <= PAGE) };
        let bytes = size_of::<T>().checked_mul(len)?;
        let pages = Pages::map(bytes, Lock::No);
        pages.advise(Advice::LinuxHugepage);
        let values = pages.start().cast::<T>();
        for index in 0..len {
            // SAFETY: `index < len`, the mapping holds `len` values, is aligned and ours alone.
            unsafe { values.add(index).write(value) };
        }
        Some(Self {
            values,
            len,
            _pages: pages,
        })
    }
}

impl<T> Deref for HugeSlice<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `filled` wrote `len` valid values; they live as long as `self`.
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
    fn every_value_is_there() {
        let mut slice = HugeSlice::filled(100_000, 7u64).unwrap();
        slice[99_999] = 8;
        assert_eq!(slice.iter().sum::<u64>(), 7 * 99_999 + 8);
        assert!(HugeSlice::filled(usize::MAX, 0u64).is_none());
    }
}
