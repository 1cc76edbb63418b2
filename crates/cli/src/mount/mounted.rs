//! A mount of an open volume, from the plaintext as one file up to the user's directory.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::getuid;
use scrim_export::fuse::{
    Access, FileTree, KIND as PLAINTEXT, MountOptions, Mounted, OtherMount, PageCache, PunchHole,
    RawFile, STALL, UnmountError, VolumeFiles,
};
use scrim_foreign::Foreign;
use scrim_sys::program::find;
use scrim_volume::Volume;

use super::attempt::{Attempt, read_in_time};
use super::freeze::{Frozen, write_back};
use super::method::{Choice, Driver, Machine, Method, choose};
use super::program::{Program, Running, is_fuse};
use super::request::{MountRequest, MountStatus, Served};
use super::{check, holders};
use crate::args::VolumeName;
use crate::error::{CliError, Exit};
use crate::process::program::Output;
use crate::signature::Contents;
use crate::terminal::note;

/// Pause between two attempts to unmount.
const PAUSE: Duration = Duration::from_millis(200);

/// Longest wait for the storage's next answer where data is given up after it.
const GIVING_UP: Duration = Duration::from_secs(10);

/// Time without an answer of the storage for the kernel, or a program, to close the plaintext once it is unmounted.
const DETACHING: Duration = Duration::from_secs(10);

/// A mount of a volume, with the processes and threads that serve it.
pub(crate) struct MountedVolume {
    status: MountStatus,
    /// True if the files of the volume's file system are shown, not its plaintext as one file.
    shows_files: bool,
    /// Mount of the volume's file system by the kernel or a program; `None` if Scrim shows everything itself.
    files: Option<Files>,
    /// Scrim's own mount: on the user's directory, or below `files` the plaintext as one file on a directory of its own.
    own: Mounted,
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

    /// The mount with its traffic and the failures of its storage.
    pub(crate) fn status_now(&self) -> MountStatus {
        let traffic = self.own.traffic();
        let failures = self.own.failures();
        MountStatus {
            served: Served::of(&traffic),
            failed: traffic.failed,
            errors: failures.into_iter().map(|failure| failure.reason).collect(),
            ..self.status.clone()
        }
    }

    /// Returns whether the files of the volume's file system are mounted, not its plaintext as one file.
    pub(crate) fn shows_files(&self) -> bool {
        self.shows_files
    }

    /// Writes what the mount has in memory to the volume, and freezes its file system. `None` for one that cannot be frozen,
    /// because no part of it is in the kernel, or that only reads.
    pub(crate) fn freeze(&self) -> Result<Option<Frozen>, CliError> {
        let directory = &self.status.directory;
        if self.status.read_only {
            return Ok(None);
        }
        match &self.files {
            Some(Files { program: None, .. }) => Frozen::freeze(directory).map(Some),
            _ => write_back(directory).map(|()| None),
        }
    }

