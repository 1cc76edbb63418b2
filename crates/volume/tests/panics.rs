//! A panic on another thread goes to the requester, and leaves no thread waiting.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use scrim_backend::{
    Backend, BackendError, Durability, HeaderLock, Info, LockKind, Medium, MemoryBackend,
};
use scrim_volume::queue::{Engine, Queue};
use scrim_volume::{CryptTable, DataPath, Volume};

const SIZE: usize = 4 << 20;

/// Memory of which one place cannot be read without a panic, a little later than all others.
struct Panicking {
    memory: MemoryBackend,
    place: u64,
}

impl Backend for Panicking {
    fn info(&self) -> Info {
        self.memory.info()
    }

    fn medium(&self) -> Medium<'_> {
        Medium::Remote {
            longest: 1 << 20,
            alone: 1 << 20,
        }
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), BackendError> {
        if (offset..offset + buffer.len() as u64).contains(&self.place) {
            thread::sleep(Duration::from_millis(50));
            panic!("on purpose");
        }
        self.memory.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, data: &[u8], how: Durability) -> Result<(), BackendError> {
        self.memory.write_at(offset, data, how)
    }

    fn flush(&self) -> Result<(), BackendError> {
        self.memory.flush()
    }

    fn discard(&self, range: Range<u64>) -> Result<(), BackendError> {
        self.memory.discard(range)
    }

    fn write_zeroes(&self, range: Range<u64>, how: Durability) -> Result<(), BackendError> {
        self.memory.write_zeroes(range, how)
    }

    fn lock_header(&self, kind: LockKind) -> Result<HeaderLock, BackendError> {
        self.memory.lock_header(kind)
    }
}

fn volume(path: DataPath, place: u64) -> Volume {
    let memory = MemoryBackend::new(vec![0; SIZE]);
    let backend: Arc<dyn Backend> = Arc::new(Panicking { memory, place });
    let key = "0123456789abcdef".repeat(8);
    let line = format!("0 8192 crypt aes-xts-plain64 {key} 0 disk 0 1 sector_size:4096");
    let table = CryptTable::parse(&line).unwrap();
    Volume::start(table, path, |_| Ok(Arc::clone(&backend))).unwrap()
}

#[test]
fn who_panics_has_back_what_others_have_finished() {
    let end = SIZE as u64 - 1;
    for (path, place, len) in [
        // The requester's own part of a sector, behind all that the queues do.
        (DataPath::Queued, end, SIZE - 100),
        // What the queues do.
        (DataPath::Queued, 0, SIZE),
        // A piece, the requester's own or a helper's.
        (DataPath::Auto, 0, SIZE),
        (DataPath::Auto, end, SIZE),
    ] {
        let volume = volume(path, place);
        let mut bytes = vec![0; len];
        let read = catch_unwind(AssertUnwindSafe(|| volume.read(0, &mut bytes)));
        assert!(read.is_err(), "{path} {place}");
        // Nothing is left locked, and all threads are still there.
        volume.read(8192, &mut bytes[..1 << 20]).unwrap();
        assert!(volume.suspend(Duration::from_secs(30)));
    }
}

#[test]
fn a_queue_ends_although_several_of_its_requests_have_panicked() {
    for path in [DataPath::Queued, DataPath::Inline] {
        let volume = volume(path, 0);
        let mapping = volume.mapping();
        let queue = Queue::new(&volume, &mapping, Engine::Threads, &[]).unwrap();
        let mut queue = queue.unwrap();
        for offset in [0, 0, 4096, 0, 8192] {
            let slot = queue.take().unwrap();
            queue.start_read(slot, offset, 4096);
        }
        // All have ended before the first completion is taken.
        thread::sleep(Duration::from_millis(200));
        assert!(catch_unwind(AssertUnwindSafe(|| queue.settle().map(drop))).is_err());
        drop(queue);
        assert!(volume.suspend(Duration::from_secs(30)), "{path}");
    }
}
