//! Figures of the downloads, and their text.

use std::fmt::Write as _;

use crate::ministat::{self, Set};
use crate::stat::median;

/// The figures of one run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Places in the order in which they are shown.
    pub places: Vec<Place>,
}

/// A place from which the file was downloaded.
#[derive(Clone, Debug)]
pub struct Place {
    /// Name of the place, as in series.
    pub name: &'static str,
    /// Version and cipher suite in words, or a word for a connection without them.
    pub protection: String,
    /// Bytes of the file.
    pub bytes: u64,
    /// MB/s, one a round.
    pub rates: Vec<f64>,
    /// CPU seconds of the server per GB, one a round; empty where the server is not ours.
    pub cpu: Vec<f64>,
}

impl Place {
    /// Label of the place in a line of text.
    fn label(&self) -> String {
        format!("{}: {}", self.name, self.protection)
    }
}

impl Outcome {
    /// Shows the figures as the report does, in KB/s of 1000 bytes: with what `ministat` prints of them.
    #[must_use]
    pub fn as_reported(&self) -> String {
        let sets = self.places.iter().map(|place| Set {
            name: place.label(),
            // `curl` counts whole ones.
            samples: place
                .rates
                .iter()
                .map(|rate| (rate * 1e3).round())
                .collect(),
        });
        ministat::table(&sets.collect::<Vec<_>>())
    }

    /// All figures as text; empty without a whole round.
    #[must_use]
    pub fn text(&self) -> String {
        if self.places.iter().any(|place| place.rates.is_empty()) {
            return String::new();
        }
        let mut text = String::new();
        let reported = self.as_reported();
        if !reported.is_empty() {
            let _ = writeln!(
                text,
                "# KB/s (1000 bytes) of one client, as ministat(1) prints them\n{reported}"
            );
        }
        text.push_str("# Medians                                            MB/s   CPU s/GB\n");
        for place in &self.places {
            let rate = median(&place.rates).unwrap_or(0.0);
            let cpu = median(&place.cpu).map_or("-".to_owned(), |cpu| format!("{cpu:.3}"));
            let _ = writeln!(text, "{:<46}{rate:>11.0}{cpu:>11}", place.label());
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_has_both_statistics() {
        let place = |name, protection: &str, rates: [f64; 3], cpu: &[f64]| Place {
            name,
            protection: protection.to_owned(),
            bytes: 1 << 30,
            rates: rates.to_vec(),
            cpu: cpu.to_vec(),
        };
        let outcome = Outcome {
            places: vec![
                place("http", "plain HTTP", [2000.0, 2002.0, 2001.0], &[0.25; 3]),
                place("tls", "TLSv1.3 X", [1000.0, 1002.0, 1001.0], &[]),
            ],
        };
        let wanted = "\
# KB/s (1000 bytes) of one client, as ministat(1) prints them
x http: plain HTTP
+ tls: TLSv1.3 X
    N           Min           Max        Median           Avg        Stddev
x   3       2000000       2002000       2001000       2001000          1000
+   3       1000000       1002000       1001000       1001000          1000
Difference at 95.0% confidence
\t-1e+06 +/- 2266.59
\t-49.975% +/- 0.113273%
\t(Student's t, pooled s = 1000)

# Medians                                            MB/s   CPU s/GB
http: plain HTTP                                     2001      0.250
tls: TLSv1.3 X                                       1001          -
";
        assert_eq!(outcome.text(), wanted);
        assert_eq!(Outcome::default().as_reported(), "");
    }
}
