//! The cost of a new key slot, measured.

use std::time::{Duration, Instant};

use super::argon2::{self, MAX_WORK_KIB};
use super::error::KdfError;
use super::guard::{Unguarded, Watch};
use super::hash::Hash;
use super::input::Input;
use super::machine::MachineLimits;
use super::parameters::{Argon2Cost, Argon2Kind};
use super::pbkdf2::{self, MAX_ITERATIONS};

/// Time that it takes to open a key slot, by cryptsetup's default.
pub const KEYSLOT_TIME: Duration = Duration::from_secs(2);

/// Time that a digest of the volume key takes, by cryptsetup's default. The key is random, so that
/// nobody guesses it: the digest need not be slow.
pub const DIGEST_TIME: Duration = Duration::from_millis(125);

/// Fewest passes of Argon2, as in cryptsetup.
const MIN_TIME: u32 = 4;

/// Least memory of Argon2 in KiB, where more is allowed, as in cryptsetup.
const MIN_MEMORY_KIB: u32 = 64 << 10;

/// Fewest iterations of PBKDF2, as in cryptsetup.
const MIN_ITERATIONS: u32 = 1000;

/// A passphrase and a salt to measure with.
const SAMPLE: &[u8; 32] = b"a passphrase or salt to measure ";
const INPUT: Input<'_> = Input {
    passphrase: SAMPLE,
    salt: SAMPLE,
};

/// A measurement that takes at least this part of the target is long enough to extrapolate from.
const ENOUGH: u32 = 4;

/// Rounds after which the last one has to be good enough. Three suffice on every machine known.
const ROUNDS: u32 = 8;

/// The cost at which deriving a key takes about as long as `target` on this machine: as much of
/// `max_memory_kib` as the time allows, but at least 64 MiB of it, then more than 4 passes if there
/// is time left.
///
/// # Errors
/// [`KdfError`], where `lanes` or `max_memory_kib` are out of range or there is not that much
/// memory.
pub fn calibrate_argon2(
    kind: Argon2Kind,
    lanes: u32,
    max_memory_kib: u32,
    target: Duration,
    limits: &MachineLimits,
) -> Result<Argon2Cost, KdfError> {
    let most = Argon2Cost {
        time: MIN_TIME,
        memory_kib: max_memory_kib,
        lanes,
    };
    most.check(limits)?;
    let least = Argon2Cost {
        memory_kib: MIN_MEMORY_KIB.min(max_memory_kib),
        ..most
    };
    search_argon2(least, max_memory_kib, target, |cost| {
        let watch = Watch::new(&Unguarded);
        fastest_of_two(|| argon2::derive(kind, cost, limits, &watch, INPUT, &mut [0; 64]))
    })
}

/// The iterations with which deriving a key of `key_len` bytes takes about as long as `target` on
/// one thread of this machine, and at least 1000.
///
/// Scrim, unlike cryptsetup, derives the parts of a key that is longer than the digest of `hash` on
/// several threads. That is not counted, so that other programs do not take longer than `target`.
///
/// # Errors
/// [`KdfError`], which these parameters do not cause.
pub fn calibrate_pbkdf2(hash: Hash, key_len: usize, target: Duration) -> Result<u32, KdfError> {
    let mut key = vec![0; key_len];
    search_pbkdf2(target, |iterations| {
        let watch = Watch::new(&Unguarded);
        fastest_of_two(|| pbkdf2::derive(hash, INPUT, iterations, &mut key, 1, &watch))
    })
}

/// The shorter of two measurements: other work on this machine must not make a key slot weaker.
fn fastest_of_two(mut derive: impl FnMut() -> Result<(), KdfError>) -> Result<Duration, KdfError> {
    let mut measure = || {
        let start = Instant::now();
        derive()?;
        Ok(start.elapsed())
    };
    let first: Duration = measure()?;
    Ok(first.min(measure()?))
}

fn search_argon2(
    least: Argon2Cost,
    max_memory_kib: u32,
    target: Duration,
    mut measure: impl FnMut(Argon2Cost) -> Result<Duration, KdfError>,
) -> Result<Argon2Cost, KdfError> {
    let mut cost = least;
    for _ in 0..ROUNDS {
        let took = measure(cost)?;
        let work = u64::from(cost.time) * u64::from(cost.memory_kib);
        let shape = |work: u64| {
            let memory_kib = clamp(work / u64::from(MIN_TIME), least.memory_kib, max_memory_kib);
            let work = work.min(MAX_WORK_KIB);
            let time = clamp(work / u64::from(memory_kib), MIN_TIME, u32::MAX);
            Argon2Cost {
                time,
                memory_kib,
                ..least
            }
        };
        if took >= target / ENOUGH {
            return Ok(shape(scale(work, took, target)));
        }
        // A little more than enough, so that the next round is the last.
        cost = shape(scale(work, took, target * 3 / (2 * ENOUGH)));
    }
    Ok(cost)
}