    /// Returns whether the mount has ended: unmounted by somebody else, with everything written, or its program has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        if self.own.ended() {
            return true;
        }
        match &mut self.files {
            None => false,
            Some(files) => match &mut files.program {
                // Once its mount is gone, it still writes what it has.
                Some(program) => program.has_ended(),
                // The kernel has the plaintext open until everything is written, and until nobody uses a detached mount.
                None => files.mount.is_gone() && self.own.unmount().is_ok(),
            },
        }
    }

    /// Unmounts it, with everything that the file system had in memory written to the volume. Files that are in use and a
    /// storage that does not answer are errors, and the mount is served as before.
    ///
    /// With `force` it always ends: programs that still use files get errors, and data that the storage does not take is
    /// lost.
    pub(crate) fn unmount(&mut self, force: bool) -> Result<(), CliError> {
        let limit = if force { GIVING_UP } else { STALL };
        let mut stall_limit = self.own.stall_limit(limit);
        let unmounted = match &mut self.files {
            None => self.own.unmount_within(&mut stall_limit),
            Some(files) => files.mount.unmount(&mut stall_limit),
        };
        match unmounted {
            Ok(()) => self.settle(force),
            Err(UnmountError::Busy { .. }) if !force => Err(self.is_busy()),
            Err(error) if force => {
                if let UnmountError::Busy { .. } = error {
                    note(format_args!(
                        "scrim: warning: {}: detached from {}",
                        self.status.directory.display(),
                        self.holders()
                    ));
                }
                self.detach();
                Ok(())
            }
            // Somebody else was quicker.
            Err(_) if self.has_ended() => Ok(()),
            Err(error) => Err(CliError::new(Exit::WrongDevice, error.to_string())),
        }
    }

    /// Waits until nothing has the plaintext open any more.
    fn settle(&mut self, force: bool) -> Result<(), CliError> {
        let Some(files) = &mut self.files else {
            return Ok(());
        };
        let mut stall_limit = self.own.stall_limit(DETACHING);
        let is_settled = match &mut files.program {
            Some(program) => program.wait(|| stall_limit.is_over()),
            None => loop {
                if self.own.unmount().is_ok() {
                    break true;
                }
                if stall_limit.is_over() {
                    break false;
                }
                std::thread::sleep(PAUSE);
            },
        };
        match (&mut files.program, is_settled) {
            (_, true) => Ok(()),
            (Some(program), false) if force => {
                program.end(|| true);
                Ok(())
            }
            (None, false) if force => Ok(()),
            (_, false) => Err(self.is_held()),
        }
    }

    /// Takes the mount away from its directory while it is in use, or while the storage does not answer. What the file
    /// system has in memory is written first, as far as the storage takes it.
    fn detach(&mut self) {
        let Some(files) = &mut self.files else {
            return;
        };
        let mut stall_limit = self.own.stall_limit(GIVING_UP);
        match &files.program {
            None => files.mount.write_back(&mut stall_limit),
            // The kernel holds back what was written through mappings only, until they end.
            Some(_) => {
                let mapped = holders::mapped(&self.status.directory);
                files.mount.write_back_files(mapped, &mut stall_limit)
            }
        };
        files.mount.detach();
        if let Some(program) = &mut files.program {
            let mut stall_limit = self.own.stall_limit(GIVING_UP);
            program.end(|| stall_limit.is_over());
        }
    }

    /// Takes down what is left of a mount that has ended. Programs that still use the plaintext get errors from here on.
    ///
    /// # Errors
    /// When the storage failed writes.
    pub(crate) fn take_down(mut self) -> Result<(), CliError> {
        let directory = self.status.directory.clone();
        // A mount whose program has died is taken away.
        drop(self.files.take());
        // It is unmounted already, or stopped below.
        let mut stall_limit = self.own.stall_limit(GIVING_UP);
        let _ = self.own.unmount_within(&mut stall_limit);
        let (writes, failures) = (self.own.failed_writes(), self.own.failures());
        if self.own.stop() > 0 {
            note(format_args!(
                "scrim: warning: {}: requests still wait for the storage",
                directory.display()
            ));
        }
        if let Some(below) = self.below.take() {
            let _ = std::fs::remove_dir(below);
        }
        if writes == 0 {
            return Ok(());
        }
        let reason = failures.last().map(|failure| failure.reason.as_str());
        Err(CliError::new(
            Exit::WrongDevice,
            format!(
                "{}: unmounted, but the storage failed {writes} writes, so data that no fsync acknowledged is lost; the \
                 last failure: {}; mount it again and check the files",
                directory.display(),
                reason.unwrap_or("unknown")
            ),
        ))
    }

    fn holders(&self) -> String {
        match holders::named(&self.status.directory) {
            holders if holders.is_empty() => "processes of other users".to_owned(),
            holders => holders,
        }
    }

    /// The error of a mount that is gone from its directory, while something still has its file system.
    fn is_held(&self) -> CliError {
        let device = self.files.as_ref().map(|files| files.mount.device());
        let names = device.map(holders::in_other_namespaces).unwrap_or_default();
        let by = match names.is_empty() {
            true => {
                "in use, by programs that had files open when it was detached or for data that the storage does not take"
                    .to_owned()
            }
            false => format!("mounted in another mount namespace, by {names}"),
        };
        let directory = self.status.directory.display();
        CliError::new(
            Exit::Busy,
            format!(
                "{directory} is unmounted there, but the file system is still {by}; end the programs, or use --force, which gives \
                 up what is not written"
            ),
        )
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

fn show_plaintext(source: &Source, request: &MountRequest) -> Result<MountedVolume, CliError> {
    let options = options(
        source,
        request.read_only,
        request.allow_other,
        page_cache(request),
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
        status: MountStatus {
            page_cache: request.page_cache,
            ..status(request, "raw", "scrim", reason)
        },
        shows_files: false,
        files: None,
        own: serve_plaintext(source, &request.directory, &options, holes)?,
        below: None,
    })
}

