//! The cipher alone, on requests as those of the loads, by the program that is measured.

use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use crate::error::{Doing, Error};
use crate::rivals::room::Room;

/// The cipher's rates in MB/s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rates {
    /// Decryption and encryption of 4 KiB.
    pub(super) short: [f64; 2],
    /// Decryption and encryption of 1 MiB.
    pub(super) long: [f64; 2],
}

/// Measures the cipher of the LUKS image once.
pub(super) fn measure(room: &Room, scrim: &Path) -> Result<Rates, Error> {
    let output = room
        .command(scrim)
        .args(["bench", "ciphers", "--cipher", "aes-xts-plain64"])
        .args(["--key-size", "512", "--sector-size", "512", "--json"])
        // The buffer of cold data is not used, so it is small.
        .args(["--rounds", "1", "--seconds", "0.02", "--memory", "2M"])
        .stdin(Stdio::null())
        .output()
        .doing(|| "run scrim bench ciphers".to_owned())?;
    room.check()?;
    let not_understood = || Error::program("scrim bench ciphers", "its figures are not there");
    parse(&output.stdout).ok_or_else(not_understood)
}

fn parse(output: &[u8]) -> Option<Rates> {
    let text = std::str::from_utf8(output).ok()?;
    let report: Value = serde_json::from_str(text.lines().last()?).ok()?;
    let rate = |call: &str, direction: &str| {
        let name = format!("aes-xts-plain64_512b_s512_{call}_hot_{direction}");
        let mut results = report["results"].as_array()?.iter();
        let found = results.find(|result| result["name"] == name.as_str())?;
        found["median"].as_f64().filter(|rate| *rate > 0.0)
    };
    let both = |call| Some([rate(call, "decrypt")?, rate(call, "encrypt")?]);
    Some(Rates {
        short: both("4k")?,
        long: both("1m")?,
    })
}

/// Rate of one thread that first moves data at the rate `plain` and then passes it through a cipher.
pub(super) fn serial(plain: f64, cipher: f64) -> f64 {
    plain * cipher / (plain + cipher)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(names: &[(&str, f64)]) -> String {
        let results: Vec<_> = names
            .iter()
            .map(|(end, median)| {
                let name = format!("aes-xts-plain64_512b_s512_{end}");
                serde_json::json!({"name": name, "median": median})
            })
            .collect();
        format!("text\n{}\n", serde_json::json!({"results": results}))
    }

    #[test]
    fn rates_are_those_of_hot_calls() {
        let all = [
            ("4k_cold_decrypt", 9.0),
            ("4k_hot_decrypt", 1.0),
            ("4k_hot_encrypt", 2.0),
            ("1m_hot_decrypt", 3.0),
            ("1m_hot_encrypt", 4.0),
        ];
        let rates = Rates {
            short: [1.0, 2.0],
            long: [3.0, 4.0],
        };
        assert_eq!(parse(output(&all).as_bytes()), Some(rates));
        assert_eq!(parse(output(&all[..4]).as_bytes()), None);
        assert_eq!(parse(b"no figures"), None);
        assert_eq!(parse(b""), None);
    }

    #[test]
    fn one_after_the_other_takes_the_sum_of_the_times() {
        assert!((serial(4000.0, 4000.0) - 2000.0).abs() < 1e-9);
        assert!((serial(1000.0, 9000.0) - 900.0).abs() < 1e-9);
    }
}
