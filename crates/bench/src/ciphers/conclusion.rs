//! The encryption sector and the key to use, by the ratios of a run.

use super::workload::{of_keys, of_sectors};
use super::{Direction, Outcome};
use crate::conclusion::{Alternatives, Choice, Conclusion, factors, is_above_one};
use crate::report::{Ratio, Report};

/// Cipher that volumes have unless others were measured alone.
const USUAL: &str = "aes-xts-plain64";

impl Outcome {
    /// Draws the conclusion of a run about the encryption sector and the key, for AES-XTS, or for the first cipher where
    /// AES-XTS was not measured.
    #[must_use]
    pub fn conclusion(&self, report: &Report) -> Conclusion {
        let names: Vec<String> = self.rows.iter().map(|row| row.spec.to_string()).collect();
        let spec = match names.iter().any(|name| name == USUAL) {
            true => Some(USUAL),
            false => names.first().map(String::as_str),
        };
        let Some(spec) = spec else {
            return Conclusion::default();
        };
        let longest = self.rows.iter().filter(|row| row.spec.to_string() == spec);
        let bits = longest.map(|row| row.key_bits).max().unwrap_or(0);
        Conclusion {
            data_path: None,
            sector_size: sector_size(report, spec, bits),
            key_size: key_size(report, spec),
        }
    }
}

/// Both directions, by the ratio of a name.
fn works(report: &Report, name: impl Fn(Direction) -> String) -> Vec<(&'static str, &Ratio)> {
    let words = [
        ("encryption", Direction::Encrypt),
        ("decryption", Direction::Decrypt),
    ];
    let found = words.map(|(word, direction)| Some((word, report.found(&name(direction))?)));
    found.into_iter().flatten().collect()
}

fn sector_size(report: &Report, spec: &str, bits: usize) -> Option<Choice> {
    let alternatives = Alternatives {
        first: "4096 bytes",
        second: "512 bytes",
        works: works(report, |direction| of_sectors(spec, bits, direction)),
    };
    alternatives.choose()
}

/// The longer key, and its price.
fn key_size(report: &Report, spec: &str) -> Option<Choice> {
    let works = works(report, |direction| of_keys(spec, direction));
    let factors = factors(&works, true)?;
    Some(Choice {
        take: "512 bits".to_owned(),
        because: format!(
            "twice a key of 256 bits, as XTS takes two; with 256 bits (twice 128) {factors} times as fast"
        ),
        sure: works.iter().all(|(_, ratio)| is_above_one(ratio).is_some()),
    })
}
