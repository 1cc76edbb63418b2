//! Storage in whose requests other threads intervene, and which knows whether it may be used.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use scrim_backend::{
    Backend, BackendError, Durability, HeaderLock, Info, LockKind, Medium, MemoryBackend,
};
use shuttle::thread;

use crate::{CryptTable, DataPath};

/// Size of the modelled volume, in bytes: two stripes and more than two jobs.
const SIZE: u64 = 512 << 10;

pub(super) struct Watched {
    memory: Arc<MemoryBackend>,
    /// True if requests wait for it.
    slow: bool,
    /// Place at which requests are carried out in two steps, in bytes from the start.
    torn_at: Option<u64>,
    /// True if no thread may use it.
    pub(super) is_closed: AtomicBool,
    /// Writes since the last flush began.
    pub(super) unflushed: AtomicUsize,
}

impl Watched {
    pub(super) fn memory() -> Arc<MemoryBackend> {
        let size = usize::try_from(SIZE).unwrap();
        Arc::new(MemoryBackend::new(vec![0; size]))
    }

    pub(super) fn on(memory: &Arc<MemoryBackend>, slow: bool) -> Arc<Self> {
        Arc::new(Self::new(memory, slow, None))
    }

    /// Creates the same storage, where each request over the place `at` is carried out in two steps.
    pub(super) fn torn(memory: &Arc<MemoryBackend>, slow: bool, at: u64) -> Arc<Self> {
        Arc::new(Self::new(memory, slow, Some(at)))
    }

    fn new(memory: &Arc<MemoryBackend>, slow: bool, torn_at: Option<u64>) -> Self {
        Self {
            memory: Arc::clone(memory),
            slow,
            torn_at,
            is_closed: AtomicBool::new(false),
            unflushed: AtomicUsize::new(0),
        }
    }

    /// Length of the first step of a request, in bytes: all of it, unless it is torn.
    fn first_step(&self, offset: u64, len: usize) -> usize {
        let before = self.torn_at.and_then(|at| at.checked_sub(offset));
        before.map_or(len, |before| {
            usize::try_from(before).map_or(len, |before| before.min(len))
        })
    }

    /// Lets other threads come in between, before and afterwards.
    fn during<T>(&self, work: impl FnOnce() -> T) -> T {
        thread::yield_now();
        let done = work();
        assert!(
            !self.is_closed.load(Ordering::SeqCst),
            "used while it is not to be"
        );
        thread::yield_now();
        done
    }
}

impl Backend for Watched {
    fn info(&self) -> Info {
        self.memory.info()
    }

    fn medium(&self) -> Medium<'_> {
        if self.slow {
            Medium::Remote {
                longest: 4096,
                alone: 4096,
            }
        } else {
            Medium::Memory
        }
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), BackendError> {
        let (first, second) = buffer.split_at_mut(self.first_step(offset, buffer.len()));
        self.during(|| self.memory.read_at(offset, first))?;
        if second.is_empty() {
            return Ok(());
        }
        self.during(|| self.memory.read_at(offset + first.len() as u64, second))
    }

    fn write_at(&self, offset: u64, data: &[u8], how: Durability) -> Result<(), BackendError> {
        let (first, second) = data.split_at(self.first_step(offset, data.len()));
        self.during(|| {
            self.unflushed.fetch_add(1, Ordering::SeqCst);
            self.memory.write_at(offset, first, how)
        })?;
        if second.is_empty() {
            return Ok(());
        }
        self.during(|| {
            self.memory
                .write_at(offset + first.len() as u64, second, how)
        })
    }

    fn flush(&self) -> Result<(), BackendError> {
        self.unflushed.store(0, Ordering::SeqCst);
        self.during(|| self.memory.flush())
    }

    fn discard(&self, range: Range<u64>) -> Result<(), BackendError> {
        self.during(|| self.memory.discard(range))
    }

    fn write_zeroes(&self, range: Range<u64>, how: Durability) -> Result<(), BackendError> {
        self.during(|| self.memory.write_zeroes(range, how))
    }

    fn lock_header(&self, kind: LockKind) -> Result<HeaderLock, BackendError> {
        self.memory.lock_header(kind)
    }
}

/// A way for requests; the cipher, the flags and the data path.
#[derive(Clone, Copy)]
pub(super) struct Way(
    pub(super) &'static str,
    pub(super) &'static str,
    pub(super) DataPath,
);

const XTS: &str = "aes-xts-plain64";

/// Inline, split, and every arrangement of the queues.
pub(super) const WAYS: [Way; 7] = [
    Way(XTS, "", DataPath::Inline),
    Way(XTS, "", DataPath::Auto),
    Way(XTS, "", DataPath::Queued),
    Way(
        XTS,
        "same_cpu_crypt submit_from_crypt_cpus",
        DataPath::Queued,
    ),
    Way(XTS, "no_read_workqueue", DataPath::Queued),
    Way(XTS, "no_write_workqueue", DataPath::Queued),
    Way("capi:cryptd(xts(aes))-plain64", "", DataPath::Queued),
];

impl Way {
    pub(super) fn table(self, device: &str) -> CryptTable {
        let Self(cipher, flags, _) = self;
        let key = match cipher {
            _ if cipher.contains("null-") => "-".to_owned(),
            _ if cipher.contains("xts") => "0123456789abcdef".repeat(8),
            _ => "0123456789abcdef".repeat(4),
        };
        let count = flags.split_whitespace().count();
        let line = format!("0 1024 crypt {cipher} {key} 0 {device} 0 {count} {flags}");
        CryptTable::parse(&line).unwrap()
    }
}
