//! An io_uring with buffers of its own: slots that are either the caller's or the kernel's.

use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, BorrowedFd};

use io_uring::types::Fd;
use io_uring::{IoUring, cqueue, opcode, squeue};

use crate::memory::Pages;

/// Names a file by its place in the list that the ring was made with.
pub type FileIndex = u32;

/// One thread's ring. It owns `slots` page-aligned buffers of the same length; from the call that starts
/// a transfer to the [`Event`] that ends it, a slot's buffer is the kernel's alone.
///
/// The files are not registered with the kernel, which would keep them open for some time after the ring
/// has gone, and with them their locks.
pub struct Ring<'f> {
    ring: ManuallyDrop<IoUring>,
    buffers: ManuallyDrop<Pages>,
    /// Bytes of a slot, a multiple of the page size.
    slot_len: usize,
    /// True if the kernel has the buffers' pages mapped already.
    registered: bool,
    /// True for each slot that is the kernel's.
    busy: Vec<bool>,
    files: Vec<BorrowedFd<'f>>,
    /// True for each file that is watched.
    watched: Vec<bool>,
}

/// Completion of an operation.
#[derive(Debug)]
pub enum Event {
    /// A slot's transfer; the slot is the caller's again.
    Transfer {
        /// Slot of the transfer.
        slot: usize,
        /// Bytes transferred, which may be fewer than asked for.
        result: io::Result<usize>,
    },
    /// A watched file is readable, or has ended. It is watched no more.
    Readable(FileIndex),
}

/// Added to the index of a watched file, so that it names no slot.
const WATCH: u64 = 1 << 32;
/// `user_data` of operations whose completion is ignored.
const NOTHING: u64 = u64::MAX;

impl<'f> Ring<'f> {
    /// Creates a ring with `slots` buffers of at least `slot_len` bytes, for `files`. Only the thread that makes
    /// it may use it.
    ///
    /// # Errors
    /// When the system has no io_uring, forbids it, or has no memory for it.
    pub fn new(slots: usize, slot_len: usize, files: &[BorrowedFd<'f>]) -> io::Result<Self> {
        let slot_len = slot_len.next_multiple_of(crate::memory::PAGE);
        let len = slots
            .checked_mul(slot_len)
            .ok_or(io::ErrorKind::OutOfMemory)?;
        // A watched file may have to be let go of, too.
        let entries =
            u32::try_from(slots + 2 * files.len()).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let ring = build(entries.next_power_of_two())?;
        let buffers = Pages::for_data(len).ok_or(io::ErrorKind::OutOfMemory)?;
        let all = libc::iovec {
            iov_base: buffers.start().as_ptr().cast(),
            iov_len: len,
        };
        // SAFETY: the pages stay mapped for as long as the ring exists: `drop` ends the ring first, or
        // neither of them.
        let registered = unsafe { ring.submitter().register_buffers(&[all]) }.is_ok();
        Ok(Self {
            ring: ManuallyDrop::new(ring),
            buffers: ManuallyDrop::new(buffers),
            slot_len,
            registered,
            busy: vec![false; slots],
            files: files.to_vec(),
            watched: vec![false; files.len()],
        })
    }

    /// Returns the number of slots.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.busy.len()
    }

    /// Returns a slot's buffer.
    ///
    /// # Panics
    /// When a transfer of the slot is in flight, or there is no such slot: a mistake of the caller's.
    pub fn buffer(&mut self, slot: usize) -> &mut [u8] {
        assert!(!self.busy[slot], "the buffer is the kernel's");
        // SAFETY: the slot lies within the pages, which are mapped and initialised; `&mut self` keeps
        // the caller from every other slice of them, and as the slot is not busy the kernel has none.
        unsafe { std::slice::from_raw_parts_mut(self.address(slot), self.slot_len) }
    }

    /// Reads `len` bytes from `offset` of a file into the start of the slot's buffer.
    ///
    /// # Errors
    /// When the kernel takes no more; nothing was started.
    ///
    /// # Panics
    /// As for [`buffer`](Self::buffer), or when `len` is more than the buffer has.
    pub fn read(
        &mut self,
        slot: usize,
        file: FileIndex,
        offset: u64,
        len: usize,
    ) -> io::Result<()> {
        let (address, len) = self.place(slot, len);
        let entry = if self.registered {
            opcode::ReadFixed::new(self.file(file), address, len, 0)
                .offset(offset)
                .build()
        } else {
            opcode::Read::new(self.file(file), address, len)
                .offset(offset)
                .build()
        };
        self.start(slot, &entry)
    }

