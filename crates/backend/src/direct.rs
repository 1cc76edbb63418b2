//! Requests past the page cache (`O_DIRECT`), of any range.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;

use rustix::io::Errno;
use scrim_sys::memory::DataBuffer;

use crate::BlockLocks;
use crate::range::{inner, pieces};

/// Alignment of requests, in bytes, where the kernel does not tell it: the largest sector of a disk.
const USUAL_ALIGNMENT: u32 = 4096;
/// Most bytes that are copied at a time, for requests that are not aligned. Divides [`STRIPE`](crate::blocks::STRIPE).
const BOUNCE: u32 = 64 << 10;

/// A file opened with `O_DIRECT`.
pub(crate) struct Direct<F = File> {
    file: F,
    /// Bytes of which the offset, the length and the memory of its requests are multiples.
    alignment: u32,
    pub(crate) blocks: BlockLocks,
}

impl Direct {
    /// # Errors
    /// When its blocks are larger than any disk's.
    pub(crate) fn new(file: File, is_device: bool) -> io::Result<Self> {
        let alignment = alignment_of(&file, is_device);
        if !alignment.is_power_of_two() || alignment > BOUNCE / 2 {
            return Err(Errno::NOTSUP.into());
        }
        Ok(Self::with_blocks(file, alignment))
    }

    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl<F: FileExt> Direct<F> {
    fn with_blocks(file: F, alignment: u32) -> Self {
        Self {
            file,
            alignment,
            blocks: BlockLocks::new(),
        }
    }

    /// Returns the unit of requests, in bytes.
    pub(crate) fn alignment(&self) -> u64 {
        u64::from(self.alignment)
    }

    /// Returns the whole blocks within a range, in bytes.
    pub(crate) fn whole_blocks(&self, range: &Range<u64>) -> Range<u64> {
        inner(range, self.alignment)
    }

    fn takes(&self, offset: u64, buffer: &[u8]) -> bool {
        let aligned = |number: u64| number.is_multiple_of(self.alignment());
        aligned(offset) && aligned(buffer.len() as u64) && aligned(buffer.as_ptr() as u64)
    }

    pub(crate) fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        if self.takes(offset, buffer) {
            return self.file.read_exact_at(buffer, offset);
        }
        let mut bounce = DataBuffer::zeroed(BOUNCE as usize);
        let mut rest = buffer;
        for piece in pieces(offset, rest.len() as u64, self.alignment, BOUNCE) {
            let (now, later) = rest.split_at_mut(piece.len);
            rest = later;
            let blocks = &mut bounce[..piece.whole_len()];
            self.file.read_exact_at(blocks, piece.whole.start)?;
            now.copy_from_slice(&blocks[piece.within()]);
        }
        Ok(())
    }

    pub(crate) fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if self.takes(offset, data) {
            let _shared = self.blocks.share(&(offset..offset + data.len() as u64));
            return self.file.write_all_at(data, offset);
        }
        let mut bounce = DataBuffer::zeroed(BOUNCE as usize);
        let mut rest = data;
        for piece in pieces(offset, rest.len() as u64, self.alignment, BOUNCE) {
            let (now, later) = rest.split_at(piece.len);
            rest = later;
            let blocks = &mut bounce[..piece.whole_len()];
            let start = piece.whole.start;
            if piece.is_aligned() {
                let _shared = self.blocks.share(&piece.whole);
                blocks.copy_from_slice(now);
                self.file.write_all_at(blocks, start)?;
            } else {
                let _alone = self.blocks.take(start);
                self.file.read_exact_at(blocks, start)?;
                blocks[piece.within()].copy_from_slice(now);
                self.file.write_all_at(blocks, start)?;
            }
        }
        Ok(())
    }
}

