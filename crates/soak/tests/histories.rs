//! Random histories: none breaks a promise, and a disk that lies is found out.

#![allow(clippy::panic, reason = "a failing test may panic")]

use scrim_soak::{Canary, Tally, history};

/// Histories of each of the tests below; each has seeds of its own.
const EACH: u64 = 2600;

fn all_hold(first: u64) {
    let mut tally = Tally::default();
    for seed in first..first + EACH {
        match history::run(seed, None) {
            Ok(one) => tally.add(one),
            Err(broken) => panic!("{broken}"),
        }
    }
    println!("{tally:?}");
    assert_eq!(tally.histories, EACH);
    for (what, count) in [
        ("threads", tally.threaded),
        ("LUKS headers", tally.luks),
        ("queues", tally.queued),
        ("exchanged tables", tally.exchanges),
        ("changes of headers", tally.changes),
        ("cuts in the middle", tally.cuts),
        ("failed requests", tally.failures),
    ] {
        assert!(count > 0, "no history of seeds from {first} has {what}");
    }
}

#[test]
fn the_first_histories_hold() {
    all_hold(0);
}

#[test]
fn the_second_histories_hold() {
    all_hold(1_000_000);
}

#[test]
fn the_third_histories_hold() {
    all_hold(2_000_000);
}

#[test]
fn the_fourth_histories_hold() {
    all_hold(3_000_000);
}

/// A judge that lets a lying disk pass is of no use: each lie is found within this many histories.
#[test]
fn a_disk_that_lies_is_found_out() {
    const PATIENCE: u64 = 400;
    for canary in [
        Canary::SkipsFlush(1),
        Canary::SkipsEveryFlush(3),
        Canary::CachesDurableWrites,
        Canary::HidesErrors,
        Canary::Misplaces(5),
        Canary::AnswersEarly(3),
    ] {
        let found = (0..PATIENCE).filter_map(|seed| history::run(seed, Some(canary)).err());
        let mut found = found.take(3);
        let Some(first) = found.next() else {
            panic!("{canary:?} was not found in {PATIENCE} histories");
        };
        println!("{canary:?}: {} and {} more", first.what, found.count());
    }
}

/// The same holds where only header operations are lied to: by the header alone it must be seen.
#[test]
fn a_disk_that_lies_to_header_operations_is_found_out() {
    const PATIENCE: usize = 400;
    for canary in [
        Canary::SkipsFlushOfHeader(1),
        Canary::SkipsFlushOfHeader(2),
        Canary::SkipsFlushOfHeader(3),
        Canary::HoldsBackWriteOfHeader(1),
        Canary::HoldsBackWriteOfHeader(2),
    ] {
        let seeds = (0..).filter(|seed| history::has_header(*seed));
        let mut seeds = seeds.take(PATIENCE);
        match seeds.find_map(|seed| history::run(seed, Some(canary)).err()) {
            Some(broken) => println!("{canary:?}: {}", broken.what),
            None => panic!("{canary:?} was not found in {PATIENCE} histories"),
        }
    }
}
