//! Random work of several threads, while the server loses connections and dies with what it has not
//! flushed; a model says what has to be read.

use std::sync::atomic::Ordering;
use std::time::Duration;

use scrim_backend::{Backend, Durability, RemoteBackend};
use scrim_nbd::wire::{cmd, flag};
use scrim_seeded::Random;

use crate::server::{Fate, Server, USUAL, Way};

const BLOCK: u64 = 512;
/// Each thread has every fourth block of these to itself.
const BLOCKS: u64 = 256;
/// Number of blocks behind them that all threads write.
const COMMON: u64 = 8;
const THREADS: u64 = 4;
const ROUNDS: usize = 300;

/// Contents of a block, and the contents that it may have on the medium.
#[derive(Clone, Default)]
struct Model {
    now: u64,
    /// Contents at the last flush, and all since.
    may_survive: Vec<u64>,
}

fn contents(value: u64) -> Vec<u8> {
    value.to_le_bytes().repeat(64)
}

/// Kinds of requests that a run makes more often.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Habit {
    /// All kinds of requests.
    Mixed,
    /// Durable writes over others, and no flushes that would cover those.
    Durable,
}

impl Habit {
    fn choose(self, number: u64) -> u64 {
        match (self, number) {
            (Self::Durable, 0 | 9..12) => 1,
            _ => number,
        }
    }
}

/// One thread's work on its own blocks and the common ones; what it knows in the end.
fn work(backend: &RemoteBackend, thread: u64, seed: u64, habit: Habit) -> Vec<Model> {
    let mut random = Random::of(seed, thread);
    let mut mine = vec![
        Model {
            now: 0,
            may_survive: vec![0],
        };
        (BLOCKS / THREADS) as usize
    ];
    for round in 0..ROUNDS {
        let number = random.below(BLOCKS / THREADS);
        let offset = (number * THREADS + thread) * BLOCK;
        let model = &mut mine[number as usize];
        let value = (round as u64) << 8 | thread | 0x80;
        match habit.choose(random.below(16)) {
            0 => {
                backend.flush().unwrap();
                for model in &mut mine {
                    model.may_survive = vec![model.now];
                }
            }
            1 => {
                let data = contents(value);
                backend
                    .write_at(offset, &data, Durability::Durable)
                    .unwrap();
                model.now = value;
                model.may_survive = vec![value];
            }
            2 => {
                backend
                    .write_zeroes(offset..offset + BLOCK, Durability::Cached)
                    .unwrap();
                model.now = 0;
                model.may_survive.push(0);
            }
            3 | 4 => {
                let common = (BLOCKS + random.below(COMMON)) * BLOCK;
                let len = 1 + random.below(3);
                let data = contents(value).repeat(len as usize);
                backend.write_at(common, &data, Durability::Cached).unwrap();
            }
            5..9 => {
                backend
                    .write_at(offset, &contents(value), Durability::Cached)
                    .unwrap();
                model.now = value;
                model.may_survive.push(value);
            }
            _ => {
                let mut read = vec![0; BLOCK as usize];
                backend.read_at(offset, &mut read).unwrap();
                assert!(read == contents(model.now), "block {number} of {thread}");
            }
        }
    }
    mine
}

fn common(backend: &RemoteBackend) -> Vec<u8> {
    let mut read = vec![0; ((COMMON + 2) * BLOCK) as usize];
    backend.read_at(BLOCKS * BLOCK, &mut read).unwrap();
    read
}

