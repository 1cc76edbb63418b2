//! Programs that mount a file system in a file, over FUSE: what they are called, and how they are watched.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getgid, getuid, kill_process};
use scrim_export::fuse::OtherMount;
use scrim_foreign::Foreign;
use scrim_sys::program::find;

use super::attempt::{Attempt, interrupted, stalled};
use super::request::MountRequest;
use crate::error::{CliError, Exit};
use crate::process::child::wait_unless;
use crate::process::program::{Output, Said, start};
use crate::process::signals::asked_to_end;

/// Remark of fuse2fs about every file system with a journal.
const NO_JOURNAL: &str = "Writing to the journal is not supported.";

/// Pause between two looks at whether a program has mounted.
const PAUSE: Duration = Duration::from_millis(10);

/// Time for a program to end that is asked to.
const ENDING: Duration = Duration::from_secs(10);

/// Time for a program to end that was killed.
const KILLED: Duration = Duration::from_secs(1);

/// A program that mounts a file system.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) command: &'static str,
    /// Package of Debian that has the command.
    pub(crate) package: &'static str,
    /// Consequence of its absence.
    pub(crate) cost: &'static str,
    /// Arguments that keep it in the foreground.
    foreground: &'static [&'static str],
    /// Mount options that it always gets.
    options: &'static [&'static str],
    /// Mount options that it gets unless other users are let in.
    private_options: &'static [&'static str],
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
    cost: "without root ext2, ext3 and ext4 are mounted read-only, by Scrim itself",
    foreground: &["-f"],
    options: &[],
    // Without it a user could not enter directories of root's in an image that the user made. It would give everyone whom
    // FUSE lets in the rights of root.
    private_options: &["fakeroot"],
    owner: Owner::OfFileSystem,
    needs_allow_other: false,
    wants_check: true,
};

/// Runs with root's rights in Debian (setuid), which FUSE takes for another user, and sets `allow_other` by itself.
pub(super) const NTFS_3G: Program = Program {
    command: "ntfs-3g",
    package: "ntfs-3g",
    cost: "NTFS is mounted as root only",
    foreground: &[],
    options: &["no_detach"],
    private_options: &[],
    owner: Owner::User,
    needs_allow_other: true,
    wants_check: false,
};

/// Sets `allow_other` by itself. Its only way to stay in the foreground also has it report each request, which is
/// not kept.
pub(super) const EXFAT_FUSE: Program = Program {
    command: "mount.exfat-fuse",
    package: "exfat-fuse",
    cost: "exFAT is mounted as root only",
    foreground: &["-d"],
    options: &[],
    private_options: &[],
    owner: Owner::User,
    needs_allow_other: true,
    wants_check: false,
};

pub(super) const SQUASHFUSE: Program = Program {
    command: "squashfuse",
    package: "squashfuse",
    cost: "SquashFS is mounted as root only",
    foreground: &["-f"],
    options: &["ro"],
    private_options: &[],
    owner: Owner::OfFileSystem,
    needs_allow_other: false,
    wants_check: false,
};

/// Programs that `scrim mount` starts.
pub(crate) const PROGRAMS: [&Program; 4] = [&FUSE2FS, &SQUASHFUSE, &NTFS_3G, &EXFAT_FUSE];

