//! Programs that mount a file system in a file, over FUSE: what they are called, and how they are watched.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getgid, getuid, kill_process};
use scrim_export::fuse::OtherMount;

use super::request::MountRequest;
use crate::error::{CliError, Exit};
use crate::process::signals::asked_to_end;

/// Pause between two looks at whether a program has mounted.
const PAUSE: Duration = Duration::from_millis(10);

/// Time for the reader of what a program said to come to its end.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Time for a program to end that is asked to.
const ENDING: Duration = Duration::from_secs(10);

/// Most bytes that are kept of what a program says: the latest.
const SAID_MAX: usize = 2 << 10;

/// A program that mounts a file system.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) command: &'static str,
    /// Package of Debian that has the command.
    pub(super) package: &'static str,
    /// Arguments that keep it in the foreground.
    foreground: &'static [&'static str],
    /// Mount options that it always gets.
    options: &'static [&'static str],
    /// Says whose files it shows, where the file system does not, as options of FUSE programs do.
    owner: Owner,
    /// True if it mounts for all users, and can read the plaintext only where FUSE allows other users.
    pub(super) needs_allow_other: bool,
    /// True if an ext file system that was not unmounted is to be checked before.
    pub(super) wants_check: bool,
}

/// Owner of the files that a program shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// As the file system has it.
    OfFileSystem,
    /// The user who mounts; others are kept out by the files' modes.
    User,
}

pub(super) const FUSE2FS: Program = Program {
    command: "fuse2fs",
    package: "fuse2fs",
    foreground: &["-f"],
    // Without it a user could not enter directories of root's in an image that the user made.
    options: &["fakeroot"],
    owner: Owner::OfFileSystem,
    needs_allow_other: false,
    wants_check: true,
};

/// Runs with root's rights in Debian (setuid), which FUSE takes for another user, and sets `allow_other` by itself.
pub(super) const NTFS_3G: Program = Program {
    command: "ntfs-3g",
    package: "ntfs-3g",
    foreground: &[],
    options: &["no_detach"],
    owner: Owner::User,
    needs_allow_other: true,
    wants_check: false,
};

/// Sets `allow_other` by itself. Its only way to stay in the foreground also has it report each request, which is
/// not kept.
pub(super) const EXFAT_FUSE: Program = Program {
    command: "mount.exfat-fuse",
    package: "exfat-fuse",
    foreground: &["-d"],
    options: &[],
    owner: Owner::User,
    needs_allow_other: true,
    wants_check: false,
};

pub(super) const SQUASHFUSE: Program = Program {
    command: "squashfuse",
    package: "squashfuse",
    foreground: &["-f"],
    options: &["ro"],
    owner: Owner::OfFileSystem,
    needs_allow_other: false,
    wants_check: false,
};

impl Program {
    /// The arguments for a file system in `raw`.
    fn arguments(&self, raw: &Path, request: &MountRequest) -> Vec<OsString> {
        let mut options: Vec<String> = self
            .options
            .iter()
            .map(|&option| option.to_owned())
            .collect();
        if request.read_only && !options.iter().any(|option| option == "ro") {
            options.push("ro".to_owned());
        }
        if request.allow_other && !self.needs_allow_other {
            options.push("allow_other".to_owned());
        }
        if request.allow_other && self.owner == Owner::OfFileSystem {
            // These programs check no modes themselves, so the kernel has to.
            options.push("default_permissions".to_owned());
        }
        if self.owner == Owner::User {
            let mask = if request.allow_other { "022" } else { "077" };
            let (uid, gid) = (getuid().as_raw(), getgid().as_raw());
            options.push(format!("uid={uid},gid={gid},umask={mask}"));
        }
        let mut arguments: Vec<OsString> = self.foreground.iter().map(OsString::from).collect();
        if !options.is_empty() {
            arguments.extend(["-o".into(), options.join(",").into()]);
        }
        arguments.extend([raw.into(), request.directory.clone().into()]);
        arguments
    }

    /// Addition to the error where FUSE does not let other users in.
    pub(super) fn why_allow_other(&self) -> String {
        format!(
            "; {} reads the plaintext as another user does, so it needs that; --raw shows the plaintext without it",
            self.command
        )
    }