/// Asks for the alignment of requests past the page cache, in bytes.
fn alignment_of(file: &File, is_device: bool) -> u32 {
    let told = rustix::fs::statx(
        file,
        c"",
        rustix::fs::AtFlags::EMPTY_PATH,
        rustix::fs::StatxFlags::DIOALIGN,
    );
    let told = told.map_or(0, |told| {
        told.stx_dio_mem_align.max(told.stx_dio_offset_align)
    });
    match (told, is_device) {
        (0, true) => rustix::fs::ioctl_blksszget(file).unwrap_or(USUAL_ALIGNMENT),
        (0, false) => USUAL_ALIGNMENT,
        // Memory of 512 bytes and more is at hand everywhere.
        (told, _) => told.max(512),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::sync::{Arc, Mutex};
    use std::thread;
    use std::time::Duration;

    use super::*;

    const BLOCK: usize = 4096;

    type Hook = Box<dyn FnOnce() + Send>;

    /// A device that takes whole blocks only.
    struct Device {
        bytes: Mutex<Vec<u8>>,
        /// Called once, right after a read.
        after_read: Mutex<Option<Hook>>,
    }

    impl Device {
        fn check(buffer: &[u8], offset: u64) {
            let aligned = |number: usize| number.is_multiple_of(BLOCK);
            let offset = usize::try_from(offset).unwrap();
            assert!(aligned(buffer.len()) && aligned(offset) && aligned(buffer.as_ptr() as usize));
        }
    }

    impl FileExt for Device {
        fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
            Self::check(buffer, offset);
            let at = usize::try_from(offset).unwrap();
            buffer.copy_from_slice(&self.bytes.lock().unwrap()[at..at + buffer.len()]);
            let hook = self.after_read.lock().unwrap().take();
            if let Some(hook) = hook {
                hook();
            }
            Ok(buffer.len())
        }

        fn write_at(&self, buffer: &[u8], offset: u64) -> io::Result<usize> {
            Self::check(buffer, offset);
            let at = usize::try_from(offset).unwrap();
            self.bytes.lock().unwrap()[at..at + buffer.len()].copy_from_slice(buffer);
            Ok(buffer.len())
        }
    }

    fn device() -> Arc<Direct<Device>> {
        let device = Device {
            bytes: Mutex::new(vec![0; 4 * BLOCK]),
            after_read: Mutex::default(),
        };
        Arc::new(Direct::with_blocks(device, u32::try_from(BLOCK).unwrap()))
    }

    /// Writes 100 bytes of the second block, lets `other` write between that block's read and its write, or as soon
    /// as it may, and returns all bytes.
    fn beside(other: impl FnOnce(&Direct<Device>) + Send + 'static) -> Vec<u8> {
        let direct = device();
        let (ended, has_ended) = channel();
        let (threads, started) = channel();
        let same = Arc::clone(&direct);
        *direct.file.after_read.lock().unwrap() = Some(Box::new(move || {
            let write = move || {
                other(&same);
                // No receiver is left where it had to wait.
                let _ = ended.send(());
            };
            threads.send(thread::spawn(write)).unwrap();
            // Long enough for one that does not wait for this one.
            let _ = has_ended.recv_timeout(Duration::from_millis(100));
        }));
        direct.write_at(BLOCK as u64 + 1000, &[1; 100]).unwrap();
        started.recv().unwrap().join().unwrap();
        let bytes = direct.file.bytes.lock().unwrap();
        bytes.clone()
    }

    #[test]
    fn a_change_of_a_part_of_a_block_undoes_no_other_write() {
        let (aligned, odd) = (0, 16);
        for (memory, from, len) in [
            (aligned, BLOCK, BLOCK),
            (odd, BLOCK, BLOCK),
            (aligned, 0, 4 * BLOCK),
            (odd, 0, 4 * BLOCK),
            (odd, 100, 2 * BLOCK),
            (odd, BLOCK + 1200, 10),
        ] {
            let bytes = beside(move |direct| {
                let mut buffer = DataBuffer::zeroed(5 * BLOCK);
                buffer.fill(2);
                let data = &buffer[memory..memory + len];
                direct.write_at(from as u64, data).unwrap();
            });
            let part = BLOCK + 1000..BLOCK + 1100;
            for (at, &byte) in bytes.iter().enumerate() {
                let wanted: &[u8] = match ((from..from + len).contains(&at), part.contains(&at)) {
                    (true, true) => &[1, 2],
                    (true, false) => &[2],
                    (false, true) => &[1],
                    (false, false) => &[0],
                };
                assert!(
                    wanted.contains(&byte),
                    "{byte} at {at}, {len} bytes at {from}"
                );
            }
        }
    }

    #[test]
    fn any_range_is_read_and_written_by_blocks() {
        let direct = device();
        let mut model = vec![0; 4 * BLOCK];
        for (byte, from, len) in [(1, 0, 1), (2, 4095, 2), (3, 8000, 8384), (4, 5, 12_000)] {
            let data = vec![byte; len];
            direct.write_at(from, &data).unwrap();
            let from = usize::try_from(from).unwrap();
            model[from..from + len].copy_from_slice(&data);
            let mut read = vec![9; len];
            direct.read_at(from as u64, &mut read).unwrap();
            assert!(read == data);
        }
        assert!(*direct.file.bytes.lock().unwrap() == model);
    }
}
