//! The simulated disk does what it says, and everything that it says it may do.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    reason = "a failing test may panic"
)]

use std::collections::BTreeSet;
use std::io::ErrorKind;

use scrim_backend::sim::{Call, Failure, Fault, Faults, SimBackend};
use scrim_backend::{Backend, Durability};
use scrim_seeded::Random;

const SECTOR: usize = 512;
const CACHED: Durability = Durability::Cached;
const DURABLE: Durability = Durability::Durable;

/// The first byte of each sector; all sectors must be of one byte.
fn sectors(disk: &SimBackend) -> Vec<u8> {
    let bytes = disk.contents();
    let first = |sector: &[u8]| {
        assert!(
            sector.iter().all(|&byte| byte == sector[0]),
            "a torn sector"
        );
        sector[0]
    };
    bytes.chunks(SECTOR).map(first).collect()
}

fn fail(call: Call, nth: u64, failure: Failure) -> Faults {
    Faults {
        failures: vec![Fault { call, nth, failure }],
        ..Faults::default()
    }
}

fn cut_at(nth: u64) -> Faults {
    Faults {
        cut_at: Some(nth),
        ..Faults::default()
    }
}

#[test]
fn it_keeps_what_was_written_and_refuses_what_passes_the_end() {
    let disk = SimBackend::new(1 << 40, 1);
    let end = (1 << 40) - 700;
    disk.write_at(end, &[7; 700], CACHED).unwrap();
    disk.write_at(end + 5, &[8; 10], CACHED).unwrap();
    let mut bytes = [0; 700];
    disk.read_at(end, &mut bytes).unwrap();
    assert_eq!((bytes[4], bytes[5], bytes[14], bytes[15]), (7, 8, 8, 7));
    assert!(disk.read_at(end + 1, &mut bytes).is_err());
    assert!(disk.write_at(u64::MAX, &[1], CACHED).is_err());
    assert!(disk.write_zeroes(end..end + 701, CACHED).is_err());
    assert!(disk.discard(end..u64::MAX).is_err());
    disk.write_zeroes(end..end + 690, DURABLE).unwrap();
    disk.read_at(end, &mut bytes).unwrap();
    assert_eq!((bytes[689], bytes[690]), (0, 7));
}

/// Of two writes of two sectors each, which share the second: any subset of the sectors is an
/// outcome of some seed, and nothing else is.
#[test]
fn a_power_cut_leaves_any_part_of_what_was_not_synced() {
    let disk = SimBackend::new(3 * 512, 1);
    disk.write_at(0, &[1; 1024], CACHED).unwrap();
    disk.write_at(512, &[2; 1024], CACHED).unwrap();
    let seen: BTreeSet<_> = (0..2000)
        .map(|seed| sectors(&disk.after_cut(seed)))
        .collect();
    let mut all = BTreeSet::new();
    for first in [0, 1] {
        for second in [0, 1, 2] {
            for third in [0, 2] {
                all.insert(vec![first, second, third]);
            }
        }
    }
    assert_eq!(seen, all);
}

#[test]
fn what_was_synced_is_there() {
    let disk = SimBackend::new(2 * 512, 1);
    disk.write_at(0, &[1; 1024], CACHED).unwrap();
    disk.flush().unwrap();
    disk.write_at(0, &[2; 512], CACHED).unwrap();
    for seed in 0..200 {
        let after = sectors(&disk.after_cut(seed));
        assert!(after == [1, 1] || after == [2, 1], "seed {seed}: {after:?}");
    }
}

/// A durable write stands, whatever was in the cache before it, and takes nothing else along.
#[test]
fn a_durable_write_makes_itself_durable_and_nothing_else() {
    let disk = SimBackend::new(3 * 512, 1);
    disk.write_at(0, &[1; 1536], CACHED).unwrap();
    disk.write_at(512, &[2; 512], DURABLE).unwrap();
    let mut lost = 0;
    for seed in 0..200 {
        let after = sectors(&disk.after_cut(seed));
        assert_eq!(after[1], 2, "seed {seed}");
        lost += usize::from(after[0] == 0) + usize::from(after[2] == 0);
    }
    assert!(lost > 100);
    disk.write_at(512, &[3; 512], CACHED).unwrap();
    let second = |seed| sectors(&disk.after_cut(seed))[1];
    assert!((0..100).any(|seed| second(seed) == 3));
    assert!((0..100).all(|seed| second(seed) != 1));
}

#[test]
fn the_power_fails_during_the_call_that_was_chosen() {
    for nth in 1..=4 {
        let disk = SimBackend::new(4 * 512, 9);
        disk.arm(cut_at(nth));
        let calls = [
            disk.write_at(0, &[1; 512], CACHED).is_ok(),
            disk.flush().is_ok(),
            disk.write_zeroes(0..512, DURABLE).is_ok(),
            disk.discard(512..1024).is_ok(),
        ];
        let done = calls.iter().filter(|&&done| done).count() as u64;
        let before = calls.iter().take_while(|&&done| done).count() as u64;
        assert_eq!((before, done), (nth - 1, nth - 1));
        assert!(disk.is_cut());
        let error = disk.read_at(0, &mut [0; 512]).unwrap_err();
        assert!(error.to_string().contains("seed 9: the power"), "{error}");
    }
}

