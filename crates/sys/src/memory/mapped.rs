//! Files mapped as they lie in the page cache, without a copy.
//!
//! A page may be missing, since its file was cut short or its storage fails. That is then not the error of a call
//! but the signal SIGBUS (mmap(2)), which ends a process. Here a page of zeros takes its place and the mapping has
//! failed, for good. The rest of a page within which a file was cut short is zeros without a signal. So the reader
//! must ask whether the bytes [were there](MappedFile::has) before it uses them. A SIGBUS of any other cause goes
//! where it went before.

use std::ffi::{c_int, c_void};
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::fs::{FileType, fstat};
use rustix::mm::{MapFlags, ProtFlags};

/// Most mappings of the process at a time.
const MAPPINGS: usize = 256;
/// Pages that are asked about with one call.
const ASKED: usize = 64;

/// A part of a file, mapped for reading.
///
/// Whatever is written to the file, by anybody, is seen at once. So there are no references to its bytes, but
/// [`MappedBytes`].
pub struct MappedFile {
    file: OwnedFd,
    /// Offset in the file at which the mapping begins.
    offset: u64,
    start: NonNull<u8>,
    len: usize,
    /// Only of files: of a device it would take another call, and reading behind its end is a SIGBUS.
    can_change_length: bool,
    watch: &'static Watch,
}

/// Bytes of a [`MappedFile`]: they can be read for all of `'a`, others may change them at any moment, and no
/// Rust reference to them is ever made.
#[derive(Clone, Copy)]
pub struct MappedBytes<'a> {
    start: *const u8,
    len: usize,
    of: PhantomData<&'a MappedFile>,
}

// SAFETY: it is read by anybody at any time, and written by none of its users; the mapping goes with the value.
unsafe impl Send for MappedFile {}
// SAFETY: as above.
unsafe impl Sync for MappedFile {}

impl MappedFile {
    /// Maps `len` bytes from `offset` on, which is a multiple of the page size; the file may end before them.
    ///
    /// # Errors
    /// Those of mmap(2), and when the process has too many such mappings.
    pub fn new(file: BorrowedFd<'_>, offset: u64, len: usize) -> io::Result<Self> {
        catch_bus_errors()?;
        let file = file.try_clone_to_owned()?;
        let kind = FileType::from_raw_mode(fstat(&file)?.st_mode);
        let start = map(file.as_fd(), offset, len)?;
        match Watch::over(start.addr().get(), len) {
            Some(watch) => Ok(Self {
                file,
                offset,
                start,
                len,
                can_change_length: kind == FileType::RegularFile,
                watch,
            }),
            None => {
                // SAFETY: it was mapped just now, and no other code knows of it.
                unsafe { rustix::mm::munmap(start.as_ptr().cast(), len) }?;
                Err(io::Error::other("too many files are mapped"))
            }
        }
    }

    /// Checks whether the kernel tells this process which pages of a file are in memory. A process that neither
    /// owns a file nor may write to it is told that all are (mincore(2)), even those behind its end.
    ///
    /// # Errors
    /// Those of mmap(2) and mincore(2).
    pub fn is_told(file: BorrowedFd<'_>) -> io::Result<bool> {
        let page = rustix::param::page_size();
        let size = rustix::fs::seek(file, rustix::fs::SeekFrom::End(0))?;
        let behind = size.next_multiple_of(page as u64) + page as u64;
        let start = map(file, behind, page)?.as_ptr();
        let mut told = [0];
        // SAFETY: it is a mapping of one page, of which no other code knows.
        let asked = unsafe {
            let asked = in_memory(start, page, &mut told);
            rustix::mm::munmap(start.cast(), page)?;
            asked
        };
        asked.map(|()| told[0] & 1 == 0)
    }

    /// Returns how many of the bytes from `at` on, at most `len`, can be read without waiting for a disk, as far
    /// as one call of mincore(2) for 64 pages tells. Behind the end of the file there may be some that [are not
    /// there](Self::has).
    ///
    /// # Errors
    /// Those of mincore(2).
    ///
    /// # Panics
    /// When the mapping has fewer bytes from `at` on.
    pub fn in_memory(&self, at: usize, len: usize) -> io::Result<usize> {
        self.check(at, len);
        let page = rustix::param::page_size();
        let first = at / page * page;
        let end = (at + len).min(first + ASKED * page);
        let mut pages = [0; ASKED];
        // SAFETY: the range begins with a page of this mapping and ends within it, and there is a byte for each
        // of its pages.
        unsafe { in_memory(self.start.as_ptr().add(first), end - first, &mut pages) }?;
        let there = pages.iter().take_while(|page| *page & 1 == 1).count();
        Ok((first + there * page).min(end).saturating_sub(at))
    }

