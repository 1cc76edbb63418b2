//! A median with its interval, as it is shown.

use crate::stat::{Interval, bootstrap_interval, median};

/// Median of a quantity with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Figure {
    pub(crate) value: f64,
    pub(crate) interval: Interval,
}

impl Figure {
    pub(crate) fn of(samples: &[f64]) -> Option<Self> {
        Some(Self {
            value: median(samples)?,
            interval: bootstrap_interval(samples)?,
        })
    }

    /// A median whose samples are gone, as if it had no interval.
    pub(crate) fn exactly(value: f64) -> Self {
        let interval = Interval {
            low: value,
            high: value,
        };
        Self { value, interval }
    }
}

/// A rate with digits that are worth it.
pub(crate) fn number(value: f64) -> String {
    match value {
        value if value < 1.0 => format!("{value:.3}"),
        value if value < 10.0 => format!("{value:.2}"),
        value => format!("{value:.0}"),
    }
}