fn run(seed: u64, flags: u16, way: Way, habit: Habit) {
    let size = (BLOCKS + COMMON + 2) * BLOCK;
    let mut random = Random::new(seed);
    // What is not flushed for long is not written again whole where losses are frequent.
    let among = match habit {
        Habit::Mixed => 600,
        Habit::Durable => 3000,
    };
    let server = Server::start_by(way, size as usize, flags, move |_| {
        match random.below(among) {
            0 => Fate::Crash,
            1 => Fate::CrashAfter,
            2 => Fate::LostBefore,
            3 => Fate::LostAfter,
            4 => Fate::Truncated(9),
            _ => Fate::Served,
        }
    });
    let backend = server.open(Duration::from_secs(60));
    let models: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let backend = &backend;
                scope.spawn(move || work(backend, thread, seed, habit))
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    server.change_plan(|_| Fate::Served);
    // Of several writes of a place, the one that counts stays the same one.
    let before = common(&backend);
    server.crash();
    assert!(before == common(&backend), "seed {seed}: common blocks");
    for (thread, mine) in models.iter().enumerate() {
        for (number, model) in mine.iter().enumerate() {
            let offset = (number as u64 * THREADS + thread as u64) * BLOCK;
            let mut read = vec![0; BLOCK as usize];
            backend.read_at(offset, &mut read).unwrap();
            assert!(
                read == contents(model.now),
                "seed {seed}: block {number} of {thread}"
            );
        }
    }
    assert!(
        backend.status().reconnects > 0,
        "seed {seed}: nothing has happened"
    );
    // Now the server dies again, and once more with this side, while that writes again what was lost.
    let durable = die_in_recovery(&server, &backend, Random::new(seed).below(40));
    for (thread, mine) in models.iter().enumerate() {
        for (number, model) in mine.iter().enumerate() {
            let start = (number * THREADS as usize + thread) * BLOCK as usize;
            let found = &durable[start..start + BLOCK as usize];
            let survives = model
                .may_survive
                .iter()
                .any(|&value| found == contents(value));
            assert!(
                survives,
                "seed {seed}: block {number} of {thread} after all died"
            );
        }
    }
}

/// Returns the contents of the medium after the server has died, and died again after `writes` of the writes that
/// it is sent in the recovery, or all of them.
fn die_in_recovery(server: &Server, backend: &RemoteBackend, writes: u64) -> Vec<u8> {
    let mut left = writes;
    server.change_plan(move |asked| {
        let more = left > 0;
        if matches!(asked.kind, cmd::WRITE | cmd::WRITE_ZEROES) {
            left = left.saturating_sub(1);
        }
        match more {
            true => Fate::Served,
            false => Fate::LostBefore,
        }
    });
    let accepted = || server.shared.accepted.load(Ordering::SeqCst);
    let before = accepted();
    server.crash();
    std::thread::scope(|scope| {
        let read = scope.spawn(|| backend.read_at(0, &mut [0; 512]));
        // A second attempt comes when the first has met its end.
        while !read.is_finished() && accepted() < before + 2 * 3 {
            std::thread::sleep(Duration::from_millis(1));
        }
        server.disk().crash();
        let durable = server.disk().durable.clone();
        server.change_plan(|_| Fate::Served);
        read.join().unwrap().unwrap();
        durable
    })
}

#[test]
fn what_was_acknowledged_is_read_and_what_was_flushed_survives() {
    for seed in 1..=6 {
        run(seed * 0x9e37_79b9, USUAL, Way::Plain, Habit::Mixed);
    }
}

#[test]
fn one_connection_and_no_fua_are_enough() {
    let flags = USUAL & !(flag::CAN_MULTI_CONN | flag::SEND_FUA | flag::SEND_WRITE_ZEROES);
    for seed in 1..=3 {
        run(seed * 0x1234_5677, flags, Way::Plain, Habit::Mixed);
    }
}

#[test]
fn what_was_written_durably_survives_whatever_comes_before_it_again() {
    for seed in 1..=12 {
        run(seed * 0x0bad_5eed, USUAL, Way::Plain, Habit::Durable);
    }
}

#[test]
fn under_tls_nothing_is_different() {
    for (seed, habit) in [(1, Habit::Mixed), (2, Habit::Mixed), (3, Habit::Durable)] {
        run(seed * 0x7135_a1b3, USUAL, Way::Tls, habit);
    }
}