    /// Returns `len` bytes from `at` on.
    ///
    /// # Panics
    /// When the mapping has fewer bytes from `at` on.
    #[must_use]
    pub fn bytes(&self, at: usize, len: usize) -> MappedBytes<'_> {
        self.check(at, len);
        MappedBytes {
            start: self.start.as_ptr().wrapping_add(at),
            len,
            of: PhantomData,
        }
    }

    fn check(&self, at: usize, len: usize) {
        let end = at.checked_add(len);
        assert!(end.is_some_and(|end| end <= self.len), "beyond a mapping");
    }

    /// Returns whether the file has so many bytes from `at` on, and none that was read so far was a zero that it does
    /// not have.
    #[must_use]
    pub fn has(&self, at: usize, len: usize) -> bool {
        self.check(at, len);
        !self.has_failed() && self.there().is_ok_and(|there| at + len <= there)
    }

    /// Marks the whole mapping as not trustworthy.
    pub fn give_up(&self) {
        self.watch.failed.store(true, Ordering::SeqCst);
    }

    /// Returns whether any byte read so far was a zero that the file does not have; then no byte of the mapping
    /// can be trusted.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.watch.failed.load(Ordering::SeqCst)
    }

    /// Returns the number of bytes of the file from the beginning of the mapping on; for a device, of those
    /// mapped.
    fn there(&self) -> io::Result<usize> {
        if !self.can_change_length {
            return Ok(self.len);
        }
        let size = u64::try_from(fstat(&self.file)?.st_size).unwrap_or(0);
        let there = size.saturating_sub(self.offset);
        Ok(usize::try_from(there).unwrap_or(usize::MAX))
    }
}

