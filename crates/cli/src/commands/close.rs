//! `scrim close NAME`: closes an open volume.

use crate::args::CloseArgs;
use crate::error::CliError;
use crate::nbd::control::Request;
use crate::running_volume::RunningVolume;

pub(crate) fn run(args: &CloseArgs) -> Result<(), CliError> {
    let client = match RunningVolume::named(&args.name)? {
        RunningVolume::Scrim(client) => client,
        RunningVolume::Kernel(volume) => return volume.close(args.force),
    };
    let request = if args.force {
        Request::CloseForced
    } else {
        Request::Close
    };
    client.ask(request)?;
    Ok(())
}
