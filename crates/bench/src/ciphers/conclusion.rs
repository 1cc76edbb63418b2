//! The encryption sector and the key to use, by the ratios of a run.

use super::workload::{of_keys, of_sectors};
use super::{Direction, Outcome, Row, Subject};
use crate::conclusion::{Alternatives, Choice, Conclusion, Works, factors, is_above_one, works};
use crate::report::Report;

/// Cipher that volumes have unless others were measured alone.
const USUAL: &str = "aes-xts-plain64";

impl Outcome {
    /// Draws the conclusion of a run about the encryption sector and the key, for AES-XTS, or for the first cipher where
    /// AES-XTS was not measured.
    #[must_use]
    pub fn conclusion(&self, report: &Report) -> Conclusion {
        let usual = self.rows.iter().find(|row| row.spec.to_string() == USUAL);
        let Some(first) = usual.or(self.rows.first()) else {
            return Conclusion::default();
        };
        let is_same = |row: &&Row| (&row.spec, row.driver) == (&first.spec, first.driver);
        let bits = self.rows.iter().filter(is_same).map(|row| row.key_bits);
        let subject = Subject {
            spec: first.spec.clone(),
            key_bytes: bits.max().unwrap_or(0) / 8,
            driver: first.driver_was_asked_for.then_some(first.driver),
        };
        Conclusion {
            data_path: None,
            sector_size: sector_size(report, &subject),
            key_size: key_size(report, &subject),
        }
    }
}

/// Both directions, by the ratio of a name.
fn both_ways(report: &Report, name: impl Fn(Direction) -> String) -> Works<'_> {
    let directions = [
        ("encryption", Direction::Encrypt),
        ("decryption", Direction::Decrypt),
    ];
    works(
        report,
        directions.map(|(work, direction)| (work, name(direction))),
    )
}

fn sector_size(report: &Report, subject: &Subject) -> Option<Choice> {
    let alternatives = Alternatives {
        first: "4096 bytes",
        second: "512 bytes",
        works: both_ways(report, |direction| of_sectors(subject, direction)),
    };
    alternatives.choose()
}

/// The longer key, and its price.
fn key_size(report: &Report, subject: &Subject) -> Option<Choice> {
    let works = both_ways(report, |direction| of_keys(subject, direction));
    let factors = factors(&works, true)?;
    Some(Choice {
        take: "512 bits".to_owned(),
        because: format!(
            "twice a key of 256 bits, as XTS takes two; with 256 bits (twice 128) {factors} times as fast"
        ),
        sure: works.iter().all(|(_, ratio)| is_above_one(ratio).is_some()),
    })
}