/// Maps a part of a file, for reading, where the kernel likes.
fn map(file: BorrowedFd<'_>, offset: u64, len: usize) -> io::Result<NonNull<u8>> {
    let (read, shared) = (ProtFlags::READ, MapFlags::SHARED);
    // SAFETY: a new mapping at an address of the kernel's choice aliases nothing.
    let start = unsafe { rustix::mm::mmap(ptr::null_mut(), len, read, shared, file, offset) }?;
    NonNull::new(start.cast()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

/// Asks which pages are in memory.
///
/// # Safety
/// `start` is that of a page, from which on `len` bytes are mapped, at most `pages` pages.
unsafe fn in_memory(start: *mut u8, len: usize, pages: &mut [u8]) -> io::Result<()> {
    // SAFETY: as the caller promises; there is a byte for each page.
    match unsafe { libc::mincore(start.cast(), len, pages.as_mut_ptr()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        // Before the addresses can be used for another mapping.
        self.watch.end();
        // SAFETY: the mapping is ours, and no reference to its bytes is left.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

impl MappedBytes<'_> {
    /// Returns the address of the first byte.
    #[must_use]
    pub fn start(self) -> *const u8 {
        self.start
    }

    /// Returns the number of bytes.
    #[must_use]
    pub fn len(self) -> usize {
        self.len
    }

    /// Returns whether there are no bytes.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len == 0
    }
}

/// Addresses whose faults this module handles. The signal handler may read nothing else.
struct Watch {
    /// 0 where there is none.
    start: AtomicUsize,
    len: AtomicUsize,
    failed: AtomicBool,
}

static WATCHES: [Watch; MAPPINGS] = [const {
    Watch {
        start: AtomicUsize::new(0),
        len: AtomicUsize::new(0),
        failed: AtomicBool::new(false),
    }
}; MAPPINGS];

impl Watch {
    fn over(start: usize, len: usize) -> Option<&'static Self> {
        let order = Ordering::SeqCst;
        let is_free = |watch: &&Self| watch.start.compare_exchange(0, start, order, order).is_ok();
        let free = WATCHES.iter().find(is_free)?;
        free.failed.store(false, order);
        free.len.store(len, order);
        Some(free)
    }

    fn end(&self) {
        self.len.store(0, Ordering::SeqCst);
        self.start.store(0, Ordering::SeqCst);
    }

    fn has(&self, address: usize) -> bool {
        let start = self.start.load(Ordering::SeqCst);
        address.wrapping_sub(start) < self.len.load(Ordering::SeqCst)
    }
}

/// Handler of SIGBUS that was installed before.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

fn catch_bus_errors() -> io::Result<()> {
    static CAUGHT: OnceLock<Option<i32>> = OnceLock::new();
    match CAUGHT.get_or_init(|| install().err()?.raw_os_error()) {
        None => Ok(()),
        Some(error) => Err(io::Error::from_raw_os_error(*error)),
    }
}

fn install() -> io::Result<()> {
    let call = |new: *const libc::sigaction, old: *mut libc::sigaction| {
        // SAFETY: each is null or points to a whole `sigaction`.
        match unsafe { libc::sigaction(libc::SIGBUS, new, old) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    // SAFETY: all its fields are numbers and pointers that may be null.
    let mut before: libc::sigaction = unsafe { std::mem::zeroed() };
    call(ptr::null(), &raw mut before)?;
    // The handler must find it.
    let before = *BEFORE.get_or_init(|| before);
    let mut ours = before;
    let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = on_bus_error;
    ours.sa_sigaction = handler as usize;
    // A thread whose stack has run out has another one for handlers, and this is the first of them.
    ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    call(&raw const ours, ptr::null_mut())
}

/// Runs in the middle of anything: it looks at atomics, and makes calls of the kernel that touch nothing else.
extern "C" fn on_bus_error(signal: c_int, about: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel hands a handler that asked for it what the signal is about. Where it is about a fault and
    // not about a sender, its code is positive (sigaction(2)), and there is an address.
    let fault = unsafe { ((*about).si_code > 0).then(|| (*about).si_addr().addr()) };
    let ours = fault.and_then(|address| {
        let watch = WATCHES.iter().find(|watch| watch.has(address))?;
        fill_in(watch, address).then_some(())
    });
    if ours.is_none() {
        hand_on(signal, about, context);
    }
}

/// Puts a page of zeros where there is none.
fn fill_in(watch: &Watch, address: usize) -> bool {
    // Before the zeros can be seen.
    watch.failed.store(true, Ordering::SeqCst);
    let page = rustix::param::page_size();
    let start = ptr::without_provenance_mut(address / page * page);
    // SAFETY: the page is one of a mapping of ours, whose bytes no reference points to; code that reads them next
    // gets zeros, and `failed` tells.
    let filled = unsafe {
        let how = MapFlags::PRIVATE | MapFlags::FIXED;
        rustix::mm::mmap_anonymous(start, page, ProtFlags::READ, how)
    };
    filled.is_ok()
}

/// Does what the process would have done without this module.
fn hand_on(signal: c_int, about: *mut libc::siginfo_t, context: *mut c_void) {
    let handler = BEFORE.get().map_or(libc::SIG_DFL, |it| it.sa_sigaction);
    let wants_all = BEFORE
        .get()
        .is_some_and(|it| it.sa_flags & libc::SA_SIGINFO != 0);
    if handler == libc::SIG_DFL || handler == libc::SIG_IGN {
        // It ends the process as soon as this returns: a fault cannot be ignored, and comes again.
        // SAFETY: any thread may say so at any time.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
    } else if wants_all {
        // SAFETY: the code that installed it said that it is such a function, for this signal.
        unsafe {
            let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
                std::mem::transmute(handler);
            handler(signal, about, context);
        }
    } else {
        // SAFETY: as above.
        unsafe {
            let handler: extern "C" fn(c_int) = std::mem::transmute(handler);
            handler(signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, Write};
    use std::os::fd::AsFd;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use super::*;

    /// Variable by which a test, run once more, tells itself that it may die.
    const MAY_DIE: &str = "SCRIM_TEST_MAY_DIE";

    fn file(pages: usize) -> std::fs::File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![7; pages * rustix::param::page_size()])
            .unwrap();
        file
    }

    fn first(bytes: MappedBytes<'_>) -> u8 {
        // SAFETY: it can be read.
        unsafe { bytes.start().read_volatile() }
    }

    #[test]
    fn bytes_are_those_of_the_file_at_any_time() {
        let mut file = file(3);
        let page = rustix::param::page_size();
        let map = MappedFile::new(file.as_fd(), 0, 4 * page).unwrap();
        assert_eq!(map.in_memory(0, 4 * page).unwrap(), 3 * page);
        assert_eq!(map.in_memory(5, 7).unwrap(), 7);
        assert_eq!(map.in_memory(page - 1, 3 * page).unwrap(), 2 * page + 1);
        assert_eq!(map.in_memory(3 * page, page).unwrap(), 0);
        assert_eq!(first(map.bytes(page, 1)), 7);
        file.seek(io::SeekFrom::Start(page as u64)).unwrap();
        file.write_all(&[8]).unwrap();
        assert_eq!(first(map.bytes(page, 1)), 8);
        assert!(map.has(0, 3 * page) && !map.has(0, 3 * page + 1));
        assert!(MappedFile::is_told(file.as_fd()).unwrap());
        let second = MappedFile::new(file.as_fd(), page as u64, page).unwrap();
        assert_eq!(first(second.bytes(0, page)), 8);
    }

    #[test]
    fn a_page_that_is_gone_is_zeros_and_told() {
        let pages = 4;
        let file = file(pages);
        let page = rustix::param::page_size();
        let map = MappedFile::new(file.as_fd(), 0, pages * page).unwrap();
        let other = MappedFile::new(file.as_fd(), 0, pages * page).unwrap();
        // What is left of a page is zeros, and there is no signal.
        file.set_len(page as u64 + 5).unwrap();
        assert_eq!(first(map.bytes(page + 5, 1)), 0);
        assert!(!map.has_failed() && map.has(0, page + 5) && !map.has(page, 6));
        file.set_len(page as u64).unwrap();
        assert_eq!(first(map.bytes(0, 1)), 7);
        assert!(map.has(0, page));
        for at in [page, 3 * page + 5, page + 1] {
            assert_eq!(first(map.bytes(at, 1)), 0);
            assert!(map.has_failed() && !map.has(0, 1));
        }
        assert_eq!(first(map.bytes(0, 1)), 7);
        assert!(other.has(0, page));
        drop(map);
        // The next mapping that takes its place in the list begins anew.
        let next = MappedFile::new(file.as_fd(), 0, page).unwrap();
        assert!(next.has(0, page));
    }

    #[test]
    fn nobody_elses_faults_are_caught() {
        let name = "memory::mapped::tests::nobody_elses_faults_are_caught";
        if std::env::var_os(MAY_DIE).is_none() {
            assert_eq!(again(name).signal(), Some(libc::SIGBUS));
            return;
        }
        let page = rustix::param::page_size();
        let ours = MappedFile::new(file(1).as_fd(), 0, page).unwrap();
        let gone = file(1);
        // SAFETY: a new mapping aliases nothing.
        let start = unsafe {
            let (read, shared) = (ProtFlags::READ, MapFlags::SHARED);
            rustix::mm::mmap(ptr::null_mut(), page, read, shared, &gone, 0)
        };
        let start: *const u8 = start.unwrap().cast();
        gone.set_len(0).unwrap();
        // SAFETY: it is mapped; that its file has no such page is what this is about.
        let read = unsafe { start.read_volatile() };
        panic!("{read} was read, {}", ours.has_failed());
    }

    /// Runs in a process of its own, in which no other thread has or wants mappings.
    #[test]
    fn there_is_an_end_to_mappings() {
        let name = "memory::mapped::tests::there_is_an_end_to_mappings";
        if std::env::var_os(MAY_DIE).is_none() {
            assert!(again(name).success());
            return;
        }
        let file = file(1);
        let page = rustix::param::page_size();
        let map = || MappedFile::new(file.as_fd(), 0, page);
        let maps: Vec<_> = (0..2 * MAPPINGS).map_while(|_| map().ok()).collect();
        assert_eq!(maps.len(), MAPPINGS);
        drop(maps);
        assert!(map().is_ok());
    }

    /// Runs one test in a process of its own.
    fn again(name: &str) -> std::process::ExitStatus {
        let mut again = Command::new(std::env::current_exe().unwrap());
        let run = again.args(["--exact", name]).env(MAY_DIE, "1").output();
        run.unwrap().status
    }
}
