//! `scrim umount DIR`: unmounts a volume.

use std::path::Path;
use std::time::Duration;

use crate::args::{UmountArgs, VolumeName};
use crate::error::{CliError, Exit};
use crate::kernel;
use crate::mount::UmountRequest;
use crate::nbd::control::{Client, Status, find};
use crate::nbd::runtime::RuntimeDir;
use crate::running_volume::RunningVolume;

/// Longest wait for the mounts of each open volume. One that mounts or unmounts answers only after that.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

pub(crate) fn run(args: &UmountArgs) -> Result<(), CliError> {
    let runtime = RuntimeDir::locate();
    runtime.check_if_there()?;
    match named(&args.what)? {
        Some(RunningVolume::Scrim(client)) => client.unmount(&UmountRequest {
            directory: None,
            force: args.force,
        }),
        Some(RunningVolume::Kernel(volume)) => volume.unmount_all(args.force),
        None => {
            let (client, request) = match on_directory(&runtime, args) {
                Ok(found) => found,
                Err(error) => return in_kernel(args).unwrap_or(Err(error)),
            };
            client.unmount(&request)
        }
    }
}

/// Unmounts the directory if a volume of the kernel is mounted on it; `None` if not.
fn in_kernel(args: &UmountArgs) -> Option<Result<(), CliError>> {
    let directory = args.what.canonicalize().ok()?;
    match kernel::mounted_on(&directory) {
        Ok(true) => Some(kernel::unmount(&directory, args.force)),
        Ok(false) => None,
        Err(error) => Some(Err(error)),
    }
}

/// The open volume that a word without a slash names.
fn named(what: &Path) -> Result<Option<RunningVolume>, CliError> {
    match what
        .to_str()
        .and_then(|word| word.parse::<VolumeName>().ok())
    {
        Some(name) => RunningVolume::find(&name),
        None => Ok(None),
    }
}

/// The open volume that is mounted on the directory.
fn on_directory(
    runtime: &RuntimeDir,
    args: &UmountArgs,
) -> Result<(Client, UmountRequest), CliError> {
    let absolute = std::path::absolute(&args.what)
        .map_err(|error| CliError::io(format_args!("find {}", args.what.display()), &error))?;
    // A link may lead to the directory. A file system that has died cannot be looked at, but its path can be compared.
    let canonical = absolute.canonicalize().unwrap_or_else(|_| absolute.clone());
    let mut silent = Vec::new();
    for (name, asked) in statuses(runtime) {
        let status = match asked {
            Ok(Some(status)) => status,
            Ok(None) => continue,
            Err(_) => {
                silent.push(name.as_str().to_owned());
                continue;
            }
        };
        if let Some(directory) = mounted_on(&status, &[&canonical, &absolute]) {
            let request = UmountRequest {
                directory: Some(directory),
                force: args.force,
            };
            return Ok((Client::connect(runtime, &name)?, request));
        }
    }
    Err(not_found(&args.what, &silent))
}

/// Answer of a volume to the request for its status; `None` if it is not open any more.
type Asked = Result<Option<Status>, CliError>;

/// Asks all open volumes side by side, so that the wait for those that are silent is that for one.
fn statuses(runtime: &RuntimeDir) -> Vec<(VolumeName, Asked)> {
    let ask = |name: &VolumeName| -> Asked {
        let client = find(runtime, name)?;
        client
            .map(|client| client.status_within(ANSWER_TIMEOUT))
            .transpose()
    };
    let names = runtime.names();
    std::thread::scope(|scope| {
        let start = |name| std::thread::Builder::new().spawn_scoped(scope, move || ask(name));
        let started: Vec<_> = names.iter().map(start).collect();
        let ended = started.into_iter().map(|thread| {
            let thread = thread.map_err(|error| CliError::io("start a thread", &error))?;
            let panicked = |_| CliError::usage("internal error, please report it");
            thread.join().map_err(panicked)?
        });
        let asked: Vec<_> = ended.collect();
        names.iter().cloned().zip(asked).collect()
    })
}

fn not_found(what: &Path, silent: &[String]) -> CliError {
    let what = what.display();
    match silent {
        [] => CliError::new(
            Exit::WrongDevice,
            format!(
                "{what}: no open volume is mounted there, or has this name; `scrim list` shows those that are"
            ),
        ),
        [first, ..] => CliError::new(
            Exit::Busy,
            format!(
                "{what}: no open volume that answers is mounted there; no answer from: {}; they may be writing, so wait, \
                 or name the volume: scrim umount {first}",
                silent.join(", ")
            ),
        ),
    }
}

fn mounted_on(status: &Status, paths: &[&Path]) -> Option<std::path::PathBuf> {
    let directories = status.mounts.iter().map(|mount| &mount.directory);
    directories
        .into_iter()
        .find(|directory| paths.contains(&directory.as_path()))
        .cloned()
}
