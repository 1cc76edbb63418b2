//! The program that makes the file system: `mke2fs`, of e2fsprogs.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use scrim_sys::program::find;

use super::folder::{BLOCK, Content};
use super::layout::FileSystem;
use crate::error::{CliError, Exit};
use crate::process::child::wait_unless;
use crate::process::interruption::Interruption;
use crate::process::program::{Output, Said, start};

const COMMAND: &str = "mke2fs";

/// Path of the installed `mke2fs`, of the package e2fsprogs.
pub(super) struct Mke2fs(PathBuf);

/// Outcome of a run that nothing has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    Done,
    Interrupted,
}

impl Mke2fs {
    pub(super) fn find() -> Result<Self, CliError> {
        find(COMMAND).map(Self).ok_or_else(|| {
            CliError::new(
                Exit::WrongDevice,
                "mke2fs, which makes the file system, is not installed; install the package e2fsprogs",
            )
        })
    }

    /// Makes `file_system` in `target`, with the files of `folder`. The program gets `input` as its standard input.
    pub(super) fn start(
        &self,
        folder: &Path,
        content: &Content,
        file_system: &FileSystem,
        target: &OsStr,
        input: Option<File>,
    ) -> Result<Running, CliError> {
        let fail = |error: std::io::Error| CliError::io("start mke2fs", &error);
        let (user, group) = content.owner;
        let mut command = Command::new(&self.0);
        command
            .args(["-F", "-q", "-t", "ext4", "-m", "0", "-b"])
            .arg(BLOCK.to_string())
            .arg("-N")
            .arg(file_system.inodes.to_string())
            .arg("-J")
            .arg(format!("size={}", (file_system.journal * BLOCK) >> 20))
            // Blocks that are not written here are noise in the volume, so no table may count as zeroed.
            .arg("-E")
            .arg(format!(
                "nodiscard,lazy_itable_init=1,root_owner={user}:{group}"
            ))
            .arg("-d")
            .arg(folder)
            .arg(target)
            .arg(file_system.blocks.to_string())
            .env("LC_ALL", "C")
            // Zeros are written, since a hole would not become zeros in the volume.
            .env("UNIX_IO_NOZEROOUT", "1")
            .stdin(input.map_or_else(Stdio::null, Stdio::from))
            // Ctrl-C is for this process, which ends the program and cleans up.
            .process_group(0);
        scrim_sys::process::end_with_this_thread(&mut command);
        let (child, said) = start(command, Output::Both).map_err(fail)?;
        Ok(Running { child, said })
    }
}

/// The program at work.
pub(super) struct Running {
    child: Child,
    said: Said,
}

impl Running {
    /// Waits for the end of the program, and calls `show` now and then. An interruption ends it.
    pub(super) fn wait(
        mut self,
        interruption: &Interruption,
        mut show: impl FnMut(),
    ) -> Result<Ended, CliError> {
        let fail = |error: std::io::Error| CliError::io("wait for mke2fs", &error);
        let is_over = || {
            show();
            interruption.came()
        };
        let Some(status) = wait_unless(&mut self.child, is_over).map_err(fail)? else {
            self.end();
            return Ok(Ended::Interrupted);
        };
        if status.success() {
            return Ok(Ended::Done);
        }
        let said = self.said.last();
        let next = match said.contains("allocate") {
            true => "; give more space with --size",
            false => "",
        };
        Err(CliError::new(
            Exit::WrongDevice,
            format!("mke2fs could not make the file system: {said}{next}"),
        ))
    }

    fn end(&mut self) {
        let number = i32::try_from(self.child.id()).ok();
        if let Some(pid) = number.and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let _ = self.child.wait();
    }
}
