//! Requests beside a change of a part of a sector: bytes that nobody writes are read as they are, and what
//! another request writes is not undone.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    reason = "a test may fail"
)]

use std::fs::File;
use std::io::IoSliceMut;
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use scrim_backend::{
    Backend, BackendError, BlockLocks, Durability, FileBackend, HeaderLock, Info, LockKind, Medium,
    MemoryBackend,
};
use scrim_volume::queue::{Engine, Queue};
use scrim_volume::{CryptTable, DataPath, Volume};

const SIZE: usize = 2 << 20;
const SECTOR: usize = 4096;

/// Bytes of the first sector that are written, and the place at which a read or write of it is torn: both in one
/// block of 16 bytes, which also has bytes that nobody writes.
const PART: Range<usize> = 998..1003;
const TEAR: usize = 1000;

/// Time for a request that waits for nothing: without isolation it ends within, and is found out.
const GRACE: Duration = Duration::from_millis(50);

type Hook = Box<dyn FnOnce() + Send>;

/// Storage on which one read and one write are torn: something happens in their middle.
struct Torn {
    inner: Box<dyn Backend>,
    /// Medium that it claims to lie on.
    medium: Says,
    in_read: Mutex<Option<Hook>>,
    in_write: Mutex<Option<Hook>>,
}

enum Says {
    AsInner,
    Remote,
    /// A file that ends where requests are torn: the kernel's part of a read ends there.
    Short(File),
}

impl Torn {
    fn on(inner: impl Backend + 'static, medium: Says) -> Arc<Self> {
        Arc::new(Self {
            inner: Box::new(inner),
            medium,
            in_read: Mutex::default(),
            in_write: Mutex::default(),
        })
    }

    fn in_memory(medium: Says) -> Arc<Self> {
        Self::on(MemoryBackend::new(vec![0; SIZE]), medium)
    }

    /// Returns where to tear a request, and the hook to call there.
    fn tear(hook: &Mutex<Option<Hook>>, offset: u64, len: usize) -> Option<(usize, Hook)> {
        let at = TEAR.checked_sub(offset as usize).filter(|at| *at < len)?;
        Some((at, hook.lock().unwrap().take()?))
    }
}

impl Backend for Torn {
    fn info(&self) -> Info {
        self.inner.info()
    }

    fn medium(&self) -> Medium<'_> {
        match &self.medium {
            Says::AsInner => self.inner.medium(),
            Says::Remote => Medium::Remote {
                longest: 1 << 20,
                alone: 1 << 20,
            },
            Says::Short(file) => Medium::File {
                file: file.as_fd(),
                start: 0,
                alignment: 1,
                cached: None,
                blocks: None,
            },
        }
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), BackendError> {
        let Some((at, hook)) = Self::tear(&self.in_read, offset, buffer.len()) else {
            return self.inner.read_at(offset, buffer);
        };
        let (before, behind) = buffer.split_at_mut(at);
        self.inner.read_at(offset, before)?;
        hook();
        self.inner.read_at(offset + at as u64, behind)
    }

    fn write_at(&self, offset: u64, data: &[u8], how: Durability) -> Result<(), BackendError> {
        let Some((at, hook)) = Self::tear(&self.in_write, offset, data.len()) else {
            return self.inner.write_at(offset, data, how);
        };
        let (before, behind) = data.split_at(at);
        self.inner.write_at(offset, before, how)?;
        hook();
        self.inner.write_at(offset + at as u64, behind, how)
    }

    fn flush(&self) -> Result<(), BackendError> {
        self.inner.flush()
    }

    fn discard(&self, range: Range<u64>) -> Result<(), BackendError> {
        self.inner.discard(range)
    }

    fn write_zeroes(&self, range: Range<u64>, how: Durability) -> Result<(), BackendError> {
        self.inner.write_zeroes(range, how)
    }

    fn lock_header(&self, kind: LockKind) -> Result<HeaderLock, BackendError> {
        self.inner.lock_header(kind)
    }
}

