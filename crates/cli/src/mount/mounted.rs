//! A mount of an open volume, from the plaintext as one file up to the user's directory.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::getuid;
use scrim_export::fuse::{MountOptions, Mounted, OtherMount, PunchHole, RawFile, UnmountError};
use scrim_foreign::Foreign;
use scrim_volume::Volume;

use super::method::{Choice, Machine, Method, choose};
use super::program::{Program, Running, find};
use super::request::{MountRequest, MountStatus};
use super::{check, holders};
use crate::args::VolumeName;
use crate::error::{CliError, Exit};
use crate::signature::Contents;
use crate::terminal::note;

/// Pause between two attempts to unmount.
const PAUSE: Duration = Duration::from_millis(200);

/// Time for the kernel to close a loop device's file once its file system is unmounted.
const DETACHING: Duration = Duration::from_secs(10);

/// A mount of a volume, with the processes and threads that serve it.
pub(crate) struct MountedVolume {
    status: MountStatus,
    /// Mount of the volume's file system; `None` if the plaintext is shown as one file.
    files: Option<Files>,
    /// The plaintext as one file: on the user's directory, or on one of its own below a file system.
    plaintext: Mounted,
    /// Directory of the plaintext, if it is one of its own.
    below: Option<PathBuf>,
}

/// The mount of a file system.
struct Files {
    mount: OtherMount,
    /// The program that serves it; `None` for the kernel.
    program: Option<Running>,
}

/// The volume that is mounted, and the place for its plaintext.
pub(crate) struct Source<'a> {
    pub(crate) name: &'a VolumeName,
    pub(crate) volume: &'a Arc<Volume>,
    pub(crate) contents: Contents,
    /// Directory of this user alone, for the plaintext below a file system.
    pub(crate) private: PathBuf,
}

/// State of a mount's directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Directory {
    /// Nothing is mounted there any more.
    Free,
    /// The mount is detached from it, and programs still use its files.
    Detached,
}

impl MountedVolume {
    pub(crate) fn start(source: &Source, request: &MountRequest) -> Result<Self, CliError> {
        let request = MountRequest {
            read_only: request.read_only || source.volume.is_read_only(),
            ..request.clone()
        };
        match request.raw {
            true => show_plaintext(source, &request),
            false => show_files(source, &request),
        }
    }

    /// The mount, as commands show it.
    pub(crate) fn status(&self) -> &MountStatus {
        &self.status
    }

    /// Returns whether the files of the volume's file system are mounted, not its plaintext as one file.
    pub(crate) fn shows_files(&self) -> bool {
        self.files.is_some()
    }

    /// Returns whether the mount has ended: unmounted by somebody else, or its program has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        let files = self.files.as_mut();
        self.plaintext.ended() || files.is_some_and(Files::have_ended)
    }

    /// Takes the mount away from its directory. Files that are in use are an error, unless `force` detaches them.
    pub(crate) fn free_directory(&mut self, force: bool) -> Result<Directory, CliError> {
        let unmounted = match &mut self.files {
            None => self.plaintext.unmount(),
            Some(files) => files.mount.unmount(),
        };
        match unmounted {
            Ok(()) => Ok(Directory::Free),
            Err(UnmountError::Busy { .. }) if !force => Err(self.is_busy()),
            Err(UnmountError::Busy { .. }) => {
                note(format_args!(
                    "scrim: warning: {}: detached from {}",
                    self.status.directory.display(),
                    self.holders()
                ));
                Ok(Directory::Detached)
            }
            // Somebody else was quicker.
            Err(_) if self.has_ended() => Ok(Directory::Free),
            Err(_) if force => Ok(Directory::Detached),
            Err(error) => Err(CliError::new(Exit::WrongDevice, error.to_string())),
        }
    }

    /// Takes down the rest of a mount, from the top. If its directory is free, everything that the file system had in
    /// memory is written to the volume before this returns; else nothing waits for files that are in use.
    pub(crate) fn take_down(mut self, directory: Directory) {
        if let Some(mut files) = self.files.take() {
            files.take_down(directory);
        }
        let deadline = Instant::now() + DETACHING;
        while self.plaintext.unmount().is_err()
            && directory == Directory::Free
            && Instant::now() < deadline
        {
            std::thread::sleep(PAUSE);
        }
        // From here on, programs that still use the plaintext get errors.
        if self.plaintext.stop() > 0 {
            note(format_args!(
                "scrim: warning: {}: requests still wait for the storage",
                self.status.directory.display()
            ));
        }
        if let Some(below) = self.below.take() {
            let _ = std::fs::remove_dir(below);
        }
    }

    fn holders(&self) -> String {
        match holders::named(&self.status.directory) {
            holders if holders.is_empty() => "processes of other users".to_owned(),
            holders => holders,
        }
    }

    fn is_busy(&self) -> CliError {
        CliError::new(
            Exit::Busy,
            format!(
                "{} is in use by {}; end them or have them leave the directory, or unmount it with --force",
                self.status.directory.display(),
                self.holders()
            ),
        )
    }
}

impl Files {
    fn have_ended(&mut self) -> bool {
        let program = self.program.as_mut();
        self.mount.is_gone() || program.is_some_and(Running::has_ended)
    }

    fn take_down(&mut self, directory: Directory) {
        let has_died = !self.mount.is_gone() && self.have_ended();
        if has_died || directory == Directory::Detached {
            self.mount.detach();
        }
        match (&mut self.program, directory) {
            (Some(program), Directory::Detached) => program.end(),
            (Some(program), Directory::Free) => program.wait(),
            (None, _) => {}
        }
    }
}