fn search_pbkdf2(
    target: Duration,
    mut measure: impl FnMut(u32) -> Result<Duration, KdfError>,
) -> Result<u32, KdfError> {
    let mut iterations = MIN_ITERATIONS;
    for _ in 0..ROUNDS {
        let took = measure(iterations)?;
        let scaled = |time| {
            let iterations = scale(iterations.into(), took, time);
            clamp(iterations, MIN_ITERATIONS, MAX_ITERATIONS)
        };
        if took >= target / ENOUGH {
            return Ok(scaled(target));
        }
        iterations = scaled(target * 3 / (2 * ENOUGH));
    }
    Ok(iterations)
}

/// Amount of work that takes as long as `target` where `work` took as long as `took`; the clock may have
/// missed a microsecond.
fn scale(work: u64, took: Duration, target: Duration) -> u64 {
    let took = took.max(Duration::from_micros(1)).as_nanos();
    let scaled = u128::from(work).saturating_mul(target.as_nanos()) / took;
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

fn clamp(value: u64, least: u32, most: u32) -> u32 {
    u32::try_from(value)
        .unwrap_or(u32::MAX)
        .min(most)
        .max(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u32 = 1 << 20;

    /// Searches on a machine that takes `nanos` a block and `overhead` besides.
    fn argon2(nanos: u64, overhead: Duration, max_memory_kib: u32, target: Duration) -> Argon2Cost {
        let least = Argon2Cost {
            time: MIN_TIME,
            memory_kib: MIN_MEMORY_KIB.min(max_memory_kib),
            lanes: 4,
        };
        let machine = |cost: Argon2Cost| {
            let blocks = u64::from(cost.time) * u64::from(cost.memory_kib);
            Ok(overhead + Duration::from_nanos(nanos) * u32::try_from(blocks).unwrap())
        };
        search_argon2(least, max_memory_kib, target, machine).unwrap()
    }

    #[test]
    fn memory_is_used_first_and_passes_then() {
        let none = Duration::ZERO;
        let cost = |time, memory_kib| Argon2Cost {
            time,
            memory_kib,
            lanes: 4,
        };
        // 2 s are 4 passes over 500 000 blocks of 1 µs, or 9 over 1 GiB at 200 ns.
        assert_eq!(argon2(1000, none, GIB, KEYSLOT_TIME), cost(4, 500_000));
        assert_eq!(argon2(200, none, GIB, KEYSLOT_TIME), cost(9, GIB));
        // Little memory: passes make up for it.
        assert_eq!(argon2(1000, none, 1000, KEYSLOT_TIME), cost(2000, 1000));
        // No time: the least there is.
        assert_eq!(
            argon2(1000, none, GIB, Duration::ZERO),
            cost(4, MIN_MEMORY_KIB)
        );
        assert_eq!(
            argon2(1 << 20, none, GIB, KEYSLOT_TIME),
            cost(4, MIN_MEMORY_KIB)
        );
        assert_eq!(argon2(1 << 30, none, 31, Duration::ZERO), cost(4, 31));
    }

    #[test]
    fn what_every_run_takes_does_not_mislead_it() {
        let cost = argon2(200, Duration::from_millis(50), GIB, KEYSLOT_TIME);
        assert_eq!(cost.memory_kib, GIB);
        assert!((7..=9).contains(&cost.time), "{cost:?}");
    }

    #[test]
    fn a_stopped_clock_ends_the_search() {
        let iterations = search_pbkdf2(KEYSLOT_TIME, |_| Ok(Duration::ZERO)).unwrap();
        assert_eq!(iterations, MAX_ITERATIONS);
        let least = Argon2Cost {
            time: MIN_TIME,
            memory_kib: MIN_MEMORY_KIB,
            lanes: 1,
        };
        let cost = search_argon2(least, GIB, KEYSLOT_TIME, |_| Ok(Duration::ZERO)).unwrap();
        assert_eq!(cost.memory_kib, GIB);
    }

    #[test]
    fn iterations_follow_the_target() {
        let search = |nanos, target| {
            search_pbkdf2(target, |iterations| {
                Ok(Duration::from_nanos(nanos) * iterations)
            })
            .unwrap()
        };
        assert_eq!(search(500, KEYSLOT_TIME), 4_000_000);
        assert_eq!(search(500, DIGEST_TIME), 250_000);
        assert_eq!(search(1_000_000, DIGEST_TIME), MIN_ITERATIONS);
    }

    #[test]
    fn a_real_search_gives_a_cost_that_derives() {
        let limits = MachineLimits::read();
        let kind = Argon2Kind::Argon2id;
        let short = Duration::from_millis(1);
        let cost = calibrate_argon2(kind, 2, 64, short, &limits).unwrap();
        assert_eq!((cost.memory_kib, cost.lanes), (64, 2));
        assert!(cost.time >= MIN_TIME);
        assert!(calibrate_argon2(kind, 0, 64, short, &limits).is_err());
        assert!(calibrate_argon2(kind, 4, 31, short, &limits).is_err());
        assert!(calibrate_pbkdf2(Hash::Sha256, 64, short).unwrap() >= MIN_ITERATIONS);
    }
}
