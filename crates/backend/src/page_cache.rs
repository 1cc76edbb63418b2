//! Pages of a file in the page cache, used in place.
//!
//! A read by a system call copies the bytes, and a reader that only decrypts them has no use for the copy, which
//! costs as much as decrypting. So the file is mapped, in windows, and a page is touched only after the kernel has
//! said that it is in memory: no thread waits for a disk in the middle of other work.

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rustix::io::{Errno, ReadWriteFlags};
use scrim_sys::file_system::FileSystem;
use scrim_sys::memory::{MappedBytes, MappedFile};

/// Bytes of a window.
const WINDOW: u64 = 1 << 30;
/// Most windows of a file at a time. The kernel's page tables for one take at most 2 MiB.
const WINDOWS: usize = 16;

/// Windows of one file.
pub struct PageCache {
    /// True if the file can be read in this way.
    suits: OnceLock<bool>,
    /// Windows, each at its number modulo `WINDOWS`.
    windows: Box<[Mutex<Option<Window>>; WINDOWS]>,
    has_failed: AtomicBool,
}

struct Window {
    /// Number of windows before it in the file.
    number: u64,
    map: Arc<MappedFile>,
}

/// Bytes of a file that were in memory when it was asked.
pub struct Cached {
    map: Arc<MappedFile>,
    /// Offset in the window.
    at: usize,
    len: usize,
}

impl PageCache {
    pub(crate) fn new() -> Self {
        Self {
            suits: OnceLock::new(),
            windows: Box::default(),
            has_failed: AtomicBool::new(false),
        }
    }

    /// Returns the bytes from `offset` on that are in memory; `None` if there are none, or this file cannot be
    /// read in this way.
    pub(crate) fn now(&self, file: BorrowedFd<'_>, offset: u64, len: usize) -> Option<Cached> {
        let has_failed = self.has_failed.load(Ordering::Relaxed);
        if has_failed || !self.suits.get_or_init(|| suits(file).unwrap_or(false)) {
            return None;
        }
        let map = self.window(file, offset / WINDOW)?;
        let at = usize::try_from(offset % WINDOW).ok()?;
        let len = len.min(usize::try_from(WINDOW - offset % WINDOW).ok()?);
        let len = map.in_memory(at, len).ok()?;
        (len > 0).then_some(Cached { map, at, len })
    }

    fn window(&self, file: BorrowedFd<'_>, number: u64) -> Option<Arc<MappedFile>> {
        let place = usize::try_from(number % WINDOWS as u64).unwrap_or(0);
        let mut place = self.windows[place]
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let known = place.as_ref().filter(|window| window.number == number);
        if let Some(window) = known {
            // From then on the file is read by system calls, which report errors.
            let has_failed = window.map.has_failed();
            self.has_failed.fetch_or(has_failed, Ordering::Relaxed);
            return (!has_failed).then(|| Arc::clone(&window.map));
        }
        let len = usize::try_from(WINDOW).ok()?;
        let map = Arc::new(MappedFile::new(file, number * WINDOW, len).ok()?);
        let kept = Arc::clone(&map);
        *place = Some(Window { number, map: kept });
        Some(map)
    }
}

/// Checks whether the kernel reports correctly which pages of a file are in memory, and whether those pages are
/// current: on NFS or FUSE a mapping may be out of date, and a page that was dropped meanwhile takes long to fetch.
/// Such file systems do not support reads that must not wait (`RWF_NOWAIT`), and nor did tmpfs (preadv2(2)).
fn suits(file: BorrowedFd<'_>) -> io::Result<bool> {
    let mut byte = [0];
    let place = &mut [io::IoSliceMut::new(&mut byte)];
    let is_near = match rustix::io::preadv2(file, place, 0, ReadWriteFlags::NOWAIT) {
        Err(Errno::OPNOTSUPP) => FileSystem::of(file)?.is_tmpfs,
        Ok(_) | Err(Errno::AGAIN) => true,
        Err(_) => false,
    };
    Ok(is_near && MappedFile::is_told(file)?)
}

impl Cached {
    /// Returns the number of bytes.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "there is at least one")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns `len` of them, from byte `at` on. Results made of them count only after [`Cached::check`].
    ///
    /// # Panics
    /// When there are fewer bytes from `at` on.
    #[must_use]
    pub fn bytes(&self, at: usize, len: usize) -> MappedBytes<'_> {
        let end = at.checked_add(len);
        assert!(
            end.is_some_and(|end| end <= self.len),
            "beyond what is in memory"
        );
        self.map.bytes(self.at + at, len)
    }

    /// Checks whether the bytes read so far are those of the file.
    ///
    /// # Errors
    /// When its storage failed, or it was cut short, since it was asked. From then on it is read by calls.
    pub fn check(&self) -> io::Result<()> {
        if self.map.has(self.at, self.len) {
            return Ok(());
        }
        self.map.give_up();
        Err(io::Error::other(
            "its storage failed, or it was cut short, while it was read",
        ))
    }
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
        let now = |at| cache.now(file.as_fd(), at, 4096).unwrap();
        assert!(Arc::ptr_eq(&kept.map, &now(WINDOW + 4096).map));
        let (_other, again) = (now(size - 10_000), now(WINDOW));
        assert!(!Arc::ptr_eq(&kept.map, &again.map));
        assert_eq!(kept.bytes(4000, 96).len(), 96);
        assert!(kept.check().is_ok());
    }

    #[test]
    fn nothing_behind_the_end_of_a_file_that_was_cut_short_counts() {
        let (file, size) = file();
        let cache = PageCache::new();
        let now = |at: u64, len| cache.now(file.as_fd(), at, len);
        let cut = now(size - 10_000, 10_000).unwrap();
        file.set_len(size - 9_999).unwrap();
        assert!(cut.check().is_err());
        assert!(now(size - 10_000, 1).is_none(), "calls tell what is there");
    }
}
