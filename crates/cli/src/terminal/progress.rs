//! Progress of long work, on standard error and in one manner: at a terminal a line that is overwritten again and again,
//! with the rate, the time left and the effect of Ctrl-C; elsewhere a line now and then.

use std::fmt::Write as _;
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
/// Time after which work that has no rounds is worth a line in a log.
const LONG: Duration = Duration::from_secs(10);
/// Least and most time between two lines in a log: each comes after twice as long as the one before.
const BETWEEN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// Shows progress until it is dropped, and then takes it away from the terminal.
pub(crate) struct Display {
    /// Name of the work as a whole.
    stage: &'static str,
    /// The effect of Ctrl-C.
    interruption: &'static str,
    terminal: bool,
    /// When the work began.
    start: Instant,
    shown: Option<Instant>,
    /// Time since the start at which the next line of a log is due.
    next: Duration,
    /// Bytes that were done when the first of them were reported.
    first: Option<u64>,
}

impl Display {
    pub(crate) fn new(stage: &'static str, interruption: &'static str) -> Self {
        Self {
            stage,
            interruption,
            terminal: io::stderr().is_terminal(),
            start: Instant::now(),
            shown: None,
            next: Duration::ZERO,
            first: None,
        }
    }

    /// Shows the progress of a measurement.
    pub(crate) fn show(&mut self, progress: &Progress) {
        let (elapsed, stage) = (self.start.elapsed(), self.stage);
        let text = || format!("{stage}: {}", how_far(progress, elapsed));
        match (self.terminal, progress.rounds > 1) {
            (true, _) => self.tell(LONG, || format!("{}: {}", text(), progress.what)),
            // In a log, what comes before the first round is not worth a line.
            (false, true) if progress.round == 0 => {}
            (false, true) => self.tell(Duration::ZERO, text),
            (false, false) => self.tell(LONG, text),
        }
    }

    /// Shows that `done` of `all` bytes of something are done.
    #[allow(
        clippy::cast_precision_loss,
        reason = "shown as a percentage and a rate"
    )]
    pub(crate) fn moved(&mut self, what: &str, done: u64, all: u64) {
        let first = *self.first.get_or_insert(done);
        let (elapsed, stage) = (self.start.elapsed(), self.stage);
        self.tell(LONG, || {
            let rate = (done.saturating_sub(first)) as f64 / elapsed.as_secs_f64().max(1e-3);
            let part = (done as f64 / all.max(1) as f64).min(1.0);
            let mut text = format!("{stage} {what}: {:.0} %", part * 100.0);
            if rate > 0.0 && elapsed >= BETWEEN.0 {
                let left = all.saturating_sub(done) as f64 / rate;
                let _ = write!(text, ", {:.0} MB/s, {} left", rate / 1e6, in_words(left));
            }
            text
        });
    }

    /// Shows what is done of work whose end is not known.
    pub(crate) fn count(&mut self, text: impl FnOnce() -> String) {
        self.tell(LONG, text);
    }

    /// Shows a text at a terminal in place of the last one, unless that was shown a moment ago; elsewhere as a line, the
    /// first after the time `first`.
    fn tell(&mut self, first: Duration, text: impl FnOnce() -> String) {
        let elapsed = self.start.elapsed();
        if !self.terminal {
            if elapsed >= self.next.max(first) {
                note(format_args!("{}", text()));
                self.next = elapsed + elapsed.clamp(BETWEEN.0, BETWEEN.1);
            }
            return;
        }
        if self.shown.is_some_and(|shown| shown.elapsed() < TICK) {
            return;
        }
        self.shown = Some(Instant::now());
        let line = format!("{}; Ctrl-C {}", text(), self.interruption);
        let line = Foreign::new(line).to_string();
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

/// The round, the part that is done and the time left.
fn how_far(progress: &Progress, elapsed: Duration) -> String {
    let Progress {
        what: _,
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
    format!("{round}{:.0} %{left}", part * 100.0)
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
            how_far(&progress, Duration::from_secs(5)),
            "round 3 of 15, 20 %, 20 s left"
        );
        let texts = [119.4, 120.0, 7100.0, 30_000.0].map(in_words);
        assert_eq!(texts, ["119 s", "2 min", "118 min", "8.3 h"]);
        (progress.rounds, progress.part) = (1, 0.0);
        assert_eq!(how_far(&progress, TICK), "0 %");
    }
}
