//! A store in memory that notes what reaches it, and the table of an encrypted volume on it.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use scrim_backend::{Backend, BackendError, Durability, HeaderLock, Info, LockKind, MemoryBackend};

/// A key for tests: 32 bytes, two different halves, in hexadecimal.
const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

/// A store in memory that counts what reaches it.
pub(crate) struct Counting {
    pub(crate) memory: MemoryBackend,
    pub(crate) flushes: AtomicU64,
    pub(crate) durable: AtomicU64,
    pub(crate) discards: AtomicU64,
    /// Addresses and lengths of the memory that was read to or written from.
    pub(crate) places: Mutex<Vec<(usize, usize)>>,
    /// Called before each read.
    pub(crate) on_read: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// Called before each write.
    pub(crate) on_write: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Counting {
    pub(crate) fn new(size: u64) -> Arc<Self> {
        Arc::new(Self {
            memory: MemoryBackend::new(vec![0; usize::try_from(size).unwrap()]),
            flushes: AtomicU64::new(0),
            durable: AtomicU64::new(0),
            discards: AtomicU64::new(0),
            places: Mutex::default(),
            on_read: OnceLock::new(),
            on_write: OnceLock::new(),
        })
    }

    fn note(&self, memory: &[u8]) {
        let place = (memory.as_ptr() as usize, memory.len());
        self.places.lock().unwrap().push(place);
    }

    /// Flushes, durable writes and discards so far.
    pub(crate) fn counts(&self) -> [u64; 3] {
        [&self.flushes, &self.durable, &self.discards].map(|count| count.load(Ordering::SeqCst))
    }
}

impl Backend for Counting {
    fn info(&self) -> Info {
        self.memory.info()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), BackendError> {
        if let Some(on_read) = self.on_read.get() {
            on_read();
        }
        self.note(buffer);
        self.memory.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, data: &[u8], how: Durability) -> Result<(), BackendError> {
        if let Some(on_write) = self.on_write.get() {
            on_write();
        }
        if how == Durability::Durable {
            self.durable.fetch_add(1, Ordering::SeqCst);
        }
        self.note(data);
        self.memory.write_at(offset, data, how)
    }

    fn flush(&self) -> Result<(), BackendError> {
        self.flushes.fetch_add(1, Ordering::SeqCst);
        self.memory.flush()
    }

    fn discard(&self, range: Range<u64>) -> Result<(), BackendError> {
        self.discards.fetch_add(1, Ordering::SeqCst);
        self.memory.discard(range)
    }

    fn write_zeroes(&self, range: Range<u64>, how: Durability) -> Result<(), BackendError> {
        self.memory.write_zeroes(range, how)
    }

    fn lock_header(&self, kind: LockKind) -> Result<HeaderLock, BackendError> {
        self.memory.lock_header(kind)
    }
}

/// The table of one encrypted range with `options` at its end.
pub(crate) fn crypt_table(size: u64, options: &str) -> String {
    format!(
        "0 {} crypt aes-xts-plain64 {KEY} 0 memory 0 {options}",
        size / 512
    )
}
