//! `scrim test-passphrase IMAGE`: checks a passphrase.

use crate::args::{LuksType, TestArgs};
use crate::error::CliError;
use crate::luks::header::{check_type, read_header};
use crate::luks::unlock::{Asking, by_volume_key, unlock};
use crate::terminal::note;

pub(crate) fn run(args: &TestArgs) -> Result<(), CliError> {
    check(args, LuksType::Luks)
}

/// Checks the passphrase of a header of the `wanted` version.
pub(crate) fn check(args: &TestArgs, wanted: LuksType) -> Result<(), CliError> {
    let (backend, luks) = read_header(&args.on)?;
    check_type(luks.header(), wanted, backend.path())?;
    let image = args.on.header_path().display().to_string();
    let asking = Asking {
        question: &format!("Enter passphrase for {image}: "),
        key: args.key.source(),
        tries: args.tries,
    };
    let cost = asking.key.cost;
    if by_volume_key(&args.volume_key, &luks, &backend, &image, cost)?.is_some() {
        note(format_args!("{image}: the volume key fits"));
        return Ok(());
    }
    let (unlocked, _) = unlock(&luks, &backend, &image, args.key_slot, &asking)?;
    note(format_args!("{image}: key slot {} unlocked", unlocked.slot));
    Ok(())
}
