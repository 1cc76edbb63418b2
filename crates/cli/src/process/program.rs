//! Output of other programs that commands run.

use std::fs::File;
use std::io::{self, Read};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use scrim_foreign::Foreign;

/// Pause between two looks at the reader of what a program says.
const PAUSE: Duration = Duration::from_millis(10);

/// Time for the reader of what a program said to come to its end.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Most bytes that are kept of what a program says: the latest.
const SAID_MAX: usize = 2 << 10;

/// Output of a program that is read; the other one is dropped.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Output {
    Standard,
    Errors,
    Both,
}

/// Starts a program, and reads what it says. The command says what its standard input is.
pub(crate) fn start(mut command: Command, output: Output) -> io::Result<(Child, Said)> {
    let (said, says) = io::pipe()?;
    let (out, err) = match output {
        Output::Standard => (says.into(), Stdio::null()),
        Output::Errors => (Stdio::null(), says.into()),
        Output::Both => (says.try_clone()?.into(), says.into()),
    };
    let child = command.stdout(out).stderr(err).spawn()?;
    // It holds writing ends of the pipe, without whose end nothing that is said would end.
    drop(command);
    Ok((child, Said::listen(said)))
}

/// The latest of what a program says, which a thread reads so that the program is never held up.
pub(crate) struct Said {
    latest: Arc<Mutex<Vec<u8>>>,
    /// `None` if the system gave no thread; then nothing is kept.
    reader: Option<JoinHandle<()>>,
}

impl Said {
    pub(crate) fn listen(pipe: std::io::PipeReader) -> Self {
        let kept: Arc<Mutex<Vec<u8>>> = Arc::default();
        let shared = Arc::clone(&kept);
        let read = move || {
            let mut pipe = File::from(std::os::fd::OwnedFd::from(pipe));
            let mut piece = [0; 1024];
            while let Ok(len @ 1..) = pipe.read(&mut piece) {
                let mut kept = shared.lock().unwrap_or_else(PoisonError::into_inner);
                kept.extend_from_slice(&piece[..len]);
                let excess = kept.len().saturating_sub(SAID_MAX);
                kept.drain(..excess);
            }
        };
        Self {
            latest: kept,
            reader: std::thread::Builder::new().spawn(read).ok(),
        }
    }

    /// The last line that is not empty, with its controls escaped. The program has ended.
    pub(crate) fn last(&self) -> String {
        let text = self.text();
        let last = text.lines().rev().find(|line| !line.trim().is_empty());
        match last {
            Some(line) => Foreign::new(line.trim()).to_string(),
            None => "it said nothing".to_owned(),
        }
    }

    /// All that is kept, as it came. The program has ended.
    pub(crate) fn text(&self) -> String {
        // A process that the program has left behind may keep the pipe open.
        let deadline = Instant::now() + LAST_WORDS;
        while !self.reader.as_ref().is_none_or(JoinHandle::is_finished) && Instant::now() < deadline
        {
            std::thread::sleep(PAUSE);
        }
        let kept = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&kept).into_owned()
    }
}
