//! A server that runs until it is dropped.

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
use scrim_bench::process::cpu_time;

use super::room::Room;
use crate::error::{Doing, Error};

/// The NBD server's first words, in every kind of handshake.
const GREETING: &[u8; 8] = b"NBDMAGIC";
/// How long a server may take to open its image: unlocking is part of it.
const START_TIME: Duration = Duration::from_secs(30);
/// How long a server may take to end by itself.
const STOP_TIME: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(20);

/// A running server.
pub(super) struct Server {
    name: &'static str,
    child: Child,
    socket: PathBuf,
}

impl Server {
    /// Starts `command` and waits until it greets on `socket`.
    pub(super) fn start(
        room: &Room,
        name: &'static str,
        socket: &Path,
        command: &mut Command,
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
        let mut server = Self {
            name,
            child,
            socket: socket.to_path_buf(),
        };
        server.wait_until_it_greets(room, &log)?;
        Ok(server)
    }

    fn wait_until_it_greets(&mut self, room: &Room, log: &Path) -> Result<(), Error> {
        let start = Instant::now();
        loop {
            room.check()?;
            if greets(&self.socket).is_ok_and(|greets| greets) {
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
                return Err(Error::program(self.name, text));
            }
            if start.elapsed() > START_TIME {
                let text = format!("does not greet on its socket: {}", said());
                return Err(Error::program(self.name, text));
            }
            sleep(PAUSE);
        }
    }

    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Of its process.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Processor time used so far.
    pub(super) fn cpu_time(&self) -> Result<Duration, Error> {
        cpu_time(self.child.id()).doing(|| format!("see what {} has used", self.name))
    }

    /// Keeps all its threads, and those that they start, on `processor` if there is one.
    pub(super) fn pinned(self, processor: Option<usize>) -> Result<Self, Error> {
        let Some(processor) = processor else {
            return Ok(self);
        };
        let mut set = CpuSet::new();
        set.set(processor);
        let pin = || -> io::Result<()> {
            for thread in fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
                let id = thread?.file_name().to_string_lossy().parse().ok();
                match sched_setaffinity(id.and_then(Pid::from_raw), &set) {
                    // One that has ended meanwhile, as that of the client that looked for the greeting.
                    Ok(()) | Err(Errno::SRCH) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Ok(())
        };
        pin().doing(|| format!("keep {} on processor {processor}", self.name))?;
        Ok(self)
    }
}

/// Whether an NBD server answers on `socket`.
fn greets(socket: &Path) -> io::Result<bool> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut greeting = [0; GREETING.len()];
    stream.read_exact(&mut greeting)?;
    Ok(greeting == *GREETING)
}

impl Drop for Server {
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
