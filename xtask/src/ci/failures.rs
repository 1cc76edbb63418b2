//! The part of a stage's output that says why tests failed. Logs of continuous integration are long and may be shown
//! without their middle, so the report at the end repeats it.

use std::io::{self, PipeReader, Read, Write};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// Most bytes of tests' own output that are repeated, and most of their names.
const MAX: usize = 64 << 10;
/// Most bytes of one test's own output that are repeated.
const OWN_MAX: usize = 8 << 10;
/// Stands for what is not repeated.
const CUT: &str = "… cut\n";

/// Time for the rest of the output after the end of a stage, counted anew from each part that comes. A process that the
/// stage has left behind keeps the output open; it must not keep the report waiting.
const REST: Duration = Duration::from_secs(2);
/// The longest time for the rest in all, since such a process may go on writing.
const REST_MAX: Duration = Duration::from_secs(60);

/// First line of the two lists in which `cargo test` shows what failed: outputs of the failed tests, and their names.
const FIRST: &str = "failures:";
/// Start of the line behind the lists.
const END: &str = "test result:";
/// Start and end of the line before the output of a test.
const TEST: (&str, &str) = ("---- ", " stdout ----");

/// Lines of output that are lists of failed tests.
#[derive(Debug, Default)]
struct Found {
    text: String,
    within: bool,
    /// Bytes of tests' own output in the text.
    own: usize,
    /// Within a test's own output.
    is_own: bool,
    /// Bytes that may follow in the current list of names, or output of a test.
    room: usize,
    /// Something did not fit, and that was said.
    is_cut: bool,
}

impl Found {
    fn add(&mut self, line: &str) {
        let trimmed = line.trim_end();
        if trimmed == FIRST {
            (self.within, self.is_own) = (true, false);
            (self.room, self.is_cut) = (MAX, false);
        }
        if !self.within {
            return;
        }
        if line.starts_with(END) {
            self.within = false;
            self.text.push_str(line);
        } else if line.starts_with(TEST.0) && trimmed.ends_with(TEST.1) {
            self.text.push_str(line);
            self.is_own = true;
            self.room = OWN_MAX.min(MAX.saturating_sub(self.own));
            self.is_cut = false;
        } else {
            self.add_within_room(line);
        }
    }

    fn add_within_room(&mut self, line: &str) {
        if self.is_cut {
            return;
        }
        let mut taken = line.len().min(self.room);
        while !line.is_char_boundary(taken) {
            taken -= 1;
        }
        self.text.push_str(&line[..taken]);
        if self.is_own {
            self.own += taken;
        }
        self.room -= taken;
        if taken < line.len() {
            self.is_cut = true;
            if taken > 0 {
                self.text.push('\n');
            }
            self.text.push_str(CUT);
        }
    }
}

/// A stage's output, which is copied to another one.
pub(crate) struct Output {
    found: Arc<Mutex<Found>>,
    /// Tells that a part of the output has come. Closed at its end.
    parts: mpsc::Receiver<()>,
}

impl Output {
    /// Lets `command` write to a pipe, whose content is copied to `sink`. The command has to be dropped before
    /// [`failures`](Self::failures) is called, since it keeps the pipe open.
    pub(crate) fn of(command: &mut Command, sink: impl Write + Send + 'static) -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        command.stdout(writer.try_clone()?).stderr(writer);
        let found = Arc::new(Mutex::new(Found::default()));
        let (came, parts) = mpsc::sync_channel(1);
        let shared = Arc::clone(&found);
        thread::spawn(move || copy(reader, sink, &shared, &came));
        Ok(Self { found, parts })
    }

    /// Returns the lists of failed tests, once all output has come, or none has for [`REST`].
    pub(crate) fn failures(self) -> String {
        let ended = Instant::now();
        while ended.elapsed() < REST_MAX && self.parts.recv_timeout(REST).is_ok() {}
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut found.text)
    }
}

/// Copies at once what comes, also a part of a line.
fn copy(
    mut reader: PipeReader,
    mut sink: impl Write,
    found: &Mutex<Found>,
    came: &mpsc::SyncSender<()>,
) {
    let add = |line: &[u8]| {
        let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
        found.add(&String::from_utf8_lossy(line));
    };
    let mut buffer = [0; 8 << 10];
    let mut line = Vec::new();
    loop {
        let part = match reader.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => &buffer[..read],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        // Whoever reads the copy may have gone; the stage runs on.
        let _ = sink.write_all(part).and_then(|()| sink.flush());
        for piece in part.split_inclusive(|byte| *byte == b'\n') {
            line.extend_from_slice(piece);
            if line.ends_with(b"\n") || line.len() >= MAX {
                add(&line);
                line.clear();
            }
        }
        // One that is there already says the same.
        let _ = came.try_send(());
    }
    add(&line);
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "test a ... FAILED\ntest b ... ok\n\nfailures:\n\n---- a stdout ----\nseed 7\nat line 3\n\n\n\
                       failures:\n    a\n\ntest result: FAILED. 1 passed; 1 failed\n\nrunning 0 tests\n\
                       test result: ok. 0 passed\n";

    #[test]
    fn the_lists_of_failed_tests_are_found() {
        let expected = "failures:\n\n---- a stdout ----\nseed 7\nat line 3\n\n\nfailures:\n    a\n\n\
                        test result: FAILED. 1 passed; 1 failed\n";
        assert_eq!(found(LOG), expected);
    }

    fn found(log: &str) -> String {
        let mut found = Found::default();
        for line in log.split_inclusive('\n') {
            found.add(line);
        }
        found.text
    }

    #[test]
    fn long_output_of_a_test_is_cut_and_all_names_are_kept() {
        let long = format!("{}\n", "é".repeat(OWN_MAX)).repeat(20);
        let test = |name: usize| format!("---- t{name} stdout ----\n{long}short {name}\n\n");
        let outputs: String = (0..20).map(test).collect();
        let names = "failures:\n    t0\n    t19\n\ntest result: FAILED\n";
        let text = found(&format!("failures:\n\n{outputs}{names}"));
        assert!(text.ends_with(&format!("… cut\n{names}")));
        assert_eq!(text.matches(CUT).count(), 20);
        assert!((0..20).all(|name| text.contains(&format!("---- t{name} stdout ----"))));
        assert!(!text.contains("short"));
        assert!(text.len() < MAX + 20 * 100 + names.len());
    }

    #[test]
    fn a_part_of_a_line_is_copied_at_once() {
        struct Sink(mpsc::Sender<u8>);
        impl Write for Sink {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                for byte in bytes {
                    let _ = self.0.send(*byte);
                }
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let (sent, bytes) = mpsc::channel();
        // It waits for the end of its input, which comes once the part has been seen.
        let mut command = Command::new("sh");
        command.args(["-c", "printf 'failures:\\npart'; read end; echo"]);
        command.stdin(std::process::Stdio::piped());
        let output = Output::of(&mut command, Sink(sent)).unwrap();
        let mut child = command.spawn().unwrap();
        drop(command);
        let seen: Vec<u8> = bytes.iter().take("failures:\npart".len()).collect();
        assert_eq!(seen, b"failures:\npart");
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(output.failures(), "failures:\npart\n");
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