fn show_plaintext(source: &Source, request: &MountRequest) -> Result<MountedVolume, CliError> {
    let options = options(
        source,
        request.read_only,
        request.allow_other,
        request.page_cache,
    );
    let holes = match request.discard_holes {
        true => PunchHole::Discard,
        false => PunchHole::Refuse,
    };
    let reason = match request.page_cache {
        true => "plaintext is also in the page cache",
        false => "plaintext stays out of the page cache",
    };
    Ok(MountedVolume {
        status: status(request, "raw", "scrim", reason),
        files: None,
        plaintext: serve_plaintext(source, &request.directory, &options, holes)?,
        below: None,
    })
}

fn show_files(source: &Source, request: &MountRequest) -> Result<MountedVolume, CliError> {
    // Since the command looked, while it asked for a passphrase, another mount may have come.
    OtherMount::check(&request.directory)?;
    let machine = Machine {
        is_root: getuid().is_root(),
        has: &|command| find(command).is_some(),
    };
    let Choice {
        method,
        reason,
        file_system,
    } = choose(source.contents, request, &machine)?;
    let allow_other = match &method {
        Method::Program(program) => program.needs_allow_other && !machine.is_root,
        Method::Kernel(_) => false,
    };
    // A program asks for one block at a time. The plaintext of its files is in the page cache anyway, by its own mount.
    let cached = matches!(method, Method::Program(_));
    let options = options(source, request.read_only, allow_other, cached);
    let below = source.private.clone();
    make_private(&below)?;
    // File system drivers take it that a hole reads as zeros, so holes are refused.
    let plaintext = serve_plaintext(source, &below, &options, PunchHole::Refuse);
    let plaintext = plaintext.map_err(|error| match &method {
        Method::Program(program) if allow_other => error.followed_by(&program.why_allow_other()),
        _ => error,
    })?;
    let file = below.join(source.name.as_str());
    let (by, shown) = match method {
        Method::Kernel(r#type) => ("kernel", mount_by_kernel(&file, r#type, request)),
        Method::Program(program) => (program.command, run(program, source, &file, request)),
    };
    let mut mounted = MountedVolume {
        status: status(request, file_system, by, &reason),
        files: None,
        plaintext,
        below: Some(below),
    };
    match shown {
        Ok(files) => {
            mounted.files = Some(files);
            Ok(mounted)
        }
        Err(error) => {
            mounted.take_down(Directory::Detached);
            Err(error)
        }
    }
}

fn status(request: &MountRequest, file_system: &str, by: &str, reason: &str) -> MountStatus {
    MountStatus {
        directory: request.directory.clone(),
        file_system: file_system.to_owned(),
        by: by.to_owned(),
        reason: reason.to_owned(),
        read_only: request.read_only,
    }
}

fn options(source: &Source, read_only: bool, allow_other: bool, cached: bool) -> MountOptions {
    MountOptions {
        read_only,
        allow_other,
        cached,
        name: source.name.as_str().to_owned(),
    }
}

fn serve_plaintext(
    source: &Source,
    directory: &Path,
    options: &MountOptions,
    holes: PunchHole,
) -> Result<Mounted, CliError> {
    let file = RawFile::new(Arc::clone(source.volume), source.name.as_str())
        .map_err(|error| CliError::usage(error.to_string()))?
        .with_holes(holes);
    let mounted = Mounted::start(Arc::new(file), directory, options)?;
    if !mounted.is_guarded() {
        note(format_args!(
            "scrim: warning: no process watches {}: if this one is killed, unmount it with fusermount3 -u",
            directory.display()
        ));
    }
    Ok(mounted)
}

/// Makes the directory of the plaintext below a file system, and takes away what a process that was killed has left.
fn make_private(directory: &Path) -> Result<(), CliError> {
    if let Some(mut left) = OtherMount::find(directory) {
        left.detach();
    }
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .map_err(|error| CliError::io(format_args!("create {}", directory.display()), &error))
}

fn run(
    program: &'static Program,
    source: &Source,
    file: &Path,
    request: &MountRequest,
) -> Result<Files, CliError> {
    if program.wants_check && !request.read_only && check::is_needed(source.volume) {
        check::repair(file)?;
    }

    let (program, mount) = program.start(file, request)?;
    Ok(Files {
        mount,
        program: Some(program),
    })
}

/// Mounts with `mount(8)`, which makes a loop device that goes when the file system is unmounted.
fn mount_by_kernel(file: &Path, r#type: &str, request: &MountRequest) -> Result<Files, CliError> {
    let mode = if request.read_only { "ro" } else { "rw" };
    let output = Command::new("mount")
        .args(["-t", r#type, "-o", &format!("loop,nosuid,nodev,{mode}")])
        .arg(file)
        .arg(&request.directory)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| CliError::io("start mount", &error))?;
    let refused = |reason: String| {
        CliError::new(
            Exit::WrongDevice,
            format!(
                "the kernel did not mount the {type} on {}: {reason}; --method program may do it",
                request.directory.display()
            ),
        )
    };
    if !output.status.success() {
        return Err(refused(
            Foreign::new(output.stderr.trim_ascii()).to_string(),
        ));
    }
    let mount = OtherMount::find(&request.directory);
    Ok(Files {
        mount: mount.ok_or_else(|| refused("it has gone again".to_owned()))?,
        program: None,
    })
}