    /// Writes the first `len` bytes of the slot's buffer to `offset` of a file.
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    ///
    /// # Panics
    /// As for [`read`](Self::read).
    pub fn write(
        &mut self,
        slot: usize,
        file: FileIndex,
        offset: u64,
        len: usize,
    ) -> io::Result<()> {
        let (address, len) = self.place(slot, len);
        let entry = if self.registered {
            opcode::WriteFixed::new(self.file(file), address, len, 0)
                .offset(offset)
                .build()
        } else {
            opcode::Write::new(self.file(file), address, len)
                .offset(offset)
                .build()
        };
        self.start(slot, &entry)
    }

    /// Asks for one [`Event::Readable`] of a file.
    ///
    /// # Errors
    /// When the kernel takes no more.
    pub fn watch(&mut self, file: FileIndex) -> io::Result<()> {
        #[allow(clippy::cast_sign_loss, reason = "a mask of bits")]
        let events = libc::POLLIN as u32;
        let entry = opcode::PollAdd::new(self.file(file), events).build();
        self.push(&entry.user_data(WATCH | u64::from(file)))?;
        self.watched[file as usize] = true;
        Ok(())
    }

    /// Submits the started operations, and waits until there are `wanted` events, or a signal came.
    ///
    /// # Errors
    /// When the system call fails.
    pub fn submit(&mut self, wanted: usize) -> io::Result<()> {
        match self.ring.submit_and_wait(wanted) {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Returns the next event, if there is one.
    pub fn next_event(&mut self) -> Option<Event> {
        loop {
            let entry = self.ring.completion().next()?;
            if entry.user_data() != NOTHING {
                return Some(self.event(&entry));
            }
        }
    }

    fn event(&mut self, entry: &cqueue::Entry) -> Event {
        let number = entry.user_data();
        #[allow(clippy::cast_possible_truncation, reason = "an index was put in")]
        if number & WATCH != 0 {
            let file = number as FileIndex;
            self.watched[file as usize] = false;
            return Event::Readable(file);
        }
        #[allow(clippy::cast_possible_truncation, reason = "an index was put in")]
        let slot = number as usize;
        self.busy[slot] = false;
        let result = usize::try_from(entry.result())
            .map_err(|_| io::Error::from_raw_os_error(-entry.result()));
        Event::Transfer { slot, result }
    }

    fn file(&self, index: FileIndex) -> Fd {
        Fd(self.files[index as usize].as_raw_fd())
    }

    fn address(&self, slot: usize) -> *mut u8 {
        // SAFETY: `busy` has an element for each slot that the pages have room for, and callers have
        // indexed it.
        unsafe { self.buffers.start().as_ptr().add(slot * self.slot_len) }
    }

    /// Returns the memory for a transfer of `len` bytes; checked, as the kernel takes our word for it.
    fn place(&self, slot: usize, len: usize) -> (*mut u8, u32) {
        assert!(!self.busy[slot], "the buffer is the kernel's");
        assert!(len <= self.slot_len, "longer than the buffer");
        let len = u32::try_from(len).unwrap_or(0);
        (self.address(slot), len)
    }

    fn start(&mut self, slot: usize, entry: &squeue::Entry) -> io::Result<()> {
        self.push(&entry.clone().user_data(slot as u64))?;
        self.busy[slot] = true;
        Ok(())
    }

    fn push(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        // SAFETY: a transfer's buffer is a slot, which lives as long as the ring and is marked as busy
        // by `start`, and `place` has checked its length; a watch has no buffer.
        if unsafe { self.ring.submission().push(entry) }.is_ok() {
            return Ok(());
        }
        // Full of what has not been given to the kernel yet.
        self.submit(0)?;
        // SAFETY: as above.
        unsafe { self.ring.submission().push(entry) }
            .map_err(|_| io::Error::from(io::ErrorKind::WouldBlock))
    }

    /// Waits until no slot and no file is the kernel's; `false` where the kernel fails that.
    fn settle(&mut self) -> bool {
        while self.busy.contains(&true) || self.watched.contains(&true) {
            // Again each time: while a watch is being woken the kernel refuses to remove it (EALREADY), and goes
            // on with it where the data has been received by then.
            for file in 0..self.files.len() {
                if self.watched[file] {
                    let watch = opcode::PollRemove::new(WATCH | file as u64).build();
                    if self.push(&watch.user_data(NOTHING)).is_err() {
                        return false;
                    }
                }
            }
            if self.submit(1).is_err() {
                return false;
            }
            while self.next_event().is_some() {}
        }
        true
    }
}

/// Creates a ring, with those ways to be woken less often that this kernel has.
fn build(entries: u32) -> io::Result<IoUring> {
    let newest = IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .dontfork()
        .build(entries);
    match newest {
        // Before Linux 6.1.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            IoUring::builder().dontfork().build(entries)
        }
        made => made,
    }
}

impl Drop for Ring<'_> {
    fn drop(&mut self) {
        if !self.settle() {
            // The kernel may still write to the buffers: they must never be anybody else's memory.
            return;
        }
        // SAFETY: neither is used after this; the ring goes first, and has no transfer in flight.
        unsafe {
            ManuallyDrop::drop(&mut self.ring);
            ManuallyDrop::drop(&mut self.buffers);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    fn ring<'f>(files: &[BorrowedFd<'f>]) -> Option<Ring<'f>> {
        let ring = Ring::new(4, 4096, files);
        if let Err(error) = &ring {
            assert!(
                std::env::var_os("CI").is_none(),
                "no io_uring in CI: {error}"
            );
            println!("skipped: no io_uring: {error}");
        }
        ring.ok()
    }

    fn transfer(ring: &mut Ring<'_>) -> (usize, io::Result<usize>) {
        ring.submit(1).unwrap();
        match ring.next_event() {
            Some(Event::Transfer { slot, result }) => (slot, result),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_was_written_is_read_back() {
        let file = tempfile::tempfile().unwrap();
        let Some(mut ring) = ring(&[file.as_fd()]) else {
            return;
        };
        ring.buffer(2)[..5].copy_from_slice(b"hello");
        ring.write(2, 0, 1000, 5).unwrap();
        let (slot, result) = transfer(&mut ring);
        assert_eq!((slot, result.unwrap()), (2, 5));
        ring.read(1, 0, 999, 100).unwrap();
        let (slot, result) = transfer(&mut ring);
        assert_eq!((slot, result.unwrap()), (1, 6), "to the end of the file");
        assert_eq!(&ring.buffer(1)[..6], b"\0hello");
    }

    #[test]
    fn a_failure_is_the_system_s() {
        let (reader, _writer) = io::pipe().unwrap();
        let Some(mut ring) = ring(&[reader.as_fd()]) else {
            return;
        };
        ring.write(0, 0, 0, 1).unwrap();
        let (_, result) = transfer(&mut ring);
        assert_eq!(result.unwrap_err().raw_os_error(), Some(libc::EBADF));
    }

    #[test]
    fn a_watched_file_says_once_that_it_can_be_read() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let Some(mut ring) = ring(&[ours.as_fd()]) else {
            return;
        };
        ring.watch(0).unwrap();
        ring.submit(0).unwrap();
        assert!(ring.next_event().is_none());
        theirs.write_all(b"x").unwrap();
        ring.submit(1).unwrap();
        assert!(matches!(ring.next_event(), Some(Event::Readable(0))));
        assert!(ring.next_event().is_none());
    }

    /// The other end of a socket hears at once that it was closed.
    #[test]
    fn nothing_is_held_once_the_ring_has_gone() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let Some(mut ring) = ring(&[ours.as_fd()]) else {
            return;
        };
        ring.watch(0).unwrap();
        ring.submit(0).unwrap();
        drop(ring);
        drop(ours);
        theirs.set_nonblocking(true).unwrap();
        assert_eq!((&theirs).read(&mut [0]).unwrap(), 0);
    }

    #[test]
    #[should_panic(expected = "the buffer is the kernel's")]
    fn a_slot_under_way_is_nobody_s() {
        let file = tempfile::tempfile().unwrap();
        let Some(mut ring) = ring(&[file.as_fd()]) else {
            panic!("the buffer is the kernel's, or would be");
        };
        ring.read(0, 0, 0, 1).unwrap();
        ring.buffer(0);
    }

    #[test]
    fn more_than_the_queue_holds_is_submitted_in_between() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4096).unwrap();
        let Some(mut ring) = ring(&[file.as_fd()]) else {
            return;
        };
        for _ in 0..50 {
            for slot in 0..ring.slots() {
                ring.read(slot, 0, 0, 4096).unwrap();
            }
            let mut left = ring.slots();
            while left > 0 {
                ring.submit(1).unwrap();
                while let Some(event) = ring.next_event() {
                    assert!(matches!(
                        event,
                        Event::Transfer {
                            result: Ok(4096),
                            ..
                        }
                    ));
                    left -= 1;
                }
            }
        }
    }
}
