//! Volumes that processes of their own serve.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};
use scrim_backend::{Access, RemoteBackend, RemoteOptions};
use scrim_nbd::Address;
use scrim_sys::file_system::SHARED_MEMORY;

use super::error::PathsError;
use super::load::Disk;
use super::place::{noise, whole_blocks};
use super::plan::{Plan, Storage};
use super::setup::Contender;
use crate::Study;
use crate::folder::{Folder, free_memory};

/// Most bytes of one volume: each server has a file of its own.
const LARGEST: u64 = 32 << 20;
/// Least bytes of a volume that are worth a file system in memory.
const SMALLEST: u64 = 4 << 20;
/// Time after which a server that does not answer is given up.
const PATIENCE: Duration = Duration::from_secs(10);
/// Names of the threads of a server's connections, before their number.
const CONNECTION: &str = "nbd-";
/// Most bytes that are read of a server's words on its failure.
const SAID: u64 = 2000;

/// Servers, which end with this.
pub(super) struct Servers {
    folder: Folder,
    running: Vec<Server>,
    /// Bytes of each volume that are used.
    pub(super) size: u64,
}

/// A server with its volume.
pub(super) struct Server {
    // It is dropped first, so that it does not look for a server that is gone.
    disk: RemoteBackend,
    process: Process,
}

/// A process that ends, and is waited for, with this.
struct Process(Child);

impl Servers {
    /// Finds room for `count` servers.
    pub(super) fn prepare(plan: &Plan, count: u64, study: &mut Study) -> Result<Self, PathsError> {
        let (base, size) = match &plan.storage {
            Storage::Ram { bytes } => room(*bytes, count, study),
            Storage::Users(users) => (std::env::temp_dir(), users.backend.info().size),
        };
        Ok(Self {
            folder: Folder::make(&base, "scrim-bench").map_err(PathsError::system(format!(
                "make a folder in {}",
                base.display()
            )))?,
            running: Vec::new(),
            size: whole_blocks(size, plan.block)?,
        })
    }

    /// Starts one, and connects to it. Once that is done nothing of it is left in the file system.
    pub(super) fn start(&mut self, plan: &Plan, contender: Contender) -> Result<(), PathsError> {
        let folder = self.folder.path();
        let image = match &plan.storage {
            Storage::Ram { .. } => folder.join("image"),
            Storage::Users(users) => users.path.clone().unwrap_or_default(),
        };
        let ours = matches!(plan.storage, Storage::Ram { .. });
        if ours {
            make(&image, self.size)?;
        }
        let socket = folder.join("s.nbd");
        let table = contender.table_text(&in_table(&image)?, self.size / 512);
        let process = Process::start(plan, contender, folder, &socket, &table)?;
        let options = RemoteOptions {
            connections: plan.depth.min(RemoteOptions::default().connections),
            limit: PATIENCE,
        };
        let uri = Address::Unix(socket.clone()).uri("");
        let disk = RemoteBackend::open_named(&uri, Access::ReadWrite, options)
            .map_err(PathsError::Connect)?;
        self.running.push(Server { disk, process });
        if ours {
            fs::remove_file(&image)
                .map_err(PathsError::system(format!("remove {}", image.display())))?;
        }
        // What listens there goes on; the next one listens at the same place.
        let _ = fs::remove_file(&socket);
        let _ = fs::remove_dir_all(folder.join("scrim"));
        Ok(())
    }

    /// Keeps the threads that serve us on one processor: those of the queues stay free, as dm-crypt's are.
    /// Returns whether that could be done.
    pub(super) fn answer_on(&self, cpu: usize) -> bool {
        let mut servers = self.running.iter();
        servers.all(|server| server.process.answers_on(cpu))
    }

    /// The served volumes, in the order in which their servers were started.
    pub(super) fn disks(&self) -> Vec<&dyn Disk> {
        let servers = self.running.iter();
        servers.map(|server| &server.disk as &dyn Disk).collect()
    }
}

