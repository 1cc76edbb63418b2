//! The part of a stage's output that says why tests failed. Logs of continuous integration are long and may be shown
//! without their middle, so the report at the end repeats it.

use std::io::{self, BufRead, BufReader, PipeReader, Write};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

/// Most bytes that are repeated.
const MAX: usize = 64 << 10;

/// Time for the rest of the output after the end of a stage. A process that the stage has left behind keeps the output
/// open; it must not keep the report waiting.
const REST: Duration = Duration::from_secs(2);

/// First line of the two lists in which `cargo test` shows what failed: outputs of the failed tests, and their names.
const FIRST: &str = "failures:";
/// Start of the line behind the lists.
const END: &str = "test result:";

/// Lines of output that are lists of failed tests.
#[derive(Debug, Default)]
struct Found {
    text: String,
    within: bool,
}

impl Found {
    fn add(&mut self, line: &str) {
        self.within |= line.trim_end() == FIRST;
        if self.within && self.text.len() + line.len() <= MAX {
            self.text.push_str(line);
        }
        self.within &= !line.starts_with(END);
    }
}

/// A stage's output, which is copied to another one.
pub(crate) struct Output {
    found: Arc<Mutex<Found>>,
    /// Closed at the end of the output.
    open: mpsc::Receiver<()>,
}

impl Output {
    /// Lets `command` write to a pipe, whose content is copied to `sink`. The command has to be dropped before
    /// [`failures`](Self::failures) is called, since it keeps the pipe open.
    pub(crate) fn of(command: &mut Command, sink: impl Write + Send + 'static) -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        command.stdout(writer.try_clone()?).stderr(writer);
        let found = Arc::new(Mutex::new(Found::default()));
        let (held, open) = mpsc::channel();
        let shared = Arc::clone(&found);
        thread::spawn(move || {
            copy(reader, sink, &shared);
            drop(held);
        });
        Ok(Self { found, open })
    }

    /// Returns the lists of failed tests, once all output has come or [`REST`] is over.
    pub(crate) fn failures(self) -> String {
        let _ = self.open.recv_timeout(REST);
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut found.text)
    }
}

fn copy(reader: PipeReader, mut sink: impl Write, found: &Mutex<Found>) {
    let mut reader = BufReader::new(reader);
    let mut line = Vec::new();
    while matches!(reader.read_until(b'\n', &mut line), Ok(1..)) {
        // Whoever reads the copy may have gone; the stage runs on.
        let _ = sink.write_all(&line);
        let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
        found.add(&String::from_utf8_lossy(&line));
        line.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "test a ... FAILED\ntest b ... ok\n\nfailures:\n\n---- a stdout ----\nseed 7\nat line 3\n\n\n\
                       failures:\n    a\n\ntest result: FAILED. 1 passed; 1 failed\n\nrunning 0 tests\n\
                       test result: ok. 0 passed\n";

    #[test]
    fn the_lists_of_failed_tests_are_found() {
        let mut found = Found::default();
        for line in LOG.split_inclusive('\n') {
            found.add(line);
        }
        let expected = "failures:\n\n---- a stdout ----\nseed 7\nat line 3\n\n\nfailures:\n    a\n\n\
                        test result: FAILED. 1 passed; 1 failed\n";
        assert_eq!(found.text, expected);
    }

    #[test]
    fn a_process_that_keeps_the_output_open_does_not_keep_the_report() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo failures:; echo one; sleep 9 & echo \"$!\""]);
        let output = Output::of(&mut command, io::sink()).unwrap();
        assert!(command.status().unwrap().success());
        drop(command);
        let failures = output.failures();
        let (lists, left) = failures.trim_end().rsplit_once('\n').unwrap();
        assert_eq!(lists, "failures:\none");
        let ended = Command::new("kill").arg(left).status().unwrap();
        assert!(ended.success());
    }
}
