//! Whole anonymous pages, owned: the one place that maps, locks and unmaps.

use std::alloc::{Layout, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags};
use rustix::process::{Resource, getrlimit};

/// The smallest page size of any processor, in bytes: every mapping begins at a multiple of it.
pub(crate) const PAGE: usize = 4096;

/// Part of the memory-lock limit that data buffers leave alone, so that keys always fit, in bytes.
const RESERVED_FOR_SECRETS: usize = 1 << 20;

static LOCKED: AtomicUsize = AtomicUsize::new(0);
static SECRET_LEFT_UNLOCKED: AtomicBool = AtomicBool::new(false);

/// Result of locking secrets in memory, for the whole process so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Locking {
    /// Every secret so far is locked in memory.
    Complete,
    /// At least one secret could not be locked (`RLIMIT_MEMLOCK` is too low).
    Incomplete,
}

/// Tells whether every secret made so far could be locked in memory.
#[must_use]
pub fn locking() -> Locking {
    if SECRET_LEFT_UNLOCKED.load(Ordering::Relaxed) {
        Locking::Incomplete
    } else {
        Locking::Complete
    }
}

/// Effort made to keep pages out of swap.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Lock {
    /// Always try; a failure is remembered for [`locking`].
    Secret,
    /// Only while the limit leaves enough for secrets.
    IfSpare,
    /// The pages may be swapped out.
    No,
}

/// Anonymous, private, zeroed pages, left out of core dumps.
pub(crate) struct Pages {
    start: NonNull<u8>,
    bytes: usize,
    locked: bool,
}

// SAFETY: `Pages` owns its mapping alone, and hands out access only through `&self` / `&mut self`.
unsafe impl Send for Pages {}
// SAFETY: as above; shared access through `&Pages` only reads.
unsafe impl Sync for Pages {}

impl Pages {
    /// Maps at least `len` bytes. Running out of address space ends the process, as it does for
    /// any allocation: callers check sizes that a user or a disk can choose beforehand.
    pub(super) fn map(len: usize, lock: Lock) -> Self {
        Self::try_map(len, lock).unwrap_or_else(|| out_of_memory(len))
    }

    /// As [`map`](Self::map), but `None` if there is not enough memory.
    pub(super) fn try_map(len: usize, lock: Lock) -> Option<Self> {
        let bytes = len.max(1).checked_next_multiple_of(page_size())?;
        // SAFETY: a new private anonymous mapping at an address of the kernel's choice aliases
        // nothing.
        let mapped = unsafe {
            rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )
        };
        let mut pages = Self {
            start: NonNull::new(mapped.ok()?.cast())?,
            bytes,
            locked: false,
        };
        // Core dumps are also switched off for the process; where the kernel is too old for this
        // advice, that remains.
        pages.advise(Advice::LinuxDontDump);
        pages.lock(lock);
        Some(pages)
    }

    /// At least `len` bytes for data in flight, or `None` if there is not enough memory.
    pub(crate) fn for_data(len: usize) -> Option<Self> {
        Self::try_map(len, Lock::IfSpare)
    }

    fn lock(&mut self, lock: Lock) {
        let wanted = match lock {
            Lock::Secret => true,
            Lock::IfSpare => has_room_for(self.bytes),
            Lock::No => false,
        };
        if !wanted || INTERPRETED {
            return;
        }
        // SAFETY: the range is this mapping.
        let result = unsafe { rustix::mm::mlock(self.start.as_ptr().cast(), self.bytes) };
        self.locked = result.is_ok();
        if self.locked {
            LOCKED.fetch_add(self.bytes, Ordering::Relaxed);
        } else if lock == Lock::Secret {
            SECRET_LEFT_UNLOCKED.store(true, Ordering::Relaxed);
        }
    }

    /// Gives advice on the whole mapping; advice that the kernel does not take changes nothing.
    pub(super) fn advise(&self, advice: Advice) {
        if INTERPRETED {
            return;
        }
        // SAFETY: the range is this mapping, and none of the advices used here (DONTDUMP,
        // HUGEPAGE) changes what the pages hold.
        let _ = unsafe { rustix::mm::madvise(self.start.as_ptr().cast(), self.bytes, advice) };
    }

    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// The first `len` bytes.
    pub(super) fn bytes(&self, len: usize) -> &[u8] {
        assert!(len <= self.bytes);
        // SAFETY: the mapping is readable, `len` is within it, and `&self` excludes writers.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), len) }
    }

    /// The first `len` bytes, to write.
    pub(super) fn bytes_mut(&mut self, len: usize) -> &mut [u8] {
        assert!(len <= self.bytes);
        // SAFETY: the mapping is writable, `len` is within it, and `&mut self` is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), len) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        if self.locked {
            LOCKED.fetch_sub(self.bytes, Ordering::Relaxed);
        }
        // SAFETY: the mapping is ours, nothing borrows from it any more, and unmapping unlocks.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// Miri has no such thing as a locked page, and no advice.
const INTERPRETED: bool = cfg!(miri);

/// Page size of this kernel in bytes: 4 KiB on x86-64, and 4, 16 or 64 KiB on aarch64.
fn page_size() -> usize {
    if INTERPRETED {
        PAGE
    } else {
        rustix::param::page_size()
    }
}

fn has_room_for(bytes: usize) -> bool {
    match getrlimit(Resource::Memlock).current {
        None => true,
        Some(limit) => {
            let limit = usize::try_from(limit).unwrap_or(usize::MAX);
            LOCKED.load(Ordering::Relaxed) + bytes + RESERVED_FOR_SECRETS <= limit
        }
    }
}

fn out_of_memory(bytes: usize) -> ! {
    match Layout::from_size_align(bytes, PAGE) {
        Ok(layout) => handle_alloc_error(layout),
        Err(_) => std::process::abort(),
    }
}
