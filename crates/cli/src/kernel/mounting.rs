//! Mounts of the file system in a volume of the kernel, with `mount(8)` and `umount(8)`.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

use scrim_foreign::Foreign;
use scrim_sys::mounts;

use super::mapper::Mapper;
use super::volume::{KernelVolume, number_of};
use crate::args::MountMethod;
use crate::error::{CliError, Exit};

impl KernelVolume {
    /// Mounts the volume's file system on a folder. Returns the type of the file system.
    pub(crate) fn mount(
        &self,
        directory: &Path,
        method: MountMethod,
        read_only: bool,
    ) -> Result<String, CliError> {
        if !matches!(method, MountMethod::Auto | MountMethod::Kernel) {
            return Err(CliError::usage(format!(
                "{}: the kernel runs this volume, and the kernel mounts it; leave --method out",
                self.name.as_str()
            )));
        }
        let mode = if read_only || self.state.read_only {
            "ro"
        } else {
            "rw"
        };
        let node = self.node();
        let options = format!("nosuid,nodev,{mode}");
        run(
            "mount",
            &[
                "-o".as_ref(),
                options.as_ref(),
                node.as_os_str(),
                directory.as_os_str(),
            ],
        )?;
        let mount = mounts::find(directory);
        let mount = mount.map_err(|error| CliError::io("read the table of mounts", &error))?;
        Ok(mount.map_or_else(String::new, |mount| mount.kind))
    }

    /// Unmounts all its file systems, the last first.
    pub(crate) fn unmount_all(&self, force: bool) -> Result<(), CliError> {
        let mounts = self.mounts();
        if mounts.is_empty() {
            return Err(CliError::new(
                Exit::WrongDevice,
                format!("{}: it is not mounted", self.name.as_str()),
            ));
        }
        for directory in mounts.iter().rev() {
            unmount(Path::new(directory), force)?;
        }
        Ok(())
    }
}

/// Returns whether an encrypted volume of the kernel is mounted on a folder.
pub(crate) fn mounted_on(directory: &Path) -> Result<bool, CliError> {
    let mount = mounts::find(directory);
    let mount = mount.map_err(|error| CliError::io("read the table of mounts", &error))?;
    let (Some(mount), Some(mapper)) = (mount, Mapper::open_if_allowed()) else {
        return Ok(false);
    };
    for name in mapper.volumes()? {
        let state = mapper.state(&name)?;
        if state.is_some_and(|state| number_of(state.device) == mount.id.device) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Unmounts a file system; with `force` it goes once nobody uses it any more.
pub(crate) fn unmount(directory: &Path, force: bool) -> Result<(), CliError> {
    match force {
        true => run("umount", &["--lazy".as_ref(), directory.as_os_str()]),
        false => run("umount", &[directory.as_os_str()]),
    }
}

/// Runs a program, and reports what it says when it fails.
fn run(program: &str, arguments: &[&OsStr]) -> Result<(), CliError> {
    let ran = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output();
    let output = ran.map_err(|error| CliError::io(format_args!("start {program}"), &error))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(CliError::new(
        Exit::WrongDevice,
        format!("{program} failed: {}", Foreign::new(said.trim())),
    ))
}
