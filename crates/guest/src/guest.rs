//! A running guest, and the commands that it executes.

use std::path::Path;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::cache::Parts;
use crate::channel::{Channel, Listeners};
use crate::error::{Doing, Error, last_lines};
use crate::machine::Machine;

pub use crate::channel::Stream;

/// Time within which a guest must boot; a slow machine takes some 10 s.
const BOOT_LIMIT: Duration = Duration::from_secs(120);
/// Time within which a guest that hangs must report what it does.
const REPORT_LIMIT: Duration = Duration::from_secs(5);
/// Time within which a guest must power off.
const OFF_LIMIT: Duration = Duration::from_secs(20);
/// Number of console lines that an error shows.
const CONSOLE_LINES: usize = 40;

/// A booted kernel that waits for jobs. It is ended when the value is dropped, as by pulling the
/// plug; [`Guest::power_off`] is the polite way.
pub struct Guest {
    qemu: Qemu,
    channel: Channel,
    jobs: u32,
}

/// The process, and the folder that it shares with us.
struct Qemu {
    process: Child,
    folder: tempfile::TempDir,
    interrupted: Option<Arc<AtomicBool>>,
}

impl Guest {
    /// Boots `parts` and waits until jobs can be run.
    ///
    /// # Errors
    /// [`Error::Missing`], [`Error::Ended`], [`Error::Hung`], [`Error::Interrupted`] and
    /// [`Error::Io`].
    pub fn boot(parts: &Parts, machine: &Machine) -> Result<Self, Error> {
        let folder = tempfile::tempdir().doing("make a folder in", &std::env::temp_dir())?;
        let jobs = folder.path().join("jobs");
        std::fs::create_dir(&jobs).doing("make", &jobs)?;
        if let Some(program) = &machine.program {
            std::fs::copy(program, folder.path().join("scrim")).doing("copy", program)?;
        }
        let listeners = Listeners::bind(folder.path())?;
        let mut qemu = Qemu {
            process: machine.start(parts, folder.path())?,
            folder,
            interrupted: machine.interrupted.clone(),
        };
        let channel = listeners.accept(|| qemu.go_on())?;
        let mut guest = Self {
            qemu,
            channel,
            jobs: 0,
        };
        guest.wait_for("ready", "boot", BOOT_LIMIT, &mut |_, _| {})?;
        Ok(guest)
    }

    /// Runs a script in the guest's shell, in `/share`, and returns its exit code. `print` is given
    /// what it prints, as it comes.
    ///
    /// # Errors
    /// [`Error::Ended`], [`Error::Hung`] when it takes longer than `limit`, [`Error::Interrupted`]
    /// and [`Error::Io`]; after each of them the guest is of no use.
    pub fn run(
        &mut self,
        script: &str,
        limit: Duration,
        print: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<u8, Error> {
        let job = self.jobs;
        self.jobs += 1;
        let path = self.qemu.folder.path().join("jobs").join(job.to_string());
        std::fs::write(&path, script).doing("write", &path)?;
        self.channel.say(&format!("run {job}"))?;
        let done = format!("done {job} ");
        match self.wait_for(&done, "end its job", limit, print) {
            Ok(code) => Ok(code.parse().unwrap_or(u8::MAX)),
            Err(Error::Hung { doing, limit, .. }) => {
                // It shows what it does, if it still can.
                let reported = self
                    .channel
                    .say("report")
                    .and_then(|()| self.wait_for("reported", doing, REPORT_LIMIT, &mut |_, _| {}));
                match reported {
                    Err(Error::Interrupted) => Err(Error::Interrupted),
                    _ => Err(self.qemu.hung(doing, limit)),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// Gives the terminal to a shell in the guest, until the user leaves it. Needs
    /// [`Console::Terminal`](crate::Console::Terminal).
    ///
    /// # Errors
    /// As of [`Guest::run`], but for the limit.
    pub fn shell(&mut self) -> Result<(), Error> {
        self.channel.say("shell")?;
        self.wait_for(
            "done shell ",
            "end its shell",
            Duration::MAX,
            &mut |_, _| {},
        )
        .map(drop)
    }

    /// Ends the guest in order.
    ///
    /// # Errors
    /// [`Error::Hung`] and [`Error::Io`].
    pub fn power_off(mut self) -> Result<(), Error> {
        self.channel.say("off")?;
        let deadline = Instant::now() + OFF_LIMIT;
        while self.qemu.is_running()? {
            if Instant::now() > deadline {
                return Err(self.qemu.hung("power off", OFF_LIMIT));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Waits until the guest says a line that begins with `start`, and returns the rest of it.
    fn wait_for(
        &mut self,
        start: &str,
        doing: &'static str,
        limit: Duration,
        print: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<String, Error> {
        let started = Instant::now();
        loop {
            if let Some(line) = self.channel.listen(print)?
                && let Some(rest) = line.strip_prefix(start)
            {
                return Ok(rest.to_owned());
            }
            self.qemu.go_on()?;
            if started.elapsed() > limit {
                return Err(self.qemu.hung(doing, limit));
            }
        }
    }
}

impl Qemu {
    /// Returns an error when there is no use in waiting any longer.
    fn go_on(&mut self) -> Result<(), Error> {
        let flag = self.interrupted.as_ref();
        if flag.is_some_and(|flag| flag.load(Ordering::Relaxed)) {
            return Err(Error::Interrupted);
        }
        if self.is_running()? {
            return Ok(());
        }
        Err(Error::Ended {
            console: self.console(),
        })
    }

    fn is_running(&mut self) -> Result<bool, Error> {
        let ended = self.process.try_wait();
        let ended = ended.doing("wait for", Path::new("qemu-system-x86_64"))?;
        Ok(ended.is_none())
    }

    fn hung(&self, doing: &'static str, limit: Duration) -> Error {
        Error::Hung {
            doing,
            limit,
            console: self.console(),
        }
    }

    fn console(&self) -> String {
        let console = std::fs::read(self.folder.path().join("console")).unwrap_or_default();
        last_lines(&String::from_utf8_lossy(&console), CONSOLE_LINES)
    }
}

impl Drop for Qemu {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
