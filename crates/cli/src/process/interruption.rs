//! Early end of a measurement or a transfer, which keeps what is done so far.

use std::ops::ControlFlow;
use std::process::{ExitCode, exit};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use scrim_bench::Progress;
use signal_hook::iterator::Signals;

use crate::error::CliError;
use crate::process::daemon::ENDING;
use crate::process::signals::note_end;
use crate::terminal::progress::Display;

/// A second signal this soon is the first one, which a terminal and a wrapper have both passed on.
const ECHO: Duration = Duration::from_millis(300);

/// Notices that the process was asked to end (SIGTERM, SIGINT, SIGHUP). A second request ends it at once.
pub(crate) struct Interruption {
    /// Number of the signal; 0 before one has come.
    signal: Arc<AtomicI32>,
}

impl Interruption {
    pub(crate) fn listen() -> Result<Self, CliError> {
        let mut signals =
            Signals::new(ENDING).map_err(|error| CliError::io("listen for signals", &error))?;
        let signal = Arc::new(AtomicI32::new(0));
        let noticed = Arc::clone(&signal);
        thread::spawn(move || {
            let mut first = None;
            for number in signals.forever() {
                noticed.store(number, Ordering::Relaxed);
                note_end();
                let first: &Instant = first.get_or_insert_with(Instant::now);
                if first.elapsed() > ECHO {
                    exit(i32::from(code(number)));
                }
            }
        });
        Ok(Self { signal })
    }

    /// Returns whether the process was asked to end.
    pub(crate) fn came(&self) -> bool {
        self.signal.load(Ordering::Relaxed) != 0
    }

    /// Exit code as a shell shows it: 128 plus the signal's number, or 0 if no signal came.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self.signal.load(Ordering::Relaxed) {
            0 => 0,
            number => code(number),
        })
    }
}

/// Measures and shows the progress, until the measurement is complete or a signal ends it.
pub(crate) fn watched<T>(
    stage: &'static str,
    interruption: &Interruption,
    measure: impl FnOnce(&mut dyn FnMut(&Progress) -> ControlFlow<()>) -> T,
) -> T {
    let mut display = Display::new(stage, "ends it with what is measured so far");
    measure(&mut |progress| {
        display.show(progress);
        if interruption.came() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })
}

fn code(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}