const CIPHERS: [&str; 9] = [
    "aes-xts-plain64",
    "aes-xts-essiv:sha256",
    "aes-cbc-plain64",
    "aes-cbc-essiv:sha256",
    "aes-cbc-eboiv",
    "aes-cbc-null",
    "aes-ctr-plain64",
    "aes-ecb",
    "cipher_null-ecb",
];

const CBC: &str = "aes-cbc-essiv:sha256";

/// A volume that is all `b'-'`.
fn volume(torn: &Arc<Torn>, cipher: &str, path: DataPath, flags: &str) -> Arc<Volume> {
    let key = match cipher {
        _ if cipher.starts_with("cipher_null") => "-".to_owned(),
        _ if cipher.contains("xts") => "0123456789abcdef".repeat(8),
        _ => "0123456789abcdef".repeat(4),
    };
    let count = 1 + flags.split_whitespace().count();
    let sectors = SIZE / 512;
    let table =
        format!("0 {sectors} crypt {cipher} {key} 0 disk 0 {count} sector_size:4096 {flags}");
    let table = CryptTable::parse(&table).unwrap();
    let backend: Arc<dyn Backend> = Arc::clone(torn) as _;
    let volume = Volume::start(table, path, |_| Ok(Arc::clone(&backend))).unwrap();
    let mut data = vec![b'-'; SIZE];
    volume.write(0, &mut data, Durability::Cached).unwrap();
    Arc::new(volume)
}

fn write_part(volume: &Volume) {
    let mut part = [b'+'; PART.end - PART.start];
    volume
        .write(PART.start as u64, &mut part, Durability::Cached)
        .unwrap();
}

/// Offset and length of a read, in bytes.
type Place = (u64, usize);

/// The sector, part of it, a read in several pieces, and one that is split over processors.
const PLACES: [Place; 4] = [(0, SECTOR), (700, 500), (0, 100 << 10), (0, SIZE)];

fn check(place: Place, read: &[u8], case: &str) {
    for (at, &byte) in (place.0 as usize..).zip(read) {
        let written = PART.contains(&at) && byte == b'+';
        assert!(
            byte == b'-' || written,
            "{case}: {byte} at {at} of {place:?}"
        );
    }
}

/// Reads while the part is written in the middle of the read, and then while the read is in the middle of the
/// write.
fn torn_both_ways(
    case: &str,
    torn: &Arc<Torn>,
    volume: &Arc<Volume>,
    place: Place,
    read: impl Fn(&Volume, Place) -> Vec<u8> + Send + Clone + 'static,
) {
    let same = Arc::clone(volume);
    *torn.in_read.lock().unwrap() = Some(Box::new(move || {
        // By another thread: this one has its request in flight.
        thread::spawn(move || write_part(&same)).join().unwrap();
    }));
    check(place, &read(volume, place), case);
    assert!(torn.in_read.lock().unwrap().is_none(), "{case}: not torn");

    let (ended, has_ended) = channel();
    let (threads, started) = channel();
    let (same, place_again) = (Arc::clone(volume), place);
    *torn.in_write.lock().unwrap() = Some(Box::new(move || {
        let other = move || {
            let bytes = read(&same, place_again);
            // No receiver is left where it had to wait.
            let _ = ended.send(());
            bytes
        };
        threads.send(thread::spawn(other)).unwrap();
        let _ = has_ended.recv_timeout(GRACE);
    }));
    write_part(volume);
    let bytes = started.recv().unwrap().join().unwrap();
    check(place, &bytes, case);
}

fn by_call(volume: &Volume, (offset, len): Place) -> Vec<u8> {
    let mut read = vec![0; len];
    volume.read(offset, &mut read).unwrap();
    read
}

