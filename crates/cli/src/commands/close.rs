//! `scrim close NAME`: closes an open volume.

use crate::args::CloseArgs;
use crate::error::CliError;
use crate::nbd::control::Request;
use crate::running_volume::RunningVolume;
use crate::terminal::note;

pub(crate) fn run(args: &CloseArgs) -> Result<(), CliError> {
    let client = match RunningVolume::named(&args.name)? {
        RunningVolume::Scrim(client) => client,
        RunningVolume::Kernel(_) if args.deferred || args.cancel_deferred => {
            return Err(CliError::usage(format!(
                "{}: the kernel runs it, where --deferred and --cancel-deferred are not supported; use `dmsetup remove \
                 --deferred`",
                args.name.as_str()
            )));
        }
        RunningVolume::Kernel(volume) => return volume.close(args.force),
    };
    let request = match args {
        CloseArgs { force: true, .. } => Request::CloseForced,
        CloseArgs { deferred: true, .. } => Request::CloseDeferred,
        CloseArgs {
            cancel_deferred: true,
            ..
        } => Request::CancelDeferred,
        _ => Request::Close,
    };
    let answer = client.ask(request)?;
    // A volume that is closed has no answer left.
    if request == Request::CloseDeferred && !answer.is_empty() {
        note(format_args!(
            "{}: in use; it is closed once it is not",
            args.name.as_str()
        ));
    }
    Ok(())
}
