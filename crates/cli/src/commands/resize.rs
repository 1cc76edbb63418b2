//! `scrim resize NAME`: resizes an open volume to match its device, or to the size that the user gives.

use crate::args::ResizeArgs;
use crate::error::CliError;
use crate::nbd::control::{Client, Request};
use crate::nbd::device_size::sectors_when_opened_now;
use crate::nbd::runtime::RuntimeDir;
use crate::terminal::note;

pub(crate) fn run(args: &ResizeArgs) -> Result<(), CliError> {
    let runtime = RuntimeDir::locate();
    let open = Client::connect(&runtime, &args.name)?.status()?;
    let (name, now) = (&open.name, open.size_sectors);
    let wanted = match (args.size, args.device_size) {
        (Some(sectors), _) => sectors,
        (None, Some(bytes)) => whole_sectors(bytes)?,
        (None, None) => sectors_when_opened_now(&open)?,
    };
    if wanted == now {
        note(format_args!("{name}: it already has {now} sectors"));
        return Ok(());
    }
    Client::connect(&runtime, &args.name)?.ask(Request::Resize(wanted))?;
    note(format_args!(
        "{name}: it had {now} sectors and now has {wanted}"
    ));
    // NBD tells a client the size once.
    if open.clients > 0 {
        note(format_args!(
            "clients connected: {}; each sees the old size until it reconnects",
            open.clients
        ));
    }
    Ok(())
}

fn whole_sectors(bytes: u64) -> Result<u64, CliError> {
    if bytes.is_multiple_of(512) {
        return Ok(bytes / 512);
    }
    let message = format!("{bytes} bytes are not a whole number of sectors: use a multiple of 512");
    Err(CliError::usage(message))
}
