//! A volume on a file, served, and a client; what reaches the storage is noted.

use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use scrim_backend::{
    Access, Backend, BackendError, Durability, FileBackend, HeaderLock, Info, LockKind, Medium,
};
use scrim_export::limits::Limits;
use scrim_export::{Export, Traffic};
use scrim_volume::queue::Engine;
use scrim_volume::{CryptTable, DataPath, Volume};

use crate::allocations;
use crate::common::{FLUSH, MIB, Raw, Served, crypt_table};

pub(crate) const SIZE: u64 = 64 * MIB;

/// A file that notes the calls it gets, and where their memory is.
pub(crate) struct Noting {
    file: FileBackend,
    calls: AtomicU64,
    /// Addresses of the memory of the last calls; there is room for all that a test does between
    /// two looks, so that noting allocates nothing.
    places: Mutex<Vec<usize>>,
}

const PLACES: usize = 1 << 16;

impl Noting {
    fn note(&self, memory: &[u8]) {
        allocations::count_here();
        self.calls.fetch_add(1, Ordering::SeqCst);
        let mut places = self.places.lock().unwrap();
        if places.len() < PLACES {
            places.push(memory.as_ptr() as usize);
        }
    }

    /// Reads and writes so far.
    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }

    /// Returns the addresses in memory that calls since the last look read to or wrote from.
    pub(crate) fn take_places(&self) -> Vec<usize> {
        self.places.lock().unwrap().drain(..).collect()
    }
}

impl Backend for Noting {
    fn info(&self) -> Info {
        self.file.info()
    }

    fn medium(&self) -> Medium<'_> {
        self.file.medium()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), BackendError> {
        self.note(buffer);
        self.file.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, data: &[u8], how: Durability) -> Result<(), BackendError> {
        self.note(data);
        self.file.write_at(offset, data, how)
    }

    fn flush(&self) -> Result<(), BackendError> {
        allocations::count_here();
        self.file.flush()
    }

    fn discard(&self, range: Range<u64>) -> Result<(), BackendError> {
        self.file.discard(range)
    }

    fn write_zeroes(&self, range: Range<u64>, how: Durability) -> Result<(), BackendError> {
        self.file.write_zeroes(range, how)
    }

    fn lock_header(&self, kind: LockKind) -> Result<HeaderLock, BackendError> {
        self.file.lock_header(kind)
    }
}

/// Locks out other tests, so that there is one server at a time: allocations are counted for the
/// whole process.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A served volume with one client.
pub(crate) struct Stage {
    pub(crate) backend: Arc<Noting>,
    pub(crate) client: Raw,
    served: Served,
    _image: tempfile::TempDir,
    _alone: MutexGuard<'static, ()>,
}

impl Stage {
    pub(crate) fn set(engine: Engine) -> Self {
        let alone = alone();
        let image = tempfile::tempdir().unwrap();
        let path = image.path().join("image");
        File::create(&path).unwrap().set_len(SIZE).unwrap();
        let backend = Arc::new(Noting {
            file: FileBackend::open(&path, Access::ReadWrite).unwrap(),
            calls: AtomicU64::new(0),
            places: Mutex::new(Vec::with_capacity(PLACES)),
        });
        let table = CryptTable::parse(&crypt_table(SIZE, "")).unwrap();
        let open = |_: &str| Ok(Arc::clone(&backend) as Arc<dyn Backend>);
        let volume = Volume::start(table, DataPath::Auto, open).unwrap();
        let export = Export {
            name: "disk".to_owned(),
            description: String::new(),
            volume: Arc::new(volume),
            engine,
        };
        let served = Served::with(vec![export], Limits::default());
        let mut client = served.structured();
        // Whatever the engine, the connection's own thread flushes: so it is found, and counts.
        let before = allocations::threads();
        assert_eq!(client.command(0, FLUSH, 0, 0), 0);
        assert_eq!(allocations::threads(), before + 1);
        Self {
            backend,
            client,
            served,
            _image: image,
            _alone: alone,
        }
    }

    /// Returns the meter's counts once nothing is in flight any more.
    pub(crate) fn traffic(&self) -> Traffic {
        let mut last = self.served.server.status().traffic;
        loop {
            std::thread::sleep(Duration::from_millis(20));
            let now = self.served.server.status().traffic;
            if now == last {
                return now;
            }
            last = now;
        }
    }
}

/// Ids of the threads of this process that serve.
pub(crate) fn serving_threads() -> Vec<u32> {
    let name = |folder: &Path| std::fs::read_to_string(folder.join("comm")).unwrap_or_default();
    let is_meant =
        |name: &str| name == "storage" || (name.starts_with("nbd-") && name != "nbd-accept");
    std::fs::read_dir("/proc/self/task")
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|folder| is_meant(name(folder).trim_end()))
        .filter_map(|folder| folder.file_name()?.to_str()?.parse().ok())
        .collect()
}

/// Size of this process's address space, as `/proc` prints it.
pub(crate) fn mapped_memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmSize:"));
    line.unwrap().to_owned()
}
