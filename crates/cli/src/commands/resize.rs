//! `scrim resize NAME`: resizes an open volume to match its device, or to the size that the user gives.

use super::resume::refuse_key_options;
use crate::args::ResizeArgs;
use crate::error::CliError;
use crate::kernel::{KernelVolume, KeyQuestion};
use crate::nbd::control::{Client, Request};
use crate::nbd::device_size::sectors_when_opened_now;
use crate::nbd::runtime::RuntimeDir;
use crate::running_volume::RunningVolume;
use crate::terminal::note;

pub(crate) fn run(args: &ResizeArgs) -> Result<(), CliError> {
    match RunningVolume::named(&args.name)? {
        RunningVolume::Scrim(client) => of_scrim(args, client),
        RunningVolume::Kernel(volume) => of_kernel(args, &volume),
    }
}

fn of_scrim(args: &ResizeArgs, client: Client) -> Result<(), CliError> {
    refuse_key_options(&args.again, &args.name)?;
    if args.header.is_some() {
        return Err(CliError::usage(format!(
            "{} knows its header; leave --header out",
            args.name.as_str()
        )));
    }
    let open = client.status()?;
    let now = open.size_sectors;
    let wanted = match given(args)? {
        Some(sectors) => sectors,
        None => sectors_when_opened_now(&open)?,
    };
    change(args, now, wanted, || {
        let client = Client::connect(&RuntimeDir::locate(), &args.name)?;
        client.ask(Request::Resize(wanted)).map(drop)
    })?;
    // NBD tells a client the size once.
    if wanted != now && open.clients > 0 {
        note(format_args!(
            "clients connected: {}; each sees the old size until it reconnects",
            open.clients
        ));
    }
    Ok(())
}

fn of_kernel(args: &ResizeArgs, volume: &KernelVolume) -> Result<(), CliError> {
    let wanted = match given(args)? {
        Some(sectors) => sectors,
        None => volume.sectors_now()?,
    };
    let question = KeyQuestion {
        header: args.header.as_deref(),
        key_slot: args.again.key_slot,
        tries: args.again.attempts(),
        key: args.again.key.source(),
        others: args.again.others(),
    };
    change(args, volume.sectors()?, wanted, || {
        volume.resize(wanted, &question)
    })
}

/// Size that the user gives, in 512-byte sectors.
fn given(args: &ResizeArgs) -> Result<Option<u64>, CliError> {
    match (args.size, args.device_size) {
        (Some(sectors), _) => Ok(Some(sectors)),
        (None, Some(bytes)) => whole_sectors(bytes).map(Some),
        (None, None) => Ok(None),
    }
}

/// Changes the size by `resize`, if it differs, and says so.
fn change(
    args: &ResizeArgs,
    now: u64,
    wanted: u64,
    resize: impl FnOnce() -> Result<(), CliError>,
) -> Result<(), CliError> {
    let name = args.name.as_str();
    if wanted == now {
        note(format_args!("{name}: it already has {now} sectors"));
        return Ok(());
    }
    resize()?;
    note(format_args!(
        "{name}: it had {now} sectors and now has {wanted}"
    ));
    Ok(())
}

fn whole_sectors(bytes: u64) -> Result<u64, CliError> {
    if bytes.is_multiple_of(512) {
        return Ok(bytes / 512);
    }
    let message = format!("{bytes} bytes are not a whole number of sectors: use a multiple of 512");
    Err(CliError::usage(message))
}
