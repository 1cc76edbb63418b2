//! Check of an ext file system that was not unmounted.
//!
//! fuse2fs writes no journal, so that a crash leaves what only e2fsck can put in order. And fuse2fs 1.47.0, as in Debian
//! 12, crashes after it has replayed the kernel's journal. So e2fsck looks at the file system first, as at boot.

use std::path::Path;
use std::process::Command;

use scrim_sys::program::find;
use scrim_volume::Volume;

use super::attempt::Attempt;
use crate::error::{CliError, Exit};
use crate::process::program::Output;
use crate::terminal::note;

const E2FSCK: &str = "e2fsck";

/// Offset of the superblock, in bytes from the start of the file system.
const SUPERBLOCK: u64 = 1024;

/// Place of `s_state` in the superblock: bit 0 is set by unmounting, bit 1 by errors.
const STATE: usize = 0x3a;
const UNMOUNTED: u8 = 1;
const HAS_ERRORS: u8 = 2;

/// Place of `s_feature_incompat` in the superblock, and the bit of a journal that has to be replayed.
const FEATURE_INCOMPAT: usize = 0x60;
const RECOVER: u8 = 4;

/// Exit codes of e2fsck up to this one leave a consistent file system: nothing to do, or done.
const DONE_MAX: i32 = 1;

/// Returns whether the ext file system in the volume was not unmounted, or has errors.
pub(super) fn is_needed(volume: &Volume) -> bool {
    let mut superblock = [0; 128];
    if volume.read(SUPERBLOCK, &mut superblock).is_err() {
        // The program that mounts it reports that.
        return false;
    }
    let state = superblock[STATE];
    state & UNMOUNTED == 0 || state & HAS_ERRORS != 0 || superblock[FEATURE_INCOMPAT] & RECOVER != 0
}

/// Replays the journal of the file system in `file`, and repairs what needs no decision.
pub(super) fn repair(file: &Path, directory: &Path, attempt: &mut Attempt) -> Result<(), CliError> {
    let Some(program) = find(E2FSCK) else {
        return Err(CliError::new(
            Exit::WrongDevice,
            "the file system was not unmounted, and e2fsck, which would check it, is not installed; install the \
             package e2fsprogs",
        ));
    };
    note(format_args!(
        "scrim: the file system was not unmounted: e2fsck checks it"
    ));
    let mut command = Command::new(program);
    command.arg("-p").arg(file);
    let (status, said) = attempt.run(E2FSCK, command, Output::Standard, directory)?;
    match status.code() {
        Some(0..=DONE_MAX) => Ok(()),
        _ => Err(CliError::new(
            Exit::WrongDevice,
            format!(
                "the file system has errors that e2fsck does not repair by itself: {}; show it with `scrim mount --raw`, \
                 and run e2fsck on the file",
                said.last()
            ),
        )),
    }
}