impl Process {
    fn start(
        plan: &Plan,
        contender: Contender,
        folder: &Path,
        socket: &Path,
        table: &str,
    ) -> Result<Self, PathsError> {
        let mut address = OsString::from("unix:");
        address.push(socket);
        let mut command = Command::new(&plan.program);
        command
            .args(["open", "--table", "-", "bench", "--foreground"])
            .arg("--end-with-parent")
            .arg(std::process::id().to_string())
            .arg("--data-path")
            .arg(contender.set_up.path().to_string())
            .arg("--nbd")
            .arg(address)
            .env("XDG_RUNTIME_DIR", folder)
            .env_remove("LISTEN_FDS")
            .env_remove("NOTIFY_SOCKET")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A Ctrl-C is for this process, which ends those that it has started.
            .process_group(0);
        if let Storage::Users(users) = &plan.storage {
            command.args(&users.options);
            if !users.writes {
                command.arg("--readonly");
            }
        }
        let doing = format!("start {}", plan.program.display());
        let mut process = Self(command.spawn().map_err(PathsError::system(doing))?);
        if let Some(mut input) = process.0.stdin.take() {
            // A server that has ended already says why on its output.
            let _ = input.write_all(table.as_bytes());
        }
        let mut address = String::new();
        if let Some(output) = process.0.stdout.take() {
            // The end of its output is as good as an error.
            let _ = BufReader::new(output.take(SAID)).read_line(&mut address);
        }
        if address.ends_with('\n') {
            return Ok(process);
        }
        Err(PathsError::Server {
            said: process.last_words(),
        })
    }

    /// Binds the threads of its connections.
    fn answers_on(&self, cpu: usize) -> bool {
        let mut only = CpuSet::new();
        only.set(cpu);
        let Ok(threads) = fs::read_dir(format!("/proc/{}/task", self.0.id())) else {
            return false;
        };
        let mut bound = 0;
        for thread in threads.flatten() {
            let name = fs::read_to_string(thread.path().join("comm")).unwrap_or_default();
            let number = name.trim_end().strip_prefix(CONNECTION);
            if number.is_none_or(|number| number.parse::<u64>().is_err()) {
                continue;
            }
            let id = thread.file_name().to_str().and_then(|id| id.parse().ok());
            if let Some(thread) = id.and_then(Pid::from_raw) {
                bound += u32::from(sched_setaffinity(Some(thread), &only).is_ok());
            }
        }
        bound > 0
    }

    fn last_words(&mut self) -> String {
        let mut said = Vec::new();
        if let Some(errors) = self.0.stderr.take() {
            let _ = errors.take(SAID).read_to_end(&mut said);
        }
        let said = String::from_utf8_lossy(&said);
        let last = said.lines().last().unwrap_or("it ended without a word");
        last.trim_start_matches("scrim: ").to_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process has nothing that is worth an orderly end.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Finds the folder for the files of `count` volumes, and the largest size that each may have.
fn room(wanted: u64, count: u64, study: &mut Study) -> (PathBuf, u64) {
    let shared = Path::new(SHARED_MEMORY);
    let most = free_memory(shared).and_then(|free| {
        // Half of it is left to others.
        let each = free / 2 / count.max(1);
        (each >= SMALLEST).then_some(each / SMALLEST * SMALLEST)
    });
    let size = wanted.min(LARGEST);
    match most {
        Some(most) => (shared.to_owned(), size.min(most)),
        None => {
            let folder = std::env::temp_dir();
            study.warn(format!(
                "no RAM disk: {SHARED_MEMORY} is not in memory or too full, so that served volumes lie \
                 in {}, and its disk may be measured too",
                folder.display()
            ));
            (folder, size)
        }
    }
}

fn make(image: &Path, size: u64) -> Result<(), PathsError> {
    let write = || {
        let bytes = noise(usize::try_from(size).unwrap_or(usize::MAX));
        File::create_new(image)?.write_all(&bytes)
    };
    write().map_err(PathsError::system(format!("write {}", image.display())))
}

/// A path as tables have it.
fn in_table(path: &Path) -> Result<String, PathsError> {
    let text = path.to_str().filter(|text| {
        let special = |c: char| c.is_whitespace() || c == '\\';
        !text.is_empty() && !text.contains(special)
    });
    text.map(str::to_owned).ok_or_else(|| PathsError::Server {
        said: format!(
            "the path {} has a blank or a backslash in it, which a table cannot name here",
            path.display()
        ),
    })
}
