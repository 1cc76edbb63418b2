//! Numbers on the command line, within their bounds.

pub(super) fn parse_rounds(text: &str) -> Result<usize, &'static str> {
    let rounds = text.parse().ok();
    rounds
        .filter(|rounds| (1..=1000).contains(rounds))
        .ok_or("give a number from 1 to 1000")
}

pub(super) fn parse_seconds(text: &str) -> Result<f64, &'static str> {
    let seconds = text.parse().ok();
    seconds
        .filter(|seconds| (0.001..=3600.0).contains(seconds))
        .ok_or("give a number from 0.001 to 3600")
}

/// A size in bytes, with an optional suffix for a power of 1024.
pub(super) fn parse_size(text: &str) -> Result<u64, String> {
    let usage = || "give a number of bytes, or one with K, M, G or T, like 512M".to_owned();
    let upper = text.to_ascii_uppercase();
    let short = upper.trim_end_matches("IB").trim_end_matches('B');
    let (digits, shift) = match short.char_indices().next_back() {
        Some((at, 'K')) => (&short[..at], 10),
        Some((at, 'M')) => (&short[..at], 20),
        Some((at, 'G')) => (&short[..at], 30),
        Some((at, 'T')) => (&short[..at], 40),
        _ => (short, 0),
    };
    let number: u64 = digits.parse().map_err(|_| usage())?;
    number
        .checked_mul(1 << shift)
        .filter(|&size| size <= i64::MAX as u64)
        .ok_or_else(|| "the size is larger than any file can be".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measurements_have_bounds() {
        assert_eq!(parse_rounds("15"), Ok(15));
        assert_eq!(parse_seconds("0.25"), Ok(0.25));
        for wrong in ["", "0", "-1", "1001", "x"] {
            assert!(parse_rounds(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "0", "-1", "inf", "NaN", "4000", "1s"] {
            assert!(parse_seconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_have_suffixes() {
        assert_eq!(parse_size("1G"), Ok(1 << 30));
        assert_eq!(parse_size("512MiB"), Ok(512 << 20));
        assert_eq!(parse_size("12345"), Ok(12345));
        for wrong in ["", "G", "1X", "-1", "1.5G", "99999999999T"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }
}
