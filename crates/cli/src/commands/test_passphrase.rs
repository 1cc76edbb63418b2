//! `scrim test-passphrase IMAGE`.

use super::note;
use crate::args::TestArgs;
use crate::error::CliError;
use crate::unlock::{read_header, unlock};

pub(crate) fn run(args: &TestArgs) -> Result<(), CliError> {
    let (backend, luks) = read_header(&args.on)?;
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
