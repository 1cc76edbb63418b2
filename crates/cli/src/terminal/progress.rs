//! Progress of a measurement, on standard error: at a terminal one line that is overwritten again and again, elsewhere
//! a line for each round.

use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use scrim_bench::Progress;
use scrim_foreign::Foreign;

use crate::terminal::output::{Cursor, note, show};

/// Least time between two updates of the line.
const TICK: Duration = Duration::from_millis(100);
/// The part of the work after which the time left is estimated.
const ENOUGH: f64 = 0.05;
/// Columns of a terminal that does not tell.
const COLUMNS: usize = 80;

/// Shows progress until it is dropped, and then takes it away from the terminal.
pub(crate) struct Display {
    /// Name of what is measured as a whole.
    stage: &'static str,
    terminal: bool,
    /// When the measurement began.
    start: Instant,
    shown: Option<Instant>,
    round: usize,
}

impl Display {
    pub(crate) fn new(stage: &'static str) -> Self {
        Self {
            stage,
            terminal: io::stderr().is_terminal(),
            start: Instant::now(),
            shown: None,
            round: 0,
        }
    }

    pub(crate) fn show(&mut self, progress: &Progress) {
        if self.terminal {
            let elapsed = self.start.elapsed();
            self.show_line(|| line(progress, elapsed));
        } else if progress.rounds > 1 && progress.round > self.round {
            self.round = progress.round;
            let (stage, round, rounds) = (self.stage, progress.round, progress.rounds);
            note(format_args!("{stage}: round {round} of {rounds}"));
        }
    }
}

impl Display {
    /// Shows a line at a terminal in place of the last one, unless that was shown a moment ago. For work of which the
    /// end is not known.
    pub(crate) fn show_line(&mut self, line: impl FnOnce() -> String) {
        let is_due = self.shown.is_none_or(|shown| shown.elapsed() >= TICK);
        if !self.terminal || !is_due {
            return;
        }
        self.shown = Some(Instant::now());
        let line = Foreign::new(line()).to_string();
        // A line that is broken in two would not be erased.
        let short: String = line.chars().take(columns(io::stderr()) - 1).collect();
        // If the progress cannot be shown, the work goes on all the same.
        let _ = show(Cursor::EraseLine, &short);
    }

    /// Takes the line away, so that others can be printed. It is shown again with the next progress.
    pub(crate) fn clear(&mut self) {
        if self.shown.take().is_some() {
            let _ = show(Cursor::EraseLine, "");
        }
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Columns of a terminal.
pub(crate) fn columns(terminal: impl AsFd) -> usize {
    let size = rustix::termios::tcgetwinsize(terminal).ok();
    let columns = size.map(|size| usize::from(size.ws_col));
    columns.filter(|columns| *columns > 0).unwrap_or(COLUMNS)
}

fn line(progress: &Progress, elapsed: Duration) -> String {
    let Progress {
        what,
        round,
        rounds,
        part,
    } = progress;
    let round = match rounds {
        0 | 1 => String::new(),
        _ => format!("round {round} of {rounds}, "),
    };
    let left = if *part > ENOUGH {
        let left = elapsed.as_secs_f64() * (1.0 - part) / part;
        format!(", {} left", in_words(left))
    } else {
        String::new()
    };
    format!("{round}{:.0} %{left}: {what}", part * 100.0)
}

/// A time with a unit that fits.
fn in_words(seconds: f64) -> String {
    match seconds {
        ..120.0 => format!("{seconds:.0} s"),
        ..7200.0 => format!("{:.0} min", seconds / 60.0),
        _ => format!("{:.1} h", seconds / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_tells_what_and_how_long() {
        let mut progress = Progress {
            what: "aes-xts-plain64 512b".to_owned(),
            round: 3,
            rounds: 15,
            part: 0.2,
        };
        assert_eq!(
            line(&progress, Duration::from_secs(5)),
            "round 3 of 15, 20 %, 20 s left: aes-xts-plain64 512b"
        );
        let texts = [119.4, 120.0, 7100.0, 30_000.0].map(in_words);
        assert_eq!(texts, ["119 s", "2 min", "118 min", "8.3 h"]);
        (progress.rounds, progress.part) = (1, 0.0);
        assert_eq!(line(&progress, TICK), "0 %: aes-xts-plain64 512b");
    }
}