#[test]
fn bytes_that_nobody_writes_are_read_as_they_are_in_every_mode() {
    for cipher in CIPHERS {
        let torn = Torn::in_memory(Says::AsInner);
        let volume = volume(&torn, cipher, DataPath::Inline, "");
        torn_both_ways(cipher, &torn, &volume, PLACES[0], by_call);
    }
}

#[test]
fn bytes_that_nobody_writes_are_read_as_they_are_on_every_data_path() {
    for (path, flags) in [
        (DataPath::Inline, ""),
        (DataPath::Auto, ""),
        (DataPath::Queued, ""),
        (DataPath::Queued, "same_cpu_crypt submit_from_crypt_cpus"),
        (DataPath::Queued, "no_read_workqueue"),
        (DataPath::Queued, "no_write_workqueue"),
    ] {
        for medium in [Says::AsInner, Says::Remote] {
            let torn = Torn::in_memory(medium);
            let volume = volume(&torn, CBC, path, flags);
            for place in PLACES {
                let case = format!("{path} {flags}");
                torn_both_ways(&case, &torn, &volume, place, by_call);
            }
        }
    }
}

fn by_queue(engine: Engine) -> impl Fn(&Volume, Place) -> Vec<u8> + Send + Clone + 'static {
    move |volume, (offset, len)| {
        let mapping = volume.mapping();
        let mut queue = Queue::new(volume, &mapping, engine, &[]).unwrap().unwrap();
        let slot = queue.take().unwrap();
        queue.start_read(slot, offset, len);
        queue.submit().unwrap();
        let completion = loop {
            match queue.next_completion() {
                Some(completion) => break completion,
                None => queue.wait().unwrap(),
            }
        };
        completion.result.unwrap();
        let mut read = vec![0; len];
        queue.collect(&completion.slot, &mut read);
        queue.give_back(completion.slot);
        assert!(queue.is_idle());
        read
    }
}

#[test]
fn bytes_that_nobody_writes_are_read_as_they_are_by_threads() {
    for path in [DataPath::Auto, DataPath::Queued] {
        let torn = Torn::in_memory(Says::Remote);
        let volume = volume(&torn, CBC, path, "");
        for place in &PLACES[..3] {
            let read = by_queue(Engine::Threads);
            torn_both_ways("threads", &torn, &volume, *place, read);
        }
    }
}

/// The kernel's part of a read brings the old beginning of the sector, and the call that reads the rest of it
/// the new end.
#[test]
fn bytes_that_nobody_writes_are_read_as_they_are_by_a_ring() {
    if !Engine::IoUring.is_allowed() {
        assert!(std::env::var_os("CI").is_none(), "no ring in CI");
        println!("skipped: no io_uring here");
        return;
    }
    for cipher in CIPHERS {
        for place in &PLACES[..3] {
            let file = tempfile::tempfile().unwrap();
            let torn = Torn::in_memory(Says::Short(file));
            let volume = volume(&torn, cipher, DataPath::Auto, "");
            let Says::Short(file) = &torn.medium else {
                panic!("a file");
            };
            let mut beginning = [0; TEAR];
            torn.read_at(0, &mut beginning).unwrap();
            file.write_all_at(&beginning, 0).unwrap();
            torn_both_ways(cipher, &torn, &volume, *place, by_queue(Engine::IoUring));
        }
    }
}

