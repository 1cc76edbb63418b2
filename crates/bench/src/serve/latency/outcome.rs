//! Latencies of the ways, and their text.

use std::fmt::Write as _;

use crate::stat::median;

/// Quantiles: the label, the part of all responses, and the name in series.
pub(super) const QUANTILES: [(&str, f64, &str); 3] = [
    ("p50", 0.5, "p50"),
    ("p99", 0.99, "p99"),
    ("p99.9", 0.999, "p999"),
];

/// The figures of one run.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    /// Bytes of the file.
    pub bytes: u64,
    /// Version and cipher suite, in words.
    pub protection: String,
    /// Requests a second that each way was asked for.
    pub rate: f64,
    /// Times of the ways, in the order in which they are shown.
    pub ways: Vec<Times>,
}

/// Capacity and latencies of one way.
#[derive(Clone, Debug, Default)]
pub struct Times {
    /// The way, as the user wrote it.
    pub way: String,
    /// Most requests a second.
    pub capacity: f64,
    /// One value in µs a round for each quantile (50, 99 and 99.9 %).
    pub micros: [Vec<f64>; QUANTILES.len()],
}

impl Times {
    pub(super) fn of(way: String) -> Self {
        Self {
            way,
            ..Self::default()
        }
    }

    pub(super) fn truncate(&mut self, rounds: usize) {
        for micros in &mut self.micros {
            micros.truncate(rounds);
        }
    }

    /// The median over rounds of each quantile; `None` without a whole round.
    pub(super) fn medians(&self) -> Option<[f64; QUANTILES.len()]> {
        let mut medians = [0.0; QUANTILES.len()];
        for (place, micros) in self.micros.iter().enumerate() {
            medians[place] = median(micros)?;
        }
        Some(medians)
    }
}

impl Latencies {
    /// A line for each way; empty without a whole round.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        for times in &self.ways {
            let Some(medians) = times.medians() else {
                return String::new();
            };
            let _ = write!(text, "{:<24}", times.way);
            for micros in medians {
                let _ = write!(text, "{micros:>11.1}");
            }
            let _ = writeln!(text, "{:>18.0}", times.capacity);
        }
        if text.is_empty() {
            return text;
        }
        let mut head = format!(
            "# Responses of {} bytes, {}, {:.0} a second of each: us from when they were due\n{:<24}",
            self.bytes, self.protection, self.rate, "# from"
        );
        for (name, _, _) in QUANTILES {
            let _ = write!(head, "{name:>11}");
        }
        let _ = writeln!(head, "{:>18}", "most a second");
        head + &text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_has_a_line_for_each_way() {
        let times = |way: &str, micros: [f64; 3]| Times {
            way: way.to_owned(),
            capacity: 9000.4,
            micros: micros.map(|micros| vec![micros; 3]),
        };
        let mut outcome = Latencies {
            bytes: 65536,
            protection: "TLSv1.3 X".to_owned(),
            rate: 4500.2,
            ways: vec![
                times("dir", [80.0, 120.0, 1000.5]),
                times("volume:inline", [95.0, 140.25, 1100.0]),
            ],
        };
        let wanted = "\
# Responses of 65536 bytes, TLSv1.3 X, 4500 a second of each: us from when they were due
# from                          p50        p99      p99.9     most a second
dir                            80.0      120.0     1000.5              9000
volume:inline                  95.0      140.2     1100.0              9000
";
        assert_eq!(outcome.text(), wanted);
        outcome.ways[1].truncate(0);
        assert_eq!(outcome.text(), "");
        assert_eq!(Latencies::default().text(), "");
    }
}
