//! `scrim umount DIR`: unmounts a volume.

use std::path::Path;

use crate::args::{UmountArgs, VolumeName};
use crate::error::{CliError, Exit};
use crate::mount::UmountRequest;
use crate::nbd::control::{Client, Status, find};
use crate::nbd::runtime::RuntimeDir;

pub(crate) fn run(args: &UmountArgs) -> Result<(), CliError> {
    let runtime = RuntimeDir::locate();
    runtime.check_if_there()?;
    let (client, request) = match named(&runtime, &args.what)? {
        Some(client) => {
            let request = UmountRequest {
                directory: None,
                force: args.force,
            };
            (client, request)
        }
        None => on_directory(&runtime, args)?,
    };
    client.unmount(&request)
}

/// The open volume that a word without a slash names.
fn named(runtime: &RuntimeDir, what: &Path) -> Result<Option<Client>, CliError> {
    match what
        .to_str()
        .and_then(|word| word.parse::<VolumeName>().ok())
    {
        Some(name) => find(runtime, &name),
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
    for name in runtime.names() {
        let Ok(Some(status)) =
            find(runtime, &name).and_then(|client| client.map(Client::status).transpose())
        else {
            continue;
        };
        if let Some(directory) = mounted_on(&status, &[&canonical, &absolute]) {
            let request = UmountRequest {
                directory: Some(directory),
                force: args.force,
            };
            return Ok((Client::connect(runtime, &name)?, request));
        }
    }
    Err(CliError::new(
        Exit::WrongDevice,
        format!(
            "{}: no open volume is mounted there, or has this name; `scrim list` shows those that are",
            args.what.display()
        ),
    ))
}

fn mounted_on(status: &Status, paths: &[&Path]) -> Option<std::path::PathBuf> {
    let directories = status.mounts.iter().map(|mount| &mount.directory);
    directories
        .into_iter()
        .find(|directory| paths.contains(&directory.as_path()))
        .cloned()
}
