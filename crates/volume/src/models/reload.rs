//! A whole volume: requests on every way, and tables that are exchanged under them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use scrim_backend::{Backend, Durability, MemoryBackend};
use shuttle::thread;

use super::watched::{WAYS, Watched, Way};
use super::{hold, is_found_out};
use crate::path::kcryptd::JOB;
use crate::{Change, Resumed, Volume};

const LIMIT: Duration = Duration::MAX;

/// Orders of each model of a whole volume.
const ORDERS: usize = 2000;

fn start(way: Way, backend: &Arc<Watched>) -> Arc<Volume> {
    let open = |_: &str| Ok(Arc::clone(backend) as Arc<dyn Backend>);
    Arc::new(Volume::start(way.table("one"), way.2, open).unwrap())
}

/// Two jobs on the queues, several pieces where it is split, and parts of sectors at its ends, which it
/// shares with those of the next number.
fn place(number: u8) -> u64 {
    JOB as u64 - 1100 + 2000 * u64::from(number)
}

fn write_and_read_back(volume: &Volume, number: u8) {
    for round in 1..=2 {
        let byte = 16 * number + round;
        let mut data = [byte; 2000];
        let durability = if round == 1 {
            Durability::Cached
        } else {
            Durability::Durable
        };
        volume.write(place(number), &mut data, durability).unwrap();
        let mut seen = [0; 2000];
        volume.read(place(number), &mut seen).unwrap();
        assert!(seen == [byte; 2000], "another's, or an older one");
    }
}

/// Two threads with requests, beside what the third does meanwhile.
fn beside(volume: &Arc<Volume>, meanwhile: impl FnOnce(&Volume)) {
    let requesters = (0..2).map(|number| {
        let volume = Arc::clone(volume);
        thread::spawn(move || write_and_read_back(&volume, number))
    });
    let requesters: Vec<_> = requesters.collect();
    meanwhile(volume);
    for thread in requesters {
        thread.join().unwrap();
    }
    for number in 0..2 {
        let mut seen = [0; 2000];
        volume.read(place(number), &mut seen).unwrap();
        assert_eq!(seen, [16 * number + 2; 2000]);
    }
}

fn load(volume: &Volume, way: Way, device: &str, backend: &Arc<Watched>) {
    let open = |_: &str| Ok(Arc::clone(backend) as Arc<dyn Backend>);
    let loaded = volume.load(way.table(device), way.2, Change::OfMeaning, open);
    loaded.unwrap();
}

#[test]
fn requests_beside_each_other_on_every_way() {
    for way in WAYS {
        for slow in [false, true] {
            hold(ORDERS / 2, move || {
                let backend = Watched::on(&Watched::memory(), slow);
                beside(&start(way, &backend), |_| ());
            });
        }
    }
}

/// Exchange for a table on another device with the same data: all that was written to the old one is
/// durable before it is let go, and no thread uses it afterwards.
fn to_another_device(from: Way, to: Way, lets_go_early: bool) {
    let memory: Arc<MemoryBackend> = Watched::memory();
    let (one, two) = (Watched::on(&memory, false), Watched::on(&memory, true));
    beside(&start(from, &one), |volume| {
        load(volume, to, "two", &two);
        if lets_go_early {
            one.is_closed.store(true, Ordering::SeqCst);
        }
        assert_eq!(volume.resume(LIMIT).unwrap(), Resumed::OnNewTable);
        one.is_closed.store(true, Ordering::SeqCst);
        assert_eq!(one.unflushed.load(Ordering::SeqCst), 0, "not durable");
    });
}

#[test]
fn tables_are_exchanged_beside_requests() {
    for (index, from) in WAYS.into_iter().enumerate() {
        let to = WAYS[(index + 2) % WAYS.len()];
        hold(ORDERS, move || to_another_device(from, to, false));
    }
}

#[test]
fn who_lets_a_device_go_too_early_is_found_out() {
    is_found_out(ORDERS, || to_another_device(WAYS[2], WAYS[1], true));
}

#[test]
fn a_suspended_volume_leaves_its_storage_alone() {
    for way in [WAYS[1], WAYS[2]] {
        hold(ORDERS, move || {
            let backend = Watched::on(&Watched::memory(), false);
            beside(&start(way, &backend), |volume| {
                assert!(volume.suspend(LIMIT));
                backend.is_closed.store(true, Ordering::SeqCst);
                load(volume, WAYS[0], "one", &backend);
                thread::yield_now();
                backend.is_closed.store(false, Ordering::SeqCst);
                assert_eq!(volume.resume(LIMIT).unwrap(), Resumed::OnNewTable);
            });
        });
    }
}
