//! Secrets and data buffers on [`Pages`] of their own.

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use zeroize::Zeroize;

use super::pages::{Lock, PAGE, Pages};

/// A byte string in locked, undumpable memory of its own, wiped when dropped.
///
/// It has no `Debug`, `Clone` or `Display`: looking at it is the named act [`SecretBytes::expose`].
/// It starts on a page boundary.
pub struct SecretBytes {
    pages: Pages,
    len: usize,
}

impl SecretBytes {
    /// Returns `len` zero bytes.
    #[must_use]
    pub fn zeroed(len: usize) -> Self {
        Self {
            pages: Pages::map(len, Lock::Secret),
            len,
        }
    }

    /// Returns a copy of `bytes`; the caller wipes the original.
    #[must_use]
    pub fn copied_from(bytes: &[u8]) -> Self {
        let mut secret = Self::zeroed(bytes.len());
        secret.expose_mut().copy_from_slice(bytes);
        secret
    }

    /// Returns the secret itself.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        self.pages.bytes(self.len)
    }

    /// Returns the secret itself, to write.
    pub fn expose_mut(&mut self) -> &mut [u8] {
        self.pages.bytes_mut(self.len)
    }

    /// Returns the length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether it holds no byte at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// As [`SecretBytes::zeroed`], or `None` if there is not enough memory: for lengths that others choose.
    #[must_use]
    pub fn try_zeroed(len: usize) -> Option<Self> {
        let pages = Pages::try_map(len, Lock::Secret)?;
        Some(Self { pages, len })
    }

    /// Shortens to `len` bytes and wipes what is cut off; a larger `len` changes nothing.
    pub fn truncate(&mut self, len: usize) {
        if len < self.len {
            self.expose_mut()[len..].zeroize();
            self.len = len;
        }
    }
}

impl Drop for SecretBytes {
    fn drop(&mut self) {
        self.expose_mut().zeroize();
    }
}

/// One value, such as an expanded key, in locked and undumpable memory of its own; dropped, and its
/// memory wiped, at the end.
pub struct Locked<T> {
    value: NonNull<T>,
    pages: Pages,
}

// SAFETY: `Locked<T>` owns its `T` as a `Box<T>` does.
unsafe impl<T: Send> Send for Locked<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Locked<T> {}

impl<T> Locked<T> {
    /// Moves what `make` returns into locked memory. The compiler may leave a copy on the stack on
    /// the way: values that matter are small, and are filled in place where the type allows it.
    #[must_use]
    pub fn new(make: impl FnOnce() -> T) -> Self {
        const { assert!(align_of::<T>() <= PAGE) };
        let pages = Pages::map(size_of::<T>(), Lock::Secret);
        let value = pages.start().cast::<T>();
        // SAFETY: the mapping is large enough, page-aligned (more than `T` asks for), writable and
        // ours alone.
        unsafe { value.write(make()) };
        Self { value, pages }
    }
}

impl<T> Deref for Locked<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: `new` wrote a valid `T`; it lives as long as `self`.
        unsafe { self.value.as_ref() }
    }
}

impl<T> DerefMut for Locked<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as for `deref`, and `&mut self` is exclusive.
        unsafe { self.value.as_mut() }
    }
}

impl<T> Drop for Locked<T> {
    fn drop(&mut self) {
        // SAFETY: the value is valid, and is not used after this.
        unsafe { self.value.drop_in_place() };
        self.pages.bytes_mut(size_of::<T>()).zeroize();
    }
}

/// A page-aligned buffer for data in flight: left out of core dumps, and locked against swap while
/// `RLIMIT_MEMLOCK` allows more than secrets need.
pub struct DataBuffer {
    pages: Pages,
    len: usize,
}

impl DataBuffer {
    /// Returns `len` zero bytes.
    #[must_use]
    pub fn zeroed(len: usize) -> Self {
        Self {
            pages: Pages::map(len, Lock::IfSpare),
            len,
        }
    }

    /// As [`DataBuffer::zeroed`], or `None` if there is not enough memory: for lengths that others choose.
    #[must_use]
    pub fn try_zeroed(len: usize) -> Option<Self> {
        let pages = Pages::try_map(len, Lock::IfSpare)?;
        Some(Self { pages, len })
    }
}

impl Deref for DataBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.pages.bytes(self.len)
    }
}

impl DerefMut for DataBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.pages.bytes_mut(self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Locking, locking};

    #[test]
    fn a_secret_holds_its_bytes_and_starts_on_a_page() {
        let secret = SecretBytes::copied_from(b"correct horse");
        assert_eq!(secret.expose(), b"correct horse");
        assert_eq!(secret.expose().as_ptr() as usize % PAGE, 0);
        assert_eq!(locking(), Locking::Complete);
    }

    #[test]
    fn truncating_wipes_the_tail() {
        let mut secret = SecretBytes::copied_from(b"abcdef");
        secret.truncate(2);
        assert_eq!(secret.expose(), b"ab");
        assert_eq!(secret.pages.bytes(6), b"ab\0\0\0\0");
        secret.truncate(100);
        assert_eq!(secret.len(), 2);
    }

    #[test]
    fn an_empty_secret_is_fine() {
        assert!(SecretBytes::zeroed(0).is_empty());
    }

    #[test]
    fn locked_values_are_dropped_once_and_in_place() {
        struct Counts<'a>(&'a std::cell::Cell<u32>);
        impl Drop for Counts<'_> {
            fn drop(&mut self) {
                self.0.set(self.0.get() + 1);
            }
        }
        let drops = std::cell::Cell::new(0);
        let locked = Locked::new(|| Counts(&drops));
        assert_eq!(drops.get(), 0);
        drop(locked);
        assert_eq!(drops.get(), 1);
    }

    /// The kernel's own account of the flags of our mappings: locked (`lo`) and not dumped (`dd`).
    #[test]
    fn the_kernel_confirms_locked_and_undumpable() {
        let secret = SecretBytes::copied_from(b"x");
        let address = secret.expose().as_ptr() as usize;
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut inside = false;
        for line in smaps.lines() {
            let mut words = line.split_ascii_whitespace();
            let first = words.next().unwrap_or_default();
            if let Some((low, high)) = first.split_once('-')
                && let (Ok(low), Ok(high)) = (
                    usize::from_str_radix(low, 16),
                    usize::from_str_radix(high, 16),
                )
            {
                inside = (low..high).contains(&address);
            } else if inside && first == "VmFlags:" {
                let flags: Vec<_> = words.collect();
                assert!(flags.contains(&"dd"), "{flags:?}");
                assert!(flags.contains(&"lo"), "{flags:?}");
                return;
            }
        }
        panic!("the mapping is not in smaps");
    }
}
