//! Mounts that are taken away when they are dropped.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::error::{Doing, Error};
use crate::rivals::room::Room;
use crate::rivals::server::Process;

/// Something mounted on a file or a directory, and the processes that serve it.
pub(super) struct Mounted {
    place: PathBuf,
    /// From the storage upwards.
    processes: Vec<Process>,
}

impl Mounted {
    /// Begins a mount on `place` that `processes` serve, of which there may be none yet.
    pub(super) fn new(place: PathBuf, processes: Vec<Process>) -> Self {
        Self { place, processes }
    }

    /// Starts `command`, which mounts on the place and stays in the foreground.
    pub(super) fn start(
        &mut self,
        room: &Room,
        name: &str,
        command: &mut Command,
    ) -> Result<(), Error> {
        let ready = || is_mounted(&self.place);
        let process = Process::start(room, name, command, ready)?;
        self.processes.push(process);
        Ok(())
    }

    /// Runs `command`, which has one of the processes mount on the place, to its end.
    pub(super) fn ask(&self, name: &str, command: &mut Command) -> Result<(), Error> {
        run(name, command)?;
        if is_mounted(&self.place) {
            return Ok(());
        }
        Err(Error::program(name, "has mounted nothing"))
    }

    /// Processor time of all processes so far.
    pub(super) fn cpu_time(&self) -> Result<Duration, Error> {
        self.processes.iter().map(Process::cpu_time).sum()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // The programs unmount by themselves when they are asked to end.
        while self.processes.pop().is_some() {}
        if is_mounted(&self.place) {
            let _ = Command::new("fusermount3")
                .args(["-u", "-z", "-q"])
                .arg(&self.place)
                .stdin(Stdio::null())
                .status();
        }
    }
}

/// Runs `command` to its end.
pub(super) fn run(name: &str, command: &mut Command) -> Result<(), Error> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .doing(|| format!("run {name}"))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let said = text.lines().last().unwrap_or("it said nothing");
    Err(Error::program(name, said))
}

/// Returns whether something is mounted on `place`, also if the process that served it has died.
fn is_mounted(place: &Path) -> bool {
    let device = |path: &Path| fs::metadata(path).map(|found| found.dev());
    match (device(place), place.parent().map(device)) {
        (Ok(here), Some(Ok(above))) => here != above,
        (Err(error), _) => error.kind() != std::io::ErrorKind::NotFound,
        (Ok(_), _) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_known_by_its_device() {
        assert!(is_mounted(Path::new("/proc")));
        let place = tempfile::tempdir().unwrap();
        assert!(!is_mounted(place.path()));
        assert!(!is_mounted(&place.path().join("absent")));
    }

    #[test]
    fn an_error_has_the_last_line_of_what_was_said() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo first >&2; echo last >&2; exit 3"]);
        let error = run("sh", &mut command).unwrap_err();
        assert_eq!(error.to_string(), "sh: last");
        assert!(run("true", &mut Command::new("true")).is_ok());
    }
}