impl Program {
    /// The arguments for a file system in `raw`.
    fn arguments(&self, raw: &Path, request: &MountRequest) -> Vec<OsString> {
        let mut options: Vec<String> = self
            .options
            .iter()
            .map(|&option| option.to_owned())
            .collect();
        if !request.allow_other {
            let private = self.private_options.iter();
            options.extend(private.map(|&option| option.to_owned()));
        }
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
    /// It is killed when this process ends in any other way than by [`Running::end`]: the plaintext has gone then, so it
    /// has nothing left to write, and at SIGTERM it would unmount whatever is on its directory by then, such as the user's
    /// next mount. The guard removes its mount. A program that gets root's rights by a set-user-ID bit, as ntfs-3g in
    /// Debian, is not sent that signal (`PR_SET_PDEATHSIG` in prctl(2)): it ends once the guard has unmounted it.
    pub(super) fn start(
        &'static self,
        raw: &Path,
        request: &MountRequest,
        attempt: &mut Attempt,
    ) -> Result<(Running, OtherMount), CliError> {
        let fail =
            |error: std::io::Error| CliError::io(format_args!("start {}", self.command), &error);
        let mut command = Command::new(find(self.command).unwrap_or_else(|| self.command.into()));
        command
            .args(self.arguments(raw, request))
            .stdin(Stdio::null());
        // The end of the terminal, and Ctrl-C in the script that mounted, are nothing to it.
        command.process_group(0);
        scrim_sys::process::end_with_this_thread(&mut command);
        let (child, said) = start(command, Output::Both).map_err(fail)?;
        let mut running = Running {
            program: self,
            child,
            said,
        };
        match running.wait_until_mounted(&request.directory, attempt) {
            Ok(Some(mount)) => Ok((running, mount)),
            Ok(None) => {
                attempt.kill(running.child);
                Err(stalled(self.command, &request.directory))
            }
            Err(error) => Err(error),
        }
    }
}

/// Returns whether a file system's type is one that such programs have: `fuse.NAME`, or `fuseblk` for ntfs-3g as root.
pub(super) fn is_fuse(kind: &str) -> bool {
    kind.starts_with("fuse") && kind != scrim_export::fuse::KIND
}

/// A program that has mounted a file system.
pub(super) struct Running {
    program: &'static Program,
    child: Child,
    said: Said,
}

impl Running {
    /// Waits for the mount; returns `None` if the storage is silent.
    fn wait_until_mounted(
        &mut self,
        directory: &Path,
        attempt: &mut Attempt,
    ) -> Result<Option<OtherMount>, CliError> {
        loop {
            if let Some(mount) = OtherMount::find(directory, is_fuse) {
                return Ok(Some(mount));
            }
            if self.has_ended() {
                return Err(self.failure(directory));
            }
            if asked_to_end() {
                let deadline = Instant::now() + ENDING;
                self.end(|| Instant::now() > deadline);
                return Err(interrupted());
            }
            if attempt.is_over() {
                return Ok(None);
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

    /// Waits for the program to end, which it does once its file system is unmounted and written, until `is_over`. Returns
    /// whether it has ended.
    pub(super) fn wait(&mut self, is_over: impl FnMut() -> bool) -> bool {
        // If it cannot be waited for, it has ended and nobody knows how.
        !matches!(wait_unless(&mut self.child, is_over), Ok(None))
    }

    /// Asks the program to end, which has it write what it holds, and kills it once `is_over`.
    pub(super) fn end(&mut self, is_over: impl FnMut() -> bool) {
        if let Some(pid) = self.pid().filter(|_| !self.has_ended()) {
            let _ = kill_process(pid, Signal::TERM);
        }
        if !self.wait(is_over) {
            let _ = self.child.kill();
            // A process that waits for the plaintext may end only when that is taken away.
            let killed = Instant::now() + KILLED;
            self.wait(|| Instant::now() > killed);
        }
    }

    fn failure(&self, directory: &Path) -> CliError {
        let said = reason(&self.said.text());
        let next = if said.contains("user_allow_other") {
            "; add the line `user_allow_other` to /etc/fuse.conf, as root"
        } else if said.contains("no write access to mountpoint") {
            "; choose a folder of your own"
        } else {
            ""
        };
        CliError::new(
            Exit::WrongDevice,
            format!(
                "{} did not mount {}: {said}{next}",
                self.program.command,
                directory.display()
            ),
        )
    }
}

/// The reason for which a program has not mounted: the words of `fusermount3`, which mounts for it, or else its last line
/// that is not only a remark.
fn reason(said: &str) -> String {
    let is_remark = |line: &&str| line.is_empty() || line.ends_with(NO_JOURNAL);
    let lines = || said.lines().map(str::trim).rev();
    let line = lines()
        .find(|line| line.starts_with("fusermount"))
        .or_else(|| lines().find(|line| !is_remark(line)));
    match line {
        Some(line) => Foreign::new(line).to_string(),
        None => "it said nothing".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::args::MountMethod;

    #[test]
    fn the_reason_for_no_mount_is_not_a_remark() {
        let remark = "/place/d.img: Writing to the journal is not supported.\n";
        let refused = "fusermount3: option allow_other only allowed if 'user_allow_other' is set in /etc/fuse.conf";
        assert_eq!(reason(&format!("{refused}\n{remark}")), refused);
        assert_eq!(reason(&format!("bad magic\n{remark}\n")), "bad magic");
        assert_eq!(reason(remark), "it said nothing");
    }

    /// Everybody would be root in the mount.
    #[test]
    fn other_users_do_not_get_the_rights_of_root() {
        let arguments = |allow_other| {
            let request = MountRequest {
                directory: PathBuf::from("/mnt"),
                raw: false,
                method: MountMethod::Program,
                read_only: false,
                allow_other,
                page_cache: false,
                discard_holes: false,
            };
            let arguments = FUSE2FS.arguments(Path::new("raw"), &request);
            let words: Vec<_> = arguments
                .iter()
                .map(|word| word.to_string_lossy())
                .collect();
            words.join(" ")
        };
        assert_eq!(arguments(false), "-f -o fakeroot raw /mnt");
        assert_eq!(
            arguments(true),
            "-f -o allow_other,default_permissions raw /mnt"
        );
    }
}
