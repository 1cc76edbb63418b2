//! Queues on storage of other machines: long requests go there whole, and only so many at a time.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

use std::ops::Range;
use std::sync::{Arc, Mutex};

use scrim_backend::{
    Backend, BackendError, HeaderLock, Info, LockKind, Medium, MemoryBackend, Operation,
};
use scrim_sys::memory::DataBuffer;
use scrim_volume::queue::{Engine, Lengths, Queue, SLOT, SLOTS, Slot};
use scrim_volume::{CryptTable, DataPath, Durability, Volume};

const MIB: usize = 1 << 20;
const SIZE: usize = 40 * MIB;

/// A machine that notes the offset and length of each request, and fails those for one place.
struct Elsewhere {
    memory: MemoryBackend,
    longest: usize,
    broken: u64,
    requests: Mutex<Vec<(u64, usize)>>,
}

impl Elsewhere {
    fn new(longest: usize, broken: u64) -> Arc<Self> {
        Arc::new(Self {
            memory: MemoryBackend::new(vec![0; SIZE]),
            longest,
            broken,
            requests: Mutex::default(),
        })
    }

    fn note(&self, offset: u64, len: usize) -> Result<(), BackendError> {
        self.requests.lock().unwrap().push((offset, len));
        if (offset..offset + len as u64).contains(&self.broken) {
            let operation = Operation::Read {
                offset,
                len: len as u64,
            };
            let error = std::io::Error::from_raw_os_error(5);
            return Err(BackendError::new(operation, "elsewhere", error));
        }
        Ok(())
    }

    /// Returns the requests since the last call, in order.
    fn noted(&self) -> Vec<(u64, usize)> {
        let mut noted = std::mem::take(&mut *self.requests.lock().unwrap());
        noted.sort_unstable();
        noted
    }
}

impl Backend for Elsewhere {
    fn info(&self) -> Info {
        self.memory.info()
    }

