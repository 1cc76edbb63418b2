//! Times at which a certificate is renewed, and at which a failed order is tried again.

use std::time::{Duration, SystemTime};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Longest sleep before another look at the clock, which may have been set meanwhile.
const LOOK: Duration = Duration::from_secs(6 * 60 * 60);
/// Pause after the first failure. Let's Encrypt allows five failures an hour for a name.
const FIRST_PAUSE: Duration = MINUTE.saturating_mul(5);
/// Longest pause that an authority may ask for: its longest limits are those of a week.
const RETRY_AFTER_MAX: Duration = DAY.saturating_mul(7);

/// The moment from which on a certificate is renewed: when a third of its lifetime is left.
pub(super) fn renewal(since: SystemTime, until: SystemTime) -> SystemTime {
    let lifetime = until.duration_since(since).unwrap_or(Duration::ZERO);
    until.checked_sub(lifetime / 3).unwrap_or(since)
}

/// Time to sleep now, if there is something to do at `due`; `None` if that moment has passed.
pub(super) fn sleep(now: SystemTime, due: SystemTime) -> Option<Duration> {
    let rest = due
        .duration_since(now)
        .ok()
        .filter(|rest| !rest.is_zero())?;
    Some(rest.min(LOOK))
}

/// Pause after this number of failures in a row: minutes at first, then up to a day, or what the authority has asked
/// for if that is longer.
pub(super) fn pause(failures: u32, rate_limit: bool, retry_after: Option<Duration>) -> Duration {
    let tripled = 3_u32.saturating_pow(failures.saturating_sub(1).min(10));
    let usual = FIRST_PAUSE.saturating_mul(tripled).min(DAY);
    let least = if rate_limit { HOUR } else { Duration::ZERO };
    usual
        .max(least)
        .max(retry_after.unwrap_or(Duration::ZERO).min(RETRY_AFTER_MAX))
}

/// Adds up to a quarter to a pause, so that servers that were started together do not ask together.
pub(super) fn spread(pause: Duration) -> Duration {
    let share = getrandom::u32().unwrap_or(0) % 256;
    pause + pause / 4 / 256 * share
}

#[cfg(test)]
mod tests {
    use super::*;

    const EPOCH: SystemTime = SystemTime::UNIX_EPOCH;

    #[test]
    fn a_third_of_the_lifetime_is_left_at_the_renewal() {
        assert_eq!(renewal(EPOCH, EPOCH + DAY * 90), EPOCH + DAY * 60);
        assert_eq!(renewal(EPOCH, EPOCH + DAY * 6), EPOCH + DAY * 4);
        // One that ends before it begins has no lifetime.
        assert_eq!(renewal(EPOCH + DAY, EPOCH), EPOCH);
    }

    #[test]
    fn the_clock_is_looked_at_again_long_before_the_renewal() {
        assert_eq!(sleep(EPOCH, EPOCH + DAY * 60), Some(LOOK));
        assert_eq!(sleep(EPOCH, EPOCH + MINUTE), Some(MINUTE));
        assert_eq!(sleep(EPOCH, EPOCH), None);
        assert_eq!(sleep(EPOCH + DAY, EPOCH), None);
    }

    #[test]
    fn pauses_grow_from_minutes_to_a_day() {
        let pauses: Vec<_> = (1..9).map(|n| pause(n, false, None)).collect();
        assert_eq!(pauses[..3], [MINUTE * 5, MINUTE * 15, MINUTE * 45]);
        assert!(pauses.is_sorted());
        assert_eq!(pauses[7], DAY);
        assert_eq!(pause(u32::MAX, false, None), DAY);
    }

    #[test]
    fn an_authority_may_ask_for_a_longer_pause_but_not_for_any() {
        assert_eq!(pause(1, false, Some(MINUTE)), MINUTE * 5);
        assert_eq!(pause(1, false, Some(DAY * 2)), DAY * 2);
        assert_eq!(pause(1, false, Some(Duration::MAX)), DAY * 7);
        assert_eq!(pause(1, true, None), HOUR);
    }

    #[test]
    fn a_pause_is_spread_by_a_quarter_at_most() {
        for _ in 0..1000 {
            let spread = spread(HOUR);
            assert!((HOUR..=HOUR + HOUR / 4).contains(&spread));
        }
    }
}