/// Shows the files of an ext file system by Scrim's own reader.
fn show_files_by_scrim(
    source: &Source,
    request: &MountRequest,
    choice: &Choice,
) -> Result<MountedVolume, CliError> {
    // A user whom only modes of others keep from files of its own image could not use it. With other users they decide.
    let access = match request.allow_other {
        true => Access::ByModes,
        false => Access::All,
    };
    let tree = VolumeFiles::open(Arc::clone(source.volume), access).map_err(cannot_read)?;
    let family = tree.family();
    let options = options(source, true, request.allow_other, page_cache(request));
    let kept = match request.page_cache {
        true => "plaintext is also in the page cache",
        false => "plaintext of files stays out of the page cache",
    };
    let reason = format!("{}; {kept}", choice.reason);
    Ok(MountedVolume {
        status: MountStatus {
            page_cache: request.page_cache,
            ..status(request, family, "scrim", &reason)
        },
        shows_files: true,
        files: None,
        own: serve(Arc::new(tree), &request.directory, &options)?,
        below: None,
    })
}

fn cannot_read(error: scrim_files::Error) -> CliError {
    CliError::new(
        Exit::WrongDevice,
        match error {
            scrim_files::Error::NotUnmounted => {
                "the file system was not unmounted, and Scrim's reader replays no journal: mount it once without \
                 --readonly, which does that, or show it with `scrim mount --raw` and run e2fsck -p on the file"
                    .to_owned()
            }
            error => error.to_string(),
        },
    )
}

fn show_files(source: &Source, request: &MountRequest) -> Result<MountedVolume, CliError> {
    // Since the command looked, while it asked for a passphrase, another mount may have come.
    OtherMount::check(&request.directory)?;
    let machine = Machine {
        is_root: getuid().is_root(),
        has: &|command| find(command).is_some(),
    };
    let choice = choose(source.contents, request, &machine)?;
    match choice.method {
        Method::Scrim => show_files_by_scrim(source, request, &choice),
        Method::Driver(driver) => show_files_by_driver(source, request, &choice, driver),
    }
}

