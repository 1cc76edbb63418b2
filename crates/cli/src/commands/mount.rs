//! `scrim mount IMAGE DIR`: unlocks a volume and mounts its file system.

use std::path::Path;

use scrim_foreign::Foreign;

use crate::args::{MountArgs, VolumeName};
use crate::error::{CliError, Exit};
use crate::files::running;
use crate::kernel::KernelVolume;
use crate::mount::MountRequest;
use crate::nbd::control::{Client, find};
use crate::nbd::runtime::RuntimeDir;
use crate::nbd::service::Service;
use crate::nbd::serving::Serving;
use crate::process::daemon;
use crate::running_volume::RunningVolume;
use crate::storage::{is_remote, name_on_server};
use crate::terminal::print;
use crate::volume::opening::{Wanted, check_engine, from_luks};

/// Longest name that is made of an image's, so that a number fits behind it.
const MADE_NAME_MAX: usize = 60;

pub(crate) fn run(args: &MountArgs) -> Result<(), CliError> {
    let request = MountRequest::by(args)?;
    let runtime = RuntimeDir::locate();
    runtime.ensure()?;
    match running::named(&args.image) {
        Some(name) => match RunningVolume::named(&name).map_err(running::or_file)? {
            RunningVolume::Scrim(client) => mount_open(client, &request),
            RunningVolume::Kernel(volume) => mount_in_kernel(args, &request, &volume),
        },
        None => mount_image(args, &request, &runtime),
    }
}

/// Has the process that serves a volume mount it.
fn mount_open(client: Client, request: &MountRequest) -> Result<(), CliError> {
    let status = client.mount(request)?;
    print(format!("{status}\n").as_bytes())
}

/// Mounts the block device of a volume that the kernel runs.
fn mount_in_kernel(
    args: &MountArgs,
    request: &MountRequest,
    volume: &KernelVolume,
) -> Result<(), CliError> {
    if request.raw {
        return Err(CliError::usage(format!(
            "{}: its plaintext is the block device {} already",
            args.image.display(),
            volume.node().display()
        )));
    }
    let directory = &request.directory;
    let file_system = volume.mount(directory, request.method, request.read_only)?;
    let shown = Foreign::new(directory.as_os_str().as_encoded_bytes());
    print(format!("{shown}: {file_system} by kernel (the kernel runs the volume)\n").as_bytes())
}

fn mount_image(
    args: &MountArgs,
    request: &MountRequest,
    runtime: &RuntimeDir,
) -> Result<(), CliError> {
    let unlock = &args.unlock;
    let wanted = Wanted::by(&args.image, unlock)?;
    check_engine(unlock.storage.io_engine)?;
    let name = volume_name(args, runtime)?;
    let (daemon, hangup, manager) = daemon::begin(args.foreground)?;
    let serving = Serving::privately(runtime.nbd_socket(&name));
    let opened = from_luks(&wanted)?;
    let control = runtime.control_socket(&name);
    let io_engine = unlock.storage.io_engine;
    let service = Service::open(name, opened, io_engine, control, serving, hangup)?;
    let (service, status) = service.mount(request)?;
    print(format!("{status}\n").as_bytes())?;
    if let Some(daemon) = daemon {
        daemon.detach()?;
    }
    service.run(&manager)
}

/// The name that was asked for, or one made of the image's name that no open volume has.
fn volume_name(args: &MountArgs, runtime: &RuntimeDir) -> Result<VolumeName, CliError> {
    if let Some(name) = &args.name {
        return match find(runtime, name)? {
            None => Ok(name.clone()),
            Some(_) => Err(CliError::new(
                Exit::Busy,
                format!(
                    "a volume named {0} is open already; choose another name, or mount that volume \
                     (scrim mount {0} DIR)",
                    name.as_str()
                ),
            )),
        };
    }
    let base = name_of(&args.image);
    for number in 1..=u16::MAX {
        let word = match number {
            1 => base.clone(),
            _ => format!("{base}-{number}"),
        };
        let name: VolumeName = word.parse().map_err(CliError::usage)?;
        if find(runtime, &name)?.is_none() {
            return Ok(name);
        }
    }
    Err(CliError::usage("no name is free; choose one with --name"))
}

/// A name for a volume: the file name of its image without the extension, in characters that names have.
fn name_of(image: &Path) -> String {
    let stem = match is_remote(image) {
        true => name_on_server(image),
        false => image
            .file_stem()
            .and_then(|stem| stem.to_str())
            .map(str::to_owned),
    };
    let name: String = stem
        .unwrap_or_default()
        .chars()
        // `#` would stand for a part of an image.
        .filter(|&character| character != '#' && VolumeName::allows(character))
        .take(MADE_NAME_MAX)
        .collect();
    match name.trim_start_matches('.') {
        "" => "volume".to_owned(),
        name => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_of_images() {
        let cases = [
            ("disk.img", "disk"),
            ("/a/b/My Photos (1).luks", "MyPhotos1"),
            ("../.hidden", "hidden"),
            ("/dev/sda1", "sda1"),
            ("nbd://host/export", "volume"),
            ("rbd:pool/my.disk@snap?conf=/etc/c.conf", "my.disk"),
            ("/", "volume"),
            ("ä.img", "volume"),
        ];
        for (image, name) in cases {
            let made = name_of(Path::new(image));
            assert_eq!(made, name);
            assert!(made.parse::<VolumeName>().is_ok());
        }
    }
}
