//! `scrim serve`, as a process of its own that ends with the measurement.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use scrim_seeded::Random;
use scrim_sys::file_system::SHARED_MEMORY;

use super::error::ServeError;
use super::plan::{Content, NAME, Ours};
use crate::Study;
use crate::folder::{Folder, free_memory};
use crate::web::{Identity, Suite, Trust, Url};

/// Prefix of the folders that are removed with the measurement, or by the next one.
const PREFIX: &str = "scrim-bench-serve";
/// Names of the certificate and its key.
const CERTIFICATE: &str = "cert.pem";
const KEY: &str = "key.pem";
/// Time within which a server must begin.
const START_LIMIT: Duration = Duration::from_secs(10);
/// Longest line that a server says of an address, in bytes.
const LINE: usize = 2000;

/// A server that runs, and its addresses.
pub(super) struct Server {
    process: Process,
    pub(super) http: Url,
    pub(super) https: Url,
    /// Certificates that its clients believe.
    pub(super) trust: Trust,
    _folders: Vec<Folder>,
}

/// A process that ends, and is waited for, with this.
pub(super) struct Process(Child);

impl Server {
    /// Starts one, and waits until it serves.
    pub(super) fn start(ours: &Ours, study: &mut Study) -> Result<Self, ServeError> {
        let base = base();
        let own = folder(&base)?;
        let mut folders = Vec::new();
        let root = match &ours.content {
            Content::Made { bytes } => {
                if base != Path::new(SHARED_MEMORY) {
                    study.warn(format!(
                        "no RAM disk: {SHARED_MEMORY} is not in memory, so that the file lies in {}",
                        base.display()
                    ));
                }
                let root = own.path().join("site");
                fs::create_dir(&root).map_err(ServeError::system("make a folder to serve"))?;
                make(&root.join(NAME), *bytes)?;
                root
            }
            Content::Users(file) => {
                let beside = file.parent().unwrap_or(Path::new("/"));
                let folder = folder(beside)?;
                let doing = format!(
                    "give {} a second name in {}, to serve it and nothing beside it",
                    file.display(),
                    folder.path().display()
                );
                fs::hard_link(file, folder.path().join(NAME)).map_err(ServeError::system(doing))?;
                let root = folder.path().to_owned();
                folders.push(folder);
                root
            }
        };
        let identity = write_identity(own.path())?;
        let log = own.path().join("log");
        let mut command = Command::new(&ours.program);
        arguments(&mut command, root.as_os_str(), own.path(), ours.suite);
        prepared(&mut command);
        let (process, urls) = Process::start(&mut command, &log)?;
        let target = format!("/{NAME}");
        folders.push(own);
        Ok(Self {
            process,
            http: at(&urls, false, &target)?,
            https: at(&urls, true, &target)?,
            trust: identity.trust(Some(ours.suite))?,
            _folders: folders,
        })
    }

    /// Number of the server's process.
    pub(super) fn id(&self) -> u32 {
        self.process.0.id()
    }
}

/// The interface of `scrim serve`, in one place. The certificate and its key are in `folder`.
pub(super) fn arguments(command: &mut Command, root: &OsStr, folder: &Path, suite: Suite) {
    command.arg("serve").arg(root);
    command.args(["--listen", "127.0.0.1:0", "--plain-http", "127.0.0.1:0"]);
    command.arg("--certificate").arg(folder.join(CERTIFICATE));
    command.arg("--key").arg(folder.join(KEY));
    command.args(["--tls-suite", suite.registered()]);
    command.arg("--end-with-parent");
    command.arg(std::process::id().to_string());
}

/// Keeps from a command what only this process was given: sockets, the notification socket and standard input.
pub(super) fn prepared(command: &mut Command) {
    command
        .env_remove("LISTEN_FDS")
        .env_remove("NOTIFY_SOCKET")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        // A Ctrl-C is for this process, which ends those that it has started.
        .process_group(0);
}

