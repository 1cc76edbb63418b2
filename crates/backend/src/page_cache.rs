//! What the page cache has of a file, to be used where it lies.
//!
//! A read of it by a call is a copy, of which who decrypts has no use: the copy costs as much as decrypting.
//! So the file is mapped, in windows, and never touched before the kernel has said that the pages are there:
//! nobody waits for a disk in the middle of something else.

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use scrim_sys::memory::{MappedBytes, MappedFile};

/// Bytes of a window.
const WINDOW: u64 = 1 << 30;
/// Windows of a file at a time. What the kernel needs to know where their pages are is at most 2 MiB for each.
const WINDOWS: usize = 16;

/// Windows of one file.
pub struct PageCache {
    /// Each at the place that its number has in a circle.
    windows: Box<[Mutex<Option<Window>>; WINDOWS]>,
    is_usable: AtomicBool,
}

struct Window {
    /// How many are before it in the file.
    number: u64,
    map: Arc<MappedFile>,
}

/// Bytes of a file that were in memory when it was asked.
#[derive(Clone)]
pub struct Cached {
    map: Arc<MappedFile>,
    /// Where in the window.
    at: usize,
    len: usize,
}

impl PageCache {
    pub(crate) fn new() -> Self {
        Self {
            windows: Box::default(),
            is_usable: AtomicBool::new(true),
        }
    }

    /// As many of the bytes from `offset` on as are in memory; `None` where there are none, or this file cannot
    /// be read so.
    pub(crate) fn now(&self, file: BorrowedFd<'_>, offset: u64, len: usize) -> Option<Cached> {
        if !self.is_usable.load(Ordering::Relaxed) {
            return None;
        }
        let window = self.window(file, offset / WINDOW);
        let map = window.inspect_err(|_| self.give_up()).ok()?;
        let at = usize::try_from(offset % WINDOW).ok()?;
        let len = len.min(usize::try_from(WINDOW - offset % WINDOW).ok()?);
        let len = map.in_memory(at, len).ok()?;
        (len > 0).then_some(Cached { map, at, len })
    }

    fn window(&self, file: BorrowedFd<'_>, number: u64) -> io::Result<Arc<MappedFile>> {
        let place = usize::try_from(number % WINDOWS as u64).unwrap_or(0);
        let place = &self.windows[place];
        let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
        let known = place.as_ref().filter(|window| window.number == number);
        if let Some(window) = known {
            return match window.map.has_failed() {
                false => Ok(Arc::clone(&window.map)),
                true => Err(failed()),
            };
        }
        let len = usize::try_from(WINDOW).unwrap_or(usize::MAX);
        let map = Arc::new(MappedFile::new(file, number * WINDOW, len)?);
        let kept = Arc::clone(&map);
        *place = Some(Window { number, map: kept });
        Ok(map)
    }

    /// From now on the file is read by calls, which say what is wrong if something is.
    fn give_up(&self) {
        self.is_usable.store(false, Ordering::Relaxed);
        for place in self.windows.iter() {
            *place.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }
}

impl Cached {
    /// How many bytes.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "there is at least one")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// `len` of them, from byte `at` on. What was made of them counts after [`Cached::check`] only.
    ///
    /// # Panics
    /// When there are not so many.
    #[must_use]
    pub fn bytes(&self, at: usize, len: usize) -> MappedBytes<'_> {
        assert!(at + len <= self.len, "beyond what is in memory");
        self.map.bytes(self.at + at, len)
    }

    /// Whether what was read so far is what the file has.
    ///
    /// # Errors
    /// When its storage failed, or it was cut short, since it was asked.
    pub fn check(&self) -> io::Result<()> {
        match self.map.has_failed() {
            false => Ok(()),
            true => Err(failed()),
        }
    }
}

fn failed() -> io::Error {
    io::Error::other("its storage failed, or it was cut short, while it was read")
}

impl fmt::Debug for PageCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageCache").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileExt;

    use super::*;

    /// A file with holes that ends shortly after the beginning of a window, one round later.
    fn file() -> (File, u64) {
        let file = tempfile::tempfile().unwrap();
        let size = (WINDOWS as u64 + 1) * WINDOW + 10_000;
        file.set_len(size).unwrap();
        for at in [0, WINDOW - 4096, WINDOW, size - 10_000] {
            let byte = u8::try_from(at % 251).unwrap();
            file.write_all_at(&[byte; 10_000], at).unwrap();
        }
        (file, size)
    }

    #[test]
    fn what_is_in_memory_is_found_in_any_window() {
        let (file, size) = file();
        let cache = PageCache::new();
        let now = |at: u64, len| cache.now(file.as_fd(), at, len).map(|found| found.len());
        for _ in 0..2 {
            assert_eq!(now(0, 4096), Some(4096));
            // It ends with the window.
            assert_eq!(now(WINDOW - 512, 4096), Some(512));
            assert_eq!(now(WINDOW, 4096), Some(4096));
            // In the place of the second window.
            assert_eq!(now(size - 10_000, 8192), Some(8192));
            assert_eq!(now(WINDOW / 2, 4096), None, "a hole");
            assert_eq!(now(size + 4096, 4096), None, "behind its end");
        }
    }

    #[test]
    fn who_has_bytes_keeps_them_while_windows_come_and_go() {
        let (file, size) = file();
        let cache = PageCache::new();
        let kept = cache.now(file.as_fd(), WINDOW, 4096).unwrap();
        let other = cache.now(file.as_fd(), size - 10_000, 4096).unwrap();
        let again = cache.now(file.as_fd(), WINDOW, 4096).unwrap();
        assert!(Arc::ptr_eq(&other.map, &other.map) && !Arc::ptr_eq(&kept.map, &again.map));
        assert_eq!(kept.bytes(4000, 96).len(), 96);
        assert!(kept.check().is_ok());
    }

    #[test]
    fn nobody_who_cannot_be_told_is_told_anything() {
        let (file, _) = file();
        let cache = PageCache::new();
        cache.give_up();
        assert!(cache.now(file.as_fd(), 0, 4096).is_none());
    }
}
