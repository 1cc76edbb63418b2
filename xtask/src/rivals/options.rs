//! Options that the comparisons share.

use std::path::PathBuf;

use scrim_bench::Turn;

/// Options that every comparison takes.
#[derive(clap::Args)]
pub(super) struct Common {
    /// Number of times that each contender runs each load
    #[arg(long, default_value_t = scrim_bench::ROUNDS, value_parser = round_count)]
    pub(super) rounds: usize,
    /// Print JSON on standard output, and the table on standard error
    #[arg(long)]
    pub(super) json: bool,
}

/// The `scrim` that is measured.
#[derive(clap::Args)]
pub(super) struct Ours {
    /// Measure this binary instead of building the workspace's
    #[arg(long, value_name = "FILE")]
    pub(super) scrim: Option<PathBuf>,
}

pub(super) fn round_count(text: &str) -> Result<usize, String> {
    let rounds = text.parse().map_err(|_| "not a number".to_owned())?;
    if (1..=1000).contains(&rounds) {
        Ok(rounds)
    } else {
        Err("between 1 and 1000".to_owned())
    }
}

/// Parses the time for which a load runs.
pub(super) fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.1..=600.0).contains(&seconds) {
        Ok(seconds)
    } else {
        Err("between 0.1 and 600".to_owned())
    }
}

/// Prints the progress once in each round.
pub(super) fn announce(turn: Turn, rounds: usize) {
    if (turn.load, turn.contender) == (0, 0) {
        eprintln!("round {} of {rounds}", turn.round + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_have_bounds() {
        assert_eq!(seconds("2.5"), Ok(2.5));
        for text in ["0", "-1", "1e9", "NaN", "x"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
