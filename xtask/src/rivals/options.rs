//! Options that the comparisons share.

use std::io::{IsTerminal, stderr};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use scrim_bench::Turn;

/// Time between two lines about the progress where no terminal shows them.
const PAUSE: Duration = Duration::from_secs(30);

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

/// Times of the comparison that is shown: when it began, and when its last line was printed.
static SHOWN: Mutex<Option<(Instant, Instant)>> = Mutex::new(None);

/// Shows how far a comparison is: on a terminal in one line, elsewhere in a line now and then.
pub(super) fn announce(turn: Turn, rounds: usize) {
    if (turn.load, turn.contender) != (0, 0) {
        return;
    }
    let now = Instant::now();
    let mut shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let before = shown.filter(|_| turn.round > 0);
    let (began, last) = before.unwrap_or((now, now));
    let is_due = before.is_none() || now - last >= PAUSE;
    *shown = Some((began, if is_due { now } else { last }));
    let line = progress_line(turn.round, rounds, now - began);
    if stderr().is_terminal() {
        let end = if turn.round + 1 == rounds { "\n" } else { "" };
        eprint!("\r\x1b[K{line}; Ctrl-C gives up{end}");
    } else if is_due {
        eprintln!("{line}");
    }
}

/// The round that begins, and the time that it and those after it take if they take as long as those before.
fn progress_line(done: usize, rounds: usize, took: Duration) -> String {
    let round = format!("round {} of {rounds}", done + 1);
    let (Ok(finished), Ok(left)) = (u32::try_from(done), u32::try_from(rounds - done)) else {
        return round;
    };
    match took.checked_div(finished) {
        Some(each) => format!("{round}, {} s left", (each * left).as_secs()),
        None => round,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_follows_from_the_rounds_before() {
        let line = |done, seconds| progress_line(done, 15, Duration::from_secs(seconds));
        assert_eq!(line(0, 0), "round 1 of 15");
        assert_eq!(line(5, 50), "round 6 of 15, 100 s left");
        assert_eq!(line(14, 140), "round 15 of 15, 10 s left");
    }

    #[test]
    fn seconds_have_bounds() {
        assert_eq!(seconds("2.5"), Ok(2.5));
        for text in ["0", "-1", "1e9", "NaN", "x"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