/// `fetch_now` leaves a sector alone that is being stored.
#[test]
fn a_fetch_at_once_gets_no_sector_that_is_being_stored() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk.img");
    let file = FileBackend::create(&path, SIZE as u64).unwrap();
    let torn = Torn::on(file, Says::AsInner);
    let volume = volume(&torn, CBC, DataPath::Auto, "");
    let fetch = |volume: &Volume, offset: u64| {
        let mut read = vec![0; SECTOR];
        let fetched = volume.fetch_now(offset, &mut [IoSliceMut::new(&mut read)]);
        fetched.map(|(len, stored)| {
            assert_eq!(len, SECTOR);
            stored.decrypt(offset, &mut read);
            stored.check().unwrap();
            read
        })
    };
    assert_eq!(fetch(&volume, 0), Some(vec![b'-'; SECTOR]));
    let (fetched, seen) = channel();
    let same = Arc::clone(&volume);
    *torn.in_write.lock().unwrap() = Some(Box::new(move || {
        let other = thread::spawn(move || [fetch(&same, 0), fetch(&same, 1 << 20)]);
        fetched.send(other.join().unwrap()).unwrap();
    }));
    write_part(&volume);
    let [same_region, another] = seen.recv().unwrap();
    assert!(same_region.is_none(), "in the middle of a store");
    assert_eq!(another, Some(vec![b'-'; SECTOR]));
    check(PLACES[0], &fetch(&volume, 0).unwrap(), "afterwards");
}

#[test]
fn a_panic_in_the_middle_of_a_store_holds_up_nobody() {
    let torn = Torn::in_memory(Says::AsInner);
    let volume = volume(&torn, CBC, DataPath::Inline, "");
    *torn.in_write.lock().unwrap() = Some(Box::new(|| panic!("on purpose")));
    assert!(catch_unwind(AssertUnwindSafe(|| write_part(&volume))).is_err());
    let mut sector = [b'-'; SECTOR];
    volume.write(0, &mut sector, Durability::Cached).unwrap();
    write_part(&volume);
    check(PLACES[0], &by_call(&volume, PLACES[0]), "after a panic");
}

/// A device that takes whole blocks only, on which a linear target lies: a part of a block is read, changed and
/// written, and something happens in between.
struct Blocky {
    inner: FileBackend,
    /// The file as a ring reaches it, where that is not the inner one's.
    file: Option<File>,
    blocks: BlockLocks,
    between: Mutex<Option<Hook>>,
}

const BLOCK: u64 = 512;

impl Backend for Blocky {
    fn info(&self) -> Info {
        self.inner.info()
    }

    fn medium(&self) -> Medium<'_> {
        let Medium::File { file, .. } = self.inner.medium() else {
            panic!("a file");
        };
        Medium::File {
            file: self.file.as_ref().map_or(file, AsFd::as_fd),
            start: 0,
            alignment: BLOCK,
            cached: None,
            blocks: Some(&self.blocks),
        }
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), BackendError> {
        self.inner.read_at(offset, buffer)
    }

    /// Whole blocks, or part of one.
    fn write_at(&self, offset: u64, data: &[u8], how: Durability) -> Result<(), BackendError> {
        let within = (offset % BLOCK) as usize;
        if within == 0 && data.len().is_multiple_of(BLOCK as usize) {
            let _shared = self.blocks.share(&(offset..offset + data.len() as u64));
            return self.inner.write_at(offset, data, how);
        }
        let _alone = self.blocks.take(offset);
        let mut block = [0; BLOCK as usize];
        let start = offset - within as u64;
        self.inner.read_at(start, &mut block)?;
        let hook = self.between.lock().unwrap().take();
        if let Some(hook) = hook {
            hook();
        }
        block[within..within + data.len()].copy_from_slice(data);
        self.inner.write_at(start, &block, how)
    }

    fn flush(&self) -> Result<(), BackendError> {
        self.inner.flush()
    }

    fn discard(&self, range: Range<u64>) -> Result<(), BackendError> {
        self.inner.discard(range)
    }

    fn write_zeroes(&self, range: Range<u64>, how: Durability) -> Result<(), BackendError> {
        self.inner.write_zeroes(range, how)
    }

    fn lock_header(&self, kind: LockKind) -> Result<HeaderLock, BackendError> {
        self.inner.lock_header(kind)
    }
}