/// A certificate and its key, written to `folder`.
pub(super) fn write_identity(folder: &Path) -> Result<Identity, ServeError> {
    let identity = Identity::make()?;
    for (name, text) in [
        (CERTIFICATE, &identity.certificate_pem),
        (KEY, &identity.key_pem),
    ] {
        let written = fs::write(folder.join(name), text);
        written.map_err(ServeError::system("write a certificate"))?;
    }
    Ok(identity)
}

/// Finds the URL of `target`, plain or over TLS, among those that a server printed.
pub(super) fn at(urls: &[Url], tls: bool, target: &str) -> Result<Url, ServeError> {
    let url = urls.iter().find(|url| url.tls == tls);
    url.map(|url| url.at(target))
        .ok_or_else(|| ServeError::Server {
            said: "it does not say at which addresses".to_owned(),
        })
}

impl Process {
    /// Starts it, and waits until it has said where it serves, plain and over TLS.
    pub(super) fn start(command: &mut Command, log: &Path) -> Result<(Self, Vec<Url>), ServeError> {
        let errors = File::create(log).map_err(ServeError::system("write a log"))?;
        let program = command.get_program().to_string_lossy().into_owned();
        let child = command.stderr(errors).spawn();
        let doing = format!("start {program}");
        let mut process = Self(child.map_err(ServeError::system(doing))?);
        let lines = process.lines();
        let mut urls: Vec<Url> = Vec::new();
        let end = Instant::now() + START_LIMIT;
        let failed = |said: String| ServeError::Server { said };
        while !(urls.iter().any(|url| url.tls) && urls.iter().any(|url| !url.tls)) {
            let left = end.saturating_duration_since(Instant::now());
            match lines.recv_timeout(left) {
                Ok(line) => urls.extend(Url::parse(&line).ok()),
                Err(RecvTimeoutError::Timeout) => {
                    let seconds = START_LIMIT.as_secs();
                    return Err(failed(format!(
                        "it has not said in {seconds} seconds at which addresses it does"
                    )));
                }
                Err(RecvTimeoutError::Disconnected) => return Err(failed(last_words(log))),
            }
        }
        Ok((process, urls))
    }

    /// Reads its output to the end: output that is not read would hold the server up.
    fn lines(&mut self) -> Receiver<String> {
        let (sender, receiver) = channel();
        if let Some(output) = self.0.stdout.take() {
            thread::spawn(move || {
                for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
                    let line = &line[..line.len().min(LINE)];
                    let line = String::from_utf8_lossy(line).trim().to_owned();
                    // The receiver is gone once the server serves.
                    let _ = sender.send(line);
                }
            });
        }
        receiver
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process has nothing that is worth an orderly end.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(super) fn last_words(log: &Path) -> String {
    let said = fs::read(log).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    let last = said.lines().rfind(|line| !line.is_empty());
    let last = last.unwrap_or("it ended without a word");
    last.trim_start_matches("scrim: ").to_owned()
}

/// Folder in memory where that is a file system. Leftovers of measurements that were killed are removed from it.
pub(super) fn base() -> PathBuf {
    let base = match free_memory(Path::new(SHARED_MEMORY)) {
        Some(_) => PathBuf::from(SHARED_MEMORY),
        None => std::env::temp_dir(),
    };
    Folder::sweep(&base, PREFIX);
    base
}

pub(super) fn folder(base: &Path) -> Result<Folder, ServeError> {
    let doing = format!("make a folder in {}", base.display());
    Folder::make(base, PREFIX).map_err(ServeError::system(doing))
}

/// Makes a file that no file system can compress.
pub(super) fn make(path: &Path, bytes: u64) -> Result<(), ServeError> {
    if let Some(free) = path.parent().and_then(free_memory)
        && free < bytes
    {
        return Err(ServeError::Room {
            wanted: bytes,
            free,
        });
    }
    let write = || -> io::Result<()> {
        let unit = Random::new(1).bytes(1 << 20);
        let mut file = File::create_new(path)?;
        let mut left = bytes;
        while left > 0 {
            let some = usize::try_from(left).unwrap_or(usize::MAX).min(unit.len());
            file.write_all(&unit[..some])?;
            left -= some as u64;
        }
        Ok(())
    };
    write().map_err(ServeError::system(format!("write {}", path.display())))
}
