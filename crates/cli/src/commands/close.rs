//! `scrim close NAME`: closes an open volume.

use crate::args::CloseArgs;
use crate::error::CliError;
use crate::kernel::KernelVolume;
use crate::nbd::control::Request;
use crate::running_volume::RunningVolume;
use crate::terminal::note;

pub(crate) fn run(args: &CloseArgs) -> Result<(), CliError> {
    let client = match RunningVolume::named(&args.name)? {
        RunningVolume::Scrim(client) => client,
        RunningVolume::Kernel(volume) => return of_kernel(args, &volume),
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
        tell_of_use(args);
    }
    Ok(())
}

fn of_kernel(args: &CloseArgs, volume: &KernelVolume) -> Result<(), CliError> {
    if args.cancel_deferred {
        return volume.stay_open();
    }
    if !args.deferred {
        return volume.close(args.force);
    }
    if volume.close_when_unused()? {
        tell_of_use(args);
    }
    Ok(())
}

fn tell_of_use(args: &CloseArgs) {
    let name = args.name.as_str();
    note(format_args!("{name}: in use; it is closed once it is not"));
}
