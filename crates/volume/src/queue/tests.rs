//! Memory of a queue to storage of other machines.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use scrim_backend::{Backend, BackendError, HeaderLock, Info, LockKind, Medium, MemoryBackend};

use super::slot::LONG_SLOT;
use super::*;
use crate::{CryptTable, DataPath};

struct Elsewhere(MemoryBackend);

impl Backend for Elsewhere {
    fn info(&self) -> Info {
        self.0.info()
    }

    fn medium(&self) -> Medium<'_> {
        Medium::Remote {
            longest: LONG_SLOT,
            alone: LONG_SLOT,
        }
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), BackendError> {
        self.0.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, data: &[u8], how: Durability) -> Result<(), BackendError> {
        self.0.write_at(offset, data, how)
    }

    fn flush(&self) -> Result<(), BackendError> {
        self.0.flush()
    }

    fn discard(&self, range: Range<u64>) -> Result<(), BackendError> {
        self.0.discard(range)
    }

    fn write_zeroes(&self, range: Range<u64>, how: Durability) -> Result<(), BackendError> {
        self.0.write_zeroes(range, how)
    }

    fn lock_header(&self, kind: LockKind) -> Result<HeaderLock, BackendError> {
        self.0.lock_header(kind)
    }
}

fn volume() -> Volume {
    let key = "0123456789abcdef".repeat(8);
    let table = format!("0 65536 crypt aes-xts-plain64 {key} 0 a 0\n");
    let open = |_: &str| {
        let memory = MemoryBackend::new(vec![0; 32 << 20]);
        Ok(Arc::new(Elsewhere(memory)) as Arc<dyn Backend>)
    };
    Volume::start(CryptTable::parse(&table).unwrap(), DataPath::Auto, open).unwrap()
}

/// Bytes of the buffers in the slots, none of which is in flight.
fn bytes(queue: &Queue<'_>) -> usize {
    let RunningEngine::Workers(workers) = &queue.engine else {
        panic!("not a pool");
    };
    workers.slots.buffer_bytes()
}

/// Waits until all requests have ended, and gives their slots back.
fn end_all(queue: &mut Queue<'_>) {
    queue.settle().unwrap();
    while let Some(completion) = queue.next_completion() {
        completion.result.unwrap();
        queue.give_back(completion.slot);
    }
    assert!(queue.is_idle());
}

#[test]
fn short_pieces_of_long_buffers_leave_short_buffers() {
    let volume = volume();
    let mapping = volume.mapping();
    let queue = Queue::new(&volume, &mapping, Engine::Threads, &[]).unwrap();
    let mut queue = queue.unwrap();
    let mut gathered = DataBuffer::zeroed(LONG_SLOT);
    for len in [512, SLOT] {
        let mut slots = 0;
        while let Some(slot) = queue.take() {
            queue.start_write_of(slot, 0, &mut gathered, len);
            assert_eq!(gathered.len(), LONG_SLOT);
            slots += 1;
        }
        assert_eq!(slots, SLOTS);
        end_all(&mut queue);
        assert_eq!(bytes(&queue), SLOTS * SLOT);
    }
    // Long ones beside them: the bound of a queue.
    for _ in 0..3 {
        while let Some(slot) = queue.take_long() {
            queue.start_write_of(slot, 0, &mut gathered, SLOT + 1);
        }
        while let Some(slot) = queue.take() {
            queue.start_write_of(slot, 0, &mut gathered, SLOT);
        }
        end_all(&mut queue);
    }
    let bound = LONG_SLOTS * LONG_SLOT + (SLOTS - LONG_SLOTS) * SLOT;
    assert_eq!(bytes(&queue), bound);
}

#[test]
fn an_idle_queue_gives_its_long_buffers_back() {
    let volume = volume();
    let mapping = volume.mapping();
    let event = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
    let queue = Queue::new(&volume, &mapping, Engine::Threads, &[event.as_fd()]).unwrap();
    let mut queue = queue.unwrap();
    let long = queue.take_long().unwrap();
    queue.start_read(long, 0, LONG_SLOT);
    let short = queue.take().unwrap();
    queue.start_read(short, 0, 512);
    end_all(&mut queue);
    assert_eq!(bytes(&queue), LONG_SLOT + SLOT);
    // Not while a slot is taken, whose data may be needed.
    let long = queue.take_long().unwrap();
    wait_for(&mut queue, &event);
    assert_eq!(bytes(&queue), LONG_SLOT + SLOT);
    queue.start_read(long, 0, 512);
    end_all(&mut queue);
    // On a busy machine the event may come before the wait begins.
    for _ in 0..9 {
        wait_for(&mut queue, &event);
        if bytes(&queue) == SLOT {
            break;
        }
    }
    assert_eq!(bytes(&queue), SLOT);
    let long = queue.take_long().unwrap();
    queue.start_read(long, 0, LONG_SLOT);
    end_all(&mut queue);
}

/// Lets the queue wait for an event that comes a while later.
fn wait_for(queue: &mut Queue<'_>, event: &OwnedFd) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(1500));
            rustix::io::write(event, &1u64.to_ne_bytes()).unwrap();
        });
        let mut seen = [0; 8];
        while !is_readable(event) {
            queue.wait().unwrap();
        }
        rustix::io::read(event, &mut seen).unwrap();
    });
}

fn is_readable(event: &OwnedFd) -> bool {
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let mut sources = [PollFd::new(event, PollFlags::IN)];
    poll(&mut sources, Some(&now)).unwrap() > 0
}

#[test]
fn short_requests_take_slots_for_long_ones_last() {
    let volume = volume();
    let mapping = volume.mapping();
    let queue = Queue::new(&volume, &mapping, Engine::Threads, &[]).unwrap();
    let mut queue = queue.unwrap();
    for _ in 0..3 {
        let short: Vec<Slot> = (LONG_SLOTS..SLOTS).map(|_| queue.take().unwrap()).collect();
        let long: Vec<Slot> = std::iter::from_fn(|| queue.take_long()).collect();
        assert_eq!(long.len(), LONG_SLOTS);
        for slot in short.into_iter().chain(long) {
            queue.start_read(slot, 0, 512);
        }
        end_all(&mut queue);
    }
    let all = std::iter::from_fn(|| queue.take()).count();
    assert_eq!(all, SLOTS);
}