    fn medium(&self) -> Medium<'_> {
        Medium::Remote {
            longest: self.longest,
            alone: self.longest / 2,
        }
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), BackendError> {
        self.note(offset, buffer.len())?;
        self.memory.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, data: &[u8], how: Durability) -> Result<(), BackendError> {
        self.note(offset, data.len())?;
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

fn volume(path: DataPath, backends: &[(&str, Arc<dyn Backend>)]) -> Volume {
    let key = "0123456789abcdef".repeat(8);
    let len = 65536 / backends.len();
    let lines = backends.iter().enumerate().map(|(at, (name, _))| {
        let start = at * len;
        format!(
            "{start} {len} crypt aes-xts-plain64 {key} {start} {name} 2048 1 sector_size:4096\n"
        )
    });
    let table = CryptTable::parse(&lines.collect::<String>()).unwrap();
    let open = |wanted: &str| {
        let mut all = backends.iter();
        Ok(Arc::clone(
            &all.find(|(name, _)| *name == wanted).unwrap().1,
        ))
    };
    Volume::start(table, path, open).unwrap()
}

fn lengths(path: DataPath, engine: Engine, backends: &[(&str, Arc<dyn Backend>)]) -> Lengths {
    let volume = volume(path, backends);
    let mapping = volume.mapping();
    let queue = Queue::new(&volume, &mapping, engine, &[]).unwrap();
    queue.unwrap().lengths()
}

#[test]
fn requests_are_as_long_as_all_storage_takes_them() {
    let inline = DataPath::Auto;
    let remote = |longest| Elsewhere::new(longest, u64::MAX) as Arc<dyn Backend>;
    let local: Arc<dyn Backend> = Arc::new(MemoryBackend::new(vec![0; SIZE]));
    for (takes, expected) in [
        (4096, SLOT),
        (SLOT, SLOT),
        (300 << 10, 256 << 10),
        (MIB, MIB),
        (4 * MIB, MIB),
        (usize::MAX, MIB),
    ] {
        let found = lengths(inline, Engine::Threads, &[("a", remote(takes))]);
        assert_eq!(found.longest, expected, "{takes}");
        assert!(found.alone <= found.longest && found.alone >= SLOT);
    }
    let several = [("a", remote(MIB)), ("b", remote(256 << 10))];
    let found = lengths(inline, Engine::Threads, &several);
    assert_eq!((found.longest, found.alone), (256 << 10, SLOT));
    let local_lengths = Lengths {
        longest: SLOT,
        alone: SLOT,
    };
    let mixed = [("a", remote(MIB)), ("b", Arc::clone(&local))];
    assert_eq!(lengths(inline, Engine::Threads, &mixed), local_lengths);
    let found = lengths(inline, Engine::Threads, &[("a", local)]);
    assert_eq!(found, local_lengths);
    let queued = lengths(DataPath::Queued, Engine::Threads, &[("a", remote(MIB))]);
    assert_eq!(queued, local_lengths, "dm-crypt's threads share a request");
}

/// Takes a completion, and gives its slot back.
fn end(queue: &mut Queue<'_>) -> bool {
    queue.settle().unwrap();
    let completion = queue.next_completion().unwrap();
    let is_ok = completion.result.is_ok();
    queue.give_back(completion.slot);
    is_ok
}

#[test]
fn long_requests_go_whole_and_fail_alone() {
    let backend = Elsewhere::new(MIB, (9 * MIB) as u64 + 5000);
    let volume = volume(DataPath::Auto, &[("a", Arc::clone(&backend) as _)]);
    let mapping = volume.mapping();
    let queue = Queue::new(&volume, &mapping, Engine::Threads, &[]).unwrap();
    let mut queue = queue.unwrap();
    let data: Vec<u8> = (0..=250).cycle().take(MIB).collect();
    let mut buffer = DataBuffer::zeroed(MIB);
    // Its own buffer and another one of the same length.
    for (at, len) in [(2, MIB), (3, MIB - 4096), (4, 5)] {
        buffer[..len].copy_from_slice(&data[..len]);
        let slot = queue.take_long().unwrap();
        queue.start_write_of(slot, (at * MIB) as u64, &mut buffer, len);
        assert!(end(&mut queue));
        assert_eq!(buffer.len(), MIB);
        let slot = queue.take_long().unwrap();
        queue.start_read(slot, (at * MIB) as u64, len);
        queue.settle().unwrap();
        let completion = queue.next_completion().unwrap();
        assert!(queue.plaintext(&completion.slot).unwrap() == &data[..len]);
        let mut copy = vec![0; len];
        queue.collect(&completion.slot, &mut copy);
        assert!(copy == data[..len]);
        queue.give_back(completion.slot);
    }
    let start = |at: usize| (at * MIB) as u64;
    let whole = [(start(3), MIB), (start(4), MIB - 4096)];
    let noted = backend.noted();
    for request in whole {
        assert_eq!(noted.iter().filter(|noted| **noted == request).count(), 2);
    }
    assert!(
        noted
            .iter()
            .all(|noted| whole.contains(noted) || noted.1 == 4096)
    );
    // One that is broken, between two others.
    for at in [7, 8, 9] {
        let slot = queue.take_long().unwrap();
        queue.start_read(slot, start(at), MIB);
    }
    queue.settle().unwrap();
    let mut failed = 0;
    while let Some(completion) = queue.next_completion() {
        failed += usize::from(completion.result.is_err());
        queue.give_back(completion.slot);
    }
    assert_eq!(failed, 1);
    assert_eq!(backend.noted(), [8, 9, 10].map(|at| (start(at), MIB)));
}

/// Long requests take some of the slots; the others remain for short ones, and all come back.
#[test]
fn long_requests_in_flight_are_few() {
    let backend = Elsewhere::new(MIB, u64::MAX);
    let volume = volume(DataPath::Auto, &[("a", backend as _)]);
    let mapping = volume.mapping();
    let queue = Queue::new(&volume, &mapping, Engine::Threads, &[]).unwrap();
    let mut queue = queue.unwrap();
    for _ in 0..3 {
        let mut long: Vec<Slot> = Vec::new();
        while queue.has_free_long_slot() {
            long.extend(queue.take_long());
        }
        assert_eq!(long.len(), 8);
        assert!(queue.take_long().is_none() && queue.has_free_slot());
        let short: Vec<Slot> = std::iter::from_fn(|| queue.take()).collect();
        assert_eq!(short.len() + long.len(), SLOTS);
        for (at, slot) in long.into_iter().chain(short).enumerate() {
            let len = if at < 8 { MIB } else { 4096 };
            queue.start_read(slot, 0, len);
        }
        for _ in 0..SLOTS {
            assert!(end(&mut queue));
        }
        assert!(queue.is_idle());
    }
}
