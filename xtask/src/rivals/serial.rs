//! The cost of a cipher alone, for the bound of a path that first moves data and then encrypts it: processor time of the
//! plain path and of the cipher, one after the other.

use std::path::PathBuf;
use std::process::Stdio;

use serde_json::Value;

use super::room::Room;
use crate::error::{Doing, Error};

/// The cipher of the volumes that `rivals nbd` serves, measured by the `scrim` that serves them.
pub(super) struct CipherAlone<'a> {
    room: &'a Room,
    scrim: PathBuf,
}

impl<'a> CipherAlone<'a> {
    pub(super) fn new(room: &'a Room, scrim: PathBuf) -> Self {
        Self { room, scrim }
    }

    /// Seconds per GB, by calls of 1 MiB on memory that is in the cache: the least that the cipher can cost.
    pub(super) fn cost(&self, encrypts: bool) -> Result<f64, Error> {
        let mut command = self.room.command(&self.scrim);
        command.args(["bench", "ciphers", "--cipher", "aes-xts-plain64", "--json"]);
        command.args(["--key-size", "512", "--sector-size", "512"]);
        command.args(["--rounds", "3", "--seconds", "0.03"]);
        let output = command.stdin(Stdio::null()).output();
        let output = output.doing(|| "measure the cipher".to_owned())?;
        let direction = if encrypts { "encrypt" } else { "decrypt" };
        let name = format!("aes-xts-plain64_512b_s512_1m_hot_{direction}");
        let rate = median(&output.stdout, &name);
        let unknown = || Error::program("scrim bench ciphers", format!("gives no {name}"));
        rate.map(|rate| 1e3 / rate).ok_or_else(unknown)
    }
}

/// The median of a result in the JSON of a benchmark.
fn median(said: &[u8], name: &str) -> Option<f64> {
    let report: Value = serde_json::from_slice(said).ok()?;
    let mut results = report["results"].as_array()?.iter();
    results.find(|result| result["name"] == name)?["median"].as_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_found_by_its_name() {
        let said = br#"{"results": [{"name": "a", "median": 2.5}, {"name": "b", "median": null}]}"#;
        assert_eq!(median(said, "a"), Some(2.5));
        assert_eq!(median(said, "b"), None);
        assert_eq!(median(said, "c"), None);
        assert_eq!(median(b"no JSON", "a"), None);
    }
}
