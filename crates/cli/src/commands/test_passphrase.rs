//! `scrim test-passphrase IMAGE`.

use super::{note, warn_of_failed_self_tests};
use crate::args::{LuksType, TestArgs};
use crate::error::CliError;
use crate::unlock::{check_type, read_header, unlock};

pub(crate) fn run(args: &TestArgs) -> Result<(), CliError> {
    check(args, LuksType::Luks)
}

/// Checks the passphrase of a header of the `wanted` version.
pub(crate) fn check(args: &TestArgs, wanted: LuksType) -> Result<(), CliError> {
    let (backend, luks) = read_header(&args.on)?;
    check_type(&luks, wanted, &backend)?;
    warn_of_failed_self_tests();
    let image = args.on.header_path().display().to_string();
    let unlocked = unlock(
        &luks,
        &backend,
        &image,
        args.key_slot,
        &args.key,
        args.tries,
    )?;
    note(format_args!("{image}: key slot {} unlocked", unlocked.slot));
    Ok(())
}