#[test]
fn a_change_of_a_part_of_a_block_undoes_no_write_by_any_engine() {
    for engine in [Engine::IoUring, Engine::Threads] {
        if !engine.is_allowed() {
            assert!(std::env::var_os("CI").is_none(), "{engine} in CI");
            println!("skipped: {engine}");
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk.img");
        let blocky = Arc::new(Blocky {
            inner: FileBackend::create(&path, SIZE as u64).unwrap(),
            file: None,
            blocks: BlockLocks::new(),
            between: Mutex::default(),
        });
        let table = CryptTable::parse(&format!("0 {} linear disk 0", SIZE / 512)).unwrap();
        let backend: Arc<dyn Backend> = Arc::clone(&blocky) as _;
        let volume = Volume::start(table, DataPath::Auto, |_| Ok(Arc::clone(&backend))).unwrap();
        let volume = Arc::new(volume);
        let same = Arc::clone(&volume);
        let (ended, has_ended) = channel();
        let (threads, started) = channel();
        *blocky.between.lock().unwrap() = Some(Box::new(move || {
            let other = move || {
                let mapping = same.mapping();
                let queue = Queue::new(&same, &mapping, engine, &[]);
                let mut queue = queue.unwrap().unwrap();
                let slot = queue.take().unwrap();
                queue.start_write(slot, 0, &mut [b'='; 4096]);
                queue.settle().unwrap();
                let completion = queue.next_completion().unwrap();
                completion.result.unwrap();
                queue.give_back(completion.slot);
                let _ = ended.send(());
            };
            threads.send(thread::spawn(other)).unwrap();
            let _ = has_ended.recv_timeout(GRACE);
        }));
        volume
            .write(600, &mut [b'+'; 10], Durability::Cached)
            .unwrap();
        started.recv().unwrap().join().unwrap();
        for (at, byte) in by_call(&volume, (0, 4096)).into_iter().enumerate() {
            let part = (600..610).contains(&at) && byte == b'+';
            assert!(byte == b'=' || part, "{engine}: {byte} at {at}");
        }
    }
}

/// Writes that the kernel refuses a ring are done by calls, while a change of a part of a block waits for all of them.
#[test]
fn a_write_that_a_ring_leaves_undone_waits_with_no_locks() {
    if !Engine::IoUring.is_allowed() {
        assert!(std::env::var_os("CI").is_none(), "io_uring in CI");
        println!("skipped: io_uring");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk.img");
    let inner = FileBackend::create(&path, SIZE as u64).unwrap();
    let blocky = Arc::new(Blocky {
        inner,
        // Not open for writing.
        file: Some(File::open(&path).unwrap()),
        blocks: BlockLocks::new(),
        between: Mutex::default(),
    });
    let (ended, has_ended) = channel();
    // A thread of its own: where it waits for itself, this must not.
    let same = Arc::clone(&blocky);
    thread::spawn(move || {
        let table = CryptTable::parse(&format!("0 {} linear disk 0", SIZE / 512)).unwrap();
        let backend: Arc<dyn Backend> = Arc::clone(&same) as _;
        let volume = Volume::start(table, DataPath::Auto, |_| Ok(Arc::clone(&backend))).unwrap();
        let mapping = volume.mapping();
        let queue = Queue::new(&volume, &mapping, Engine::IoUring, &[]);
        let mut queue = queue.unwrap().unwrap();
        for at in [0, 4096] {
            let slot = queue.take().unwrap();
            queue.start_write(slot, at, &mut [b'='; 4096]);
        }
        let change = thread::spawn(move || {
            same.write_at(600, b"+", Durability::Cached).unwrap();
        });
        thread::sleep(GRACE);
        queue.settle().unwrap();
        while let Some(completion) = queue.next_completion() {
            completion.result.unwrap();
            queue.give_back(completion.slot);
        }
        change.join().unwrap();
        ended.send(by_call(&volume, (0, 8192))).unwrap();
    });
    let bytes = has_ended.recv_timeout(Duration::from_secs(60)).unwrap();
    for (at, byte) in bytes.into_iter().enumerate() {
        assert!(
            byte == b'=' || (at == 600 && byte == b'+'),
            "{byte} at {at}"
        );
    }
}