/// Shows the files of a file system by a driver, on the plaintext as one file.
fn show_files_by_driver(
    source: &Source,
    request: &MountRequest,
    choice: &Choice,
    driver: Driver,
) -> Result<MountedVolume, CliError> {
    let allow_other = match driver {
        Driver::Program(program) => program.needs_allow_other && !getuid().is_root(),
        Driver::Kernel(_) => false,
    };
    let cache = match driver {
        // A program asks for one block at a time. The plaintext of its files is in the page cache anyway, by its own mount.
        // At an fsync of a file these programs call fsync for the plaintext, so that writes may be held back until then.
        Driver::Program(_) => PageCache::WriteBack,
        Driver::Kernel(_) => PageCache::Bypass,
    };
    let options = options(source, request.read_only, allow_other, cache);
    let below = make_private(&source.private)?;
    // File system drivers take it that a hole reads as zeros, so holes are refused.
    let plaintext = serve_plaintext(source, &below, &options, PunchHole::Refuse);
    let plaintext = plaintext.map_err(|error| {
        // Nothing is mounted there.
        let _ = std::fs::remove_dir(&below);
        match driver {
            Driver::Program(program) if allow_other => {
                error.followed_by(&program.why_allow_other())
            }
            _ => error,
        }
    })?;
    let file = below.join(source.name.as_str());
    let mut attempt = Attempt::on(&plaintext);
    let (by, shown) = match driver {
        Driver::Kernel(r#type) => (
            "kernel",
            mount_by_kernel(&file, r#type, request, &mut attempt),
        ),
        Driver::Program(program) => (
            program.command,
            run(program, source, &file, request, &mut attempt),
        ),
    };
    let mut mounted = MountedVolume {
        status: status(request, choice.file_system, by, &choice.reason),
        shows_files: true,
        files: None,
        own: plaintext,
        below: Some(below),
    };
    match shown {
        Ok(files) => {
            mounted.files = Some(files);
            Ok(mounted)
        }
        Err(error) => {
            // The error that it was not mounted for says more.
            let _ = mounted.take_down();
            attempt.clean_up(&request.directory, |kind| match driver {
                Driver::Kernel(r#type) => kind == r#type,
                Driver::Program(_) => is_fuse(kind),
            });
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
        page_cache: false,
        served: Served::default(),
        failed: 0,
        errors: Vec::new(),
    }
}

/// Use of the page cache by a mount of Scrim's own.
fn page_cache(request: &MountRequest) -> PageCache {
    match request.page_cache {
        true => PageCache::WriteBack,
        false => PageCache::Bypass,
    }
}

fn options(source: &Source, read_only: bool, allow_other: bool, cache: PageCache) -> MountOptions {
    MountOptions {
        read_only,
        allow_other,
        cache,
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
    serve(Arc::new(file), directory, options)
}

fn serve(
    tree: Arc<dyn FileTree>,
    directory: &Path,
    options: &MountOptions,
) -> Result<Mounted, CliError> {
    let mounted = Mounted::start(tree, directory, options)?;
    if !mounted.is_guarded() {
        note(format_args!(
            "scrim: warning: no process watches {}: if this one is killed, unmount it with fusermount3 -u",
            directory.display()
        ));
    }
    Ok(mounted)
}

/// Makes the directory of the plaintext below a file system, and takes away what a process that was killed has left.
/// Returns its path without links.
fn make_private(directory: &Path) -> Result<PathBuf, CliError> {
    let fail = |error: std::io::Error| {
        CliError::io(format_args!("create {}", directory.display()), &error)
    };
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700);
    let (Some(above), Some(name)) = (directory.parent(), directory.file_name()) else {
        return Err(fail(std::io::ErrorKind::InvalidInput.into()));
    };
    builder.create(above).map_err(fail)?;
    // A mount that has died cannot be looked at, but the folder above it can.
    let directory = above.canonicalize().map_err(fail)?.join(name);
    if let Some(mut left) = OtherMount::find(&directory, |kind| kind == PLAINTEXT) {
        left.detach();
    }
    builder.create(&directory).map_err(fail)?;
    Ok(directory)
}

fn run(
    program: &'static Program,
    source: &Source,
    file: &Path,
    request: &MountRequest,
    attempt: &mut Attempt,
) -> Result<Files, CliError> {
    let directory = &request.directory;
    if program.wants_check
        && !request.read_only
        && read_in_time(source.volume, directory, check::is_needed)?
    {
        check::repair(file, directory, attempt)?;
    }
    let (program, mount) = program.start(file, request, attempt)?;
    Ok(Files {
        mount,
        program: Some(program),
    })
}

/// Mounts with `mount(8)`, which makes a loop device that goes when the file system is unmounted.
fn mount_by_kernel(
    file: &Path,
    r#type: &str,
    request: &MountRequest,
    attempt: &mut Attempt,
) -> Result<Files, CliError> {
    const MOUNT: &str = "mount";
    let mode = if request.read_only { "ro" } else { "rw" };
    let mut command = Command::new(MOUNT);
    command
        .args(["-t", r#type, "-o", &format!("loop,nosuid,nodev,{mode}")])
        .arg(file)
        .arg(&request.directory);
    let (status, said) = attempt.run(MOUNT, command, Output::Errors, &request.directory)?;
    let refused = |reason: String| {
        CliError::new(
            Exit::WrongDevice,
            format!(
                "the kernel did not mount the {type} on {}: {reason}; --method program may do it",
                request.directory.display()
            ),
        )
    };
    if !status.success() {
        let words: Vec<_> = said.text().split_whitespace().map(str::to_owned).collect();
        return Err(refused(Foreign::new(words.join(" ")).to_string()));
    }
    let mount = OtherMount::find(&request.directory, |kind| kind == r#type);
    Ok(Files {
        mount: mount.ok_or_else(|| refused("it has gone again".to_owned()))?,
        program: None,
    })
}