    /// Starts the program and waits until it has mounted.
    ///
    /// It is sent SIGTERM when this process ends, and then unmounts. A program that gets root's rights by a set-user-ID bit,
    /// as ntfs-3g in Debian, is not sent that (`PR_SET_PDEATHSIG` in prctl(2)): it gets errors from the plaintext, which
    /// ends with this process, and the guard of its mount unmounts it, whereupon it ends.
    pub(super) fn start(
        &'static self,
        raw: &Path,
        request: &MountRequest,
    ) -> Result<(Running, OtherMount), CliError> {
        let fail =
            |error: std::io::Error| CliError::io(format_args!("start {}", self.command), &error);
        let (said, says) = std::io::pipe().map_err(fail)?;
        let mut command = Command::new(find(self.command).unwrap_or_else(|| self.command.into()));
        command
            .args(self.arguments(raw, request))
            .stdin(Stdio::null())
            .stdout(says.try_clone().map_err(fail)?)
            .stderr(says);
        scrim_sys::process::end_with_this_thread(&mut command);
        let child = command.spawn().map_err(fail)?;
        // It has the writing ends of the pipe.
        drop(command);
        let mut running = Running {
            program: self,
            child,
            said: Said::listen(said),
        };
        let mount = running.wait_until_mounted(&request.directory)?;
        Ok((running, mount))
    }
}

/// Returns whether a file system's type is one that such programs have: `fuse.NAME`, or `fuseblk` for ntfs-3g as root.
fn is_fuse(kind: &str) -> bool {
    kind.starts_with("fuse") && kind != scrim_export::fuse::KIND
}

/// The path of a command in `PATH`, or where Debian keeps those of root.
pub(super) fn find(command: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path)
        .chain(usual)
        .map(|folder| folder.join(command))
        .find(|path| path.is_file())
}

/// A program that has mounted a file system.
pub(super) struct Running {
    program: &'static Program,
    child: Child,
    said: Said,
}

impl Running {
    fn wait_until_mounted(&mut self, directory: &Path) -> Result<OtherMount, CliError> {
        loop {
            if let Some(mount) = OtherMount::find(directory, is_fuse) {
                return Ok(mount);
            }
            if self.has_ended() {
                return Err(self.failure(directory));
            }
            if asked_to_end() {
                self.end();
                return Err(CliError::new(
                    Exit::Usage,
                    "interrupted; nothing is mounted",
                ));
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn pid(&self) -> Option<Pid> {
        Pid::from_raw(i32::try_from(self.child.id()).ok()?)
    }

    pub(super) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits for the program to end, which it does once its file system is unmounted and written.
    pub(super) fn wait(&mut self) {
        let _ = self.child.wait();
    }

    /// Asks the program to end, which has it write what it holds, and kills it if that takes too long.
    pub(super) fn end(&mut self) {
        if let Some(pid) = self.pid().filter(|_| !self.has_ended()) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let deadline = Instant::now() + ENDING;
        while !self.has_ended() {
            if Instant::now() > deadline {
                let _ = self.child.kill();
                self.wait();
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn failure(&self, directory: &Path) -> CliError {
        let said = self.said.last();
        let said = match said.trim() {
            "" => "it said nothing".to_owned(),
            said => scrim_foreign::Foreign::new(said).to_string(),
        };
        CliError::new(
            Exit::WrongDevice,
            format!(
                "{} did not mount {}: {said}",
                self.program.command,
                directory.display()
            ),
        )
    }
}

/// The latest of what a program says, which a thread reads so that the program is never held up.
struct Said {
    latest: Arc<Mutex<Vec<u8>>>,
    /// `None` if the system gave no thread; then nothing is kept.
    reader: Option<JoinHandle<()>>,
}

impl Said {
    fn listen(pipe: std::io::PipeReader) -> Self {
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

    /// The last line that is not empty. The program has ended.
    fn last(&self) -> String {
        // A process that the program has left behind may keep the pipe open.
        let deadline = Instant::now() + LAST_WORDS;
        while !self.reader.as_ref().is_none_or(JoinHandle::is_finished) && Instant::now() < deadline
        {
            std::thread::sleep(PAUSE);
        }
        let kept = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&kept);
        let last = text.lines().rev().find(|line| !line.trim().is_empty());
        last.unwrap_or_default().to_owned()
    }
}