#[test]
fn a_write_that_is_cut_off_may_be_there_in_part() {
    let disk = SimBackend::new(8 * 512, 1);
    disk.arm(cut_at(1));
    assert!(disk.write_at(0, &[1; 4096], DURABLE).is_err());
    let count = |seed| {
        sectors(&disk.after_cut(seed))
            .iter()
            .filter(|&&byte| byte == 1)
            .count()
    };
    let counts: BTreeSet<usize> = (0..400).map(count).collect();
    assert_eq!(counts, (0..=8).collect());
}

#[test]
fn a_write_without_space_leaves_a_part_from_its_start() {
    let disk = SimBackend::new(8 * 512, 3);
    disk.arm(fail(Call::Write, 2, Failure::NoSpace));
    disk.write_at(0, &[1; 4096], CACHED).unwrap();
    let error = disk.write_at(0, &[2; 4096], CACHED).unwrap_err();
    assert_eq!(error.source.kind(), ErrorKind::StorageFull);
    let now = sectors(&disk);
    let written = now.iter().take_while(|&&byte| byte == 2).count();
    assert!(now[written..].iter().all(|&byte| byte == 1), "{now:?}");
    disk.write_at(0, &[3; 4096], DURABLE).unwrap();
    assert_eq!(sectors(&disk), [3; 8]);
}

#[test]
fn a_write_with_an_error_leaves_any_part() {
    let disk = SimBackend::new(8 * 512, 4);
    disk.arm(fail(Call::Write, 1, Failure::Io));
    assert!(disk.write_at(0, &[2; 4096], DURABLE).is_err());
    assert!(sectors(&disk).iter().all(|&byte| byte == 0 || byte == 2));
    assert_eq!(
        (disk.failed(), disk.calls(Call::Write), disk.changes()),
        (1, 1, 1)
    );
}

#[test]
fn a_short_read_fills_a_part_and_says_so() {
    let disk = SimBackend::holding(&[6; 4096], 5);
    disk.arm(fail(Call::Read, 1, Failure::Short));
    let mut bytes = [0; 4096];
    let error = disk.read_at(0, &mut bytes).unwrap_err();
    assert_eq!(error.source.kind(), ErrorKind::UnexpectedEof);
    let filled = bytes.iter().take_while(|&&byte| byte == 6).count();
    assert!(filled < 4096 && bytes[filled..].iter().all(|&byte| byte == 0));
    disk.read_at(0, &mut bytes).unwrap();
    assert_eq!(bytes, [6; 4096]);
}

#[test]
fn a_failed_flush_loses_some_and_fails_for_good() {
    let disk = SimBackend::new(64 * 512, 1);
    disk.arm(fail(Call::Flush, 1, Failure::Io));
    disk.write_at(0, &[1; 64 * 512], CACHED).unwrap();
    assert!(disk.flush().is_err());
    let now = sectors(&disk);
    assert!(
        now.contains(&0) && now.contains(&1),
        "some is lost: {now:?}"
    );
    assert!(disk.flush().is_err());
    assert!(disk.write_at(0, &[2; 512], DURABLE).is_err());
    disk.write_at(0, &[3; 512], CACHED).unwrap();
    assert_eq!(sectors(&disk)[0], 3);
}

#[test]
fn a_discard_takes_whole_sectors_and_may_be_undone() {
    let before = vec![5; 64 * 512];
    let disk = SimBackend::holding(&before, 1);
    disk.discard(1..64 * 512 - 1).unwrap();
    let bytes = disk.contents();
    let (first, last) = (&bytes[..512], &bytes[63 * 512..]);
    assert!(first.iter().chain(last).all(|&byte| byte == 5));
    let kinds = bytes[512..63 * 512].chunks(512).map(|sector| {
        let is = |byte| sector.iter().all(|&one| one == byte);
        (is(5), is(0))
    });
    let kinds: BTreeSet<_> = kinds.collect();
    assert_eq!(kinds, [(true, false), (false, true), (false, false)].into());
    assert!((0..50).any(|seed| disk.after_cut(seed).contents() == before));
}

#[test]
fn one_seed_is_one_history() {
    let live = |seed| {
        let disk = SimBackend::new(64 * 512, seed);
        disk.arm(fail(Call::Write, 7, Failure::Io));
        let mut random = Random::new(3);
        for round in 0..20 {
            let at = random.below(60) * 512;
            let _ = disk.write_at(at, &[round; 2048], CACHED);
        }
        disk.discard(0..64 * 512).unwrap();
        (disk.contents(), disk.after_cut(seed).contents())
    };
    assert!(live(1) == live(1));
    assert!(live(1) != live(2));
}

#[test]
fn concurrent_writes_leave_one_of_them_in_each_sector() {
    for seed in 0..20 {
        let disk = SimBackend::new(256 * 512, seed);
        disk.arm(Faults {
            latency: true,
            ..Faults::default()
        });
        std::thread::scope(|scope| {
            for byte in [1, 2] {
                let disk = &disk;
                scope.spawn(move || disk.write_at(0, &[byte; 256 * 512], DURABLE).unwrap());
            }
        });
        let now = sectors(&disk);
        assert!(
            now.iter().all(|&byte| byte == 1 || byte == 2),
            "seed {seed}"
        );
        // Both were durable, so the later one in each sector is.
        assert_eq!(sectors(&disk.after_cut(seed)), now, "seed {seed}");
    }
}
