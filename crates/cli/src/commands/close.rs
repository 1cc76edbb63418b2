//! `scrim close NAME`: closes an open volume.

use crate::args::CloseArgs;
use crate::error::CliError;
use crate::nbd::control::{Client, Request};
use crate::nbd::runtime::RuntimeDir;

pub(crate) fn run(args: &CloseArgs) -> Result<(), CliError> {
    let request = if args.force {
        Request::CloseForced
    } else {
        Request::Close
    };
    Client::connect(&RuntimeDir::locate(), &args.name)?.ask(request)?;
    Ok(())
}
