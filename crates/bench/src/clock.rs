//! The clock of the core, by work whose cycles are known.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// Multiplications in a chain: some 3 µs, in which the clock does not change.
const CHAIN: u32 = 4_000;
/// Cycles from the start of a multiplication of 32 bits to its result, on every x86-64 core of
/// Intel's since Nehalem and of AMD's since Zen. (Additions, of one cycle each, would not do: some
/// cores do several that wait for each other in one cycle.)
const LATENCY: f64 = 3.0;
/// Number of chains, of which the fastest counts: an interrupt only makes one longer.
const CHAINS: u32 = 5;

/// Cycles a second that this core makes just now. The time-stamp counter does not tell: it runs at a rate of
/// its own, whatever the core does. `None` on processors for which the cycles of the work are not known here.
#[must_use]
pub fn core_clock() -> Option<f64> {
    if !cfg!(target_arch = "x86_64") {
        return None;
    }
    let fastest = (0..CHAINS).map(|_| chain()).min()?;
    let seconds = fastest.as_secs_f64();
    (seconds > 0.0).then(|| LATENCY * f64::from(CHAIN) / seconds)
}

/// The time of multiplications that wait for each other.
fn chain() -> Duration {
    let mut x = black_box(3_u32);
    let start = Instant::now();
    for _ in 0..CHAIN {
        x = x.wrapping_mul(x);
    }
    black_box(x);
    start.elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_a_positive_number_where_it_is_known() {
        let clock = core_clock();
        assert_eq!(clock.is_some(), cfg!(target_arch = "x86_64"));
        assert!(clock.is_none_or(|hertz| hertz.is_finite() && hertz > 0.0));
    }
}
