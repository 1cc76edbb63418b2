//! Servers that run until they are dropped.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CpuSet, sched_setaffinity};
use scrim_bench::process::family_cpu_time;

use super::room::Room;
use crate::error::{Doing, Error};

/// The NBD server's first words, in every kind of handshake.
const GREETING: &[u8; 8] = b"NBDMAGIC";
/// Time that a server may take to open its image, which includes unlocking.
const START_TIME: Duration = Duration::from_secs(30);
/// Time that a server may take to end by itself.
const STOP_TIME: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(20);

/// URI of an NBD server on a Unix socket.
pub(super) fn uri_of(socket: &Path) -> String {
    format!("nbd+unix:///?socket={}", socket.display())
}

/// A program that runs until this is dropped.
pub(super) struct Process {
    name: String,
    child: Child,
}

impl Process {
    /// Starts `command` and waits until it `is_ready`; its output goes into a log.
    pub(super) fn start(
        room: &Room,
        name: &str,
        command: &mut Command,
        is_ready: impl FnMut() -> bool,
    ) -> Result<Self, Error> {
        let log = room.path(&format!("{name}.log"));
        let output = File::create(&log).doing(|| format!("create {}", log.display()))?;
        let errors = output
            .try_clone()
            .doing(|| format!("open {}", log.display()))?;
        let child = command
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .spawn()
            .doing(|| format!("start {name}"))?;
        let mut process = Self {
            name: name.to_owned(),
            child,
        };
        process.wait_until(room, &log, is_ready)?;
        Ok(process)
    }

    fn wait_until(
        &mut self,
        room: &Room,
        log: &Path,
        mut is_ready: impl FnMut() -> bool,
    ) -> Result<(), Error> {
        let start = Instant::now();
        loop {
            room.check()?;
            if is_ready() {
                return Ok(());
            }
            let ended = self
                .child
                .try_wait()
                .doing(|| format!("wait for {}", self.name))?;
            let said = || {
                let text = fs::read_to_string(log).unwrap_or_default();
                text.lines().last().unwrap_or("it said nothing").to_owned()
            };
            if let Some(status) = ended {
                let text = format!("ended before it served ({status}): {}", said());
                return Err(Error::program(&self.name, text));
            }
            if start.elapsed() > START_TIME {
                let text = format!("does not answer: {}", said());
                return Err(Error::program(&self.name, text));
            }
            sleep(PAUSE);
        }
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Processor time used so far, by its children too.
    pub(super) fn cpu_time(&self) -> Result<Duration, Error> {
        family_cpu_time(self.child.id()).doing(|| format!("see what {} has used", self.name))
    }
}

/// A running NBD server.
pub(super) struct Server {
    process: Process,
    socket: PathBuf,
}

impl Server {
    /// Starts `command` and waits until it greets on `socket`.
    pub(super) fn start(
        room: &Room,
        name: &str,
        socket: &Path,
        command: &mut Command,
    ) -> Result<Self, Error> {
        let ready = || greets(socket).is_ok_and(|greets| greets);
        Ok(Self {
            process: Process::start(room, name, command, ready)?,
            socket: socket.to_path_buf(),
        })
    }

    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Process ID of the server.
    pub(super) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Processor time used so far.
    pub(super) fn cpu_time(&self) -> Result<Duration, Error> {
        self.process.cpu_time()
    }

    /// Pins all threads of the server, and those that they start, to `processor`, if one is given.
    pub(super) fn pinned(self, processor: Option<usize>) -> Result<Self, Error> {
        let Some(processor) = processor else {
            return Ok(self);
        };
        let mut set = CpuSet::new();
        set.set(processor);
        let pin = || -> io::Result<()> {
            for thread in fs::read_dir(format!("/proc/{}/task", self.id()))? {
                let id = thread?.file_name().to_string_lossy().parse().ok();
                match sched_setaffinity(id.and_then(Pid::from_raw), &set) {
                    // A thread that has ended meanwhile, such as that of the client that looked for the greeting.
                    Ok(()) | Err(Errno::SRCH) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Ok(())
        };
        pin().doing(|| format!("keep {} on processor {processor}", self.process.name))?;
        Ok(self)
    }
}

/// Checks whether an NBD server answers on `socket`.
pub(super) fn greets(socket: &Path) -> io::Result<bool> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut greeting = [0; GREETING.len()];
    stream.read_exact(&mut greeting)?;
    Ok(greeting == *GREETING)
}

impl Drop for Process {
    fn drop(&mut self) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid
            && kill_process(pid, Signal::TERM).is_ok()
        {
            let start = Instant::now();
            while start.elapsed() < STOP_TIME {
                if self.child.try_wait().is_ok_and(|ended| ended.is_some()) {
                    return;
                }
                sleep(PAUSE);
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
