//! The median of paired ratios and its bootstrap interval.

use scrim_seeded::Random;

use crate::Better;

/// Number of resamples from which the interval is taken.
const RESAMPLES: usize = 10_000;
/// Resamples cut off at either end: 2.5 %.
const TAIL: usize = RESAMPLES / 40;
/// The resampling is part of the statistic, so that the same samples give the same interval.
const SEED: u64 = 0x5ce1_ab1e_0dd5_eed5;

/// The two ends of a 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
}

/// The middle value, or the mean of the two in the middle; `None` for no values.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    median_in_place(&mut sorted)
}

/// Ratios of the rounds, each of the same round's two samples, written so that higher is better for `ours`, or
/// lower when the ratio is a `cost`.
///
/// A round in which either sample is not a positive finite number gives no ratio: such a sample is not a
/// measurement. Samples of rounds that only one side has are left out.
#[must_use]
pub fn paired_ratios(ours: &[f64], peer: &[f64], better: Better, cost: bool) -> Vec<f64> {
    let ours_on_top = (better == Better::Higher) != cost;
    ours.iter()
        .zip(peer)
        .filter(|(ours, peer)| is_measured(**ours) && is_measured(**peer))
        .map(|(ours, peer)| {
            if ours_on_top {
                ours / peer
            } else {
                peer / ours
            }
        })
        .collect()
}

/// The 95 % percentile bootstrap interval of the median, from a fixed seed; `None` for no values.
#[must_use]
pub fn bootstrap_interval(values: &[f64]) -> Option<Interval> {
    if values.is_empty() {
        return None;
    }
    let mut random = Random::new(SEED);
    let mut resample = vec![0.0; values.len()];
    let mut medians = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        resample.fill_with(|| values[draw(&mut random, values.len())]);
        medians.extend(median_in_place(&mut resample));
    }
    medians.sort_unstable_by(f64::total_cmp);
    Some(Interval {
        low: medians[TAIL],
        high: medians[RESAMPLES - 1 - TAIL],
    })
}

/// Probability with which chance alone makes `agreeing` or more of `rounds` rounds agree on a direction: the sign test, for
/// either direction.
#[must_use]
pub fn sign_test(agreeing: usize, rounds: usize) -> f64 {
    // Each term is a binomial coefficient times 2^-rounds.
    let mut term = 0.5_f64.powi(i32::try_from(rounds).unwrap_or(i32::MAX));
    let mut sum = 0.0;
    for misses in 0..=rounds.saturating_sub(agreeing) {
        sum += term;
        term *= (rounds - misses) as f64 / (misses + 1) as f64;
    }
    (2.0 * sum).min(1.0)
}

fn is_measured(sample: f64) -> bool {
    sample.is_finite() && sample > 0.0
}

fn median_in_place(values: &mut [f64]) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 {
        values.get(middle).copied()
    } else {
        let below = values.get(middle.checked_sub(1)?)?;
        Some(f64::midpoint(*below, values[middle]))
    }
}

/// Returns an index below `len`, which is not zero. The bias of the remainder is under 2⁻⁵⁰ here.
fn draw(random: &mut Random, len: usize) -> usize {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the remainder is smaller than `len`, a usize"
    )]
    let index = (random.next() % len as u64) as usize;
    index
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[9.0, 1.0, 5.0]), Some(5.0));
        assert_eq!(median(&[9.0, 1.0, 5.0, 6.0]), Some(5.5));
    }

    #[test]
    fn higher_is_better_for_us_whatever_is_measured() {
        let rates = paired_ratios(&[300.0, 100.0], &[100.0, 200.0], Better::Higher, false);
        assert_eq!(rates, [3.0, 0.5]);
        let times = paired_ratios(&[2.0, 4.0], &[6.0, 2.0], Better::Lower, false);
        assert_eq!(times, [3.0, 0.5]);
    }

    #[test]
    fn a_cost_is_the_other_way_round() {
        assert_eq!(paired_ratios(&[2.0], &[4.0], Better::Lower, true), [0.5]);
        assert_eq!(paired_ratios(&[2.0], &[4.0], Better::Higher, true), [2.0]);
    }

    #[test]
    fn what_was_not_measured_has_no_ratio() {
        let ours = [1.0, 0.0, f64::NAN, 4.0, 5.0];
        let peer = [2.0, 1.0, 1.0, f64::INFINITY];
        assert_eq!(paired_ratios(&ours, &peer, Better::Higher, false), [0.5]);
    }

    #[test]
    fn pairing_cancels_what_both_sides_feel() {
        // The machine slows to a third half-way through; the ratio does not notice.
        let peer = [100.0, 100.0, 33.0, 33.0];
        let ours: Vec<f64> = peer.iter().map(|rate| rate * 2.0).collect();
        let ratios = paired_ratios(&ours, &peer, Better::Higher, false);
        assert_eq!(median(&ratios), Some(2.0));
        let interval = bootstrap_interval(&ratios);
        assert_eq!(
            interval,
            Some(Interval {
                low: 2.0,
                high: 2.0
            })
        );
    }

    #[test]
    fn the_interval_is_the_same_each_time() {
        let values = [1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8];
        assert_eq!(bootstrap_interval(&values), bootstrap_interval(&values));
        assert_eq!(bootstrap_interval(&[]), None);
    }

    /// A resample's median is at or below the k-th smallest of nine values when at least five of nine
    /// draws are, each with probability k/9: 0.14 % for k = 1 and 3.04 % for k = 2. So 2.5 % is first
    /// passed at the second value, and from above at the eighth.
    #[test]
    fn the_interval_is_the_one_the_binomial_gives() {
        let values = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0];
        let interval = bootstrap_interval(&values).unwrap();
        assert_eq!((interval.low, interval.high), (2.0, 8.0));
    }

    #[test]
    fn chance_agrees_as_often_as_coins_do() {
        assert!((sign_test(5, 5) - 2.0 / 32.0).abs() < 1e-12);
        // 15 and 14 of 15: (1 + 15) / 2^15 in either direction.
        assert!((sign_test(14, 15) - 32.0 / 32768.0).abs() < 1e-12);
        assert_eq!((sign_test(0, 0), sign_test(3, 6)), (1.0, 1.0));
    }
}
