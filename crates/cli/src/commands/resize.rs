//! `scrim resize NAME`: resizes an open volume to match its device, or to the size that the user gives.

use scrim_backend::{Access, Backend};
use scrim_luks::Placement;
use scrim_volume::LuksError;

use super::{note, status};
use crate::args::ResizeArgs;
use crate::control::{Client, Request, Status};
use crate::error::CliError;
use crate::runtime::RuntimeDir;
use crate::storage::Storage;
use crate::unlock::read_luks;

pub(crate) fn run(args: &ResizeArgs) -> Result<(), CliError> {
    let runtime = RuntimeDir::locate();
    let open = status::ask(Client::connect(&runtime, &args.name)?)?;
    let (name, now) = (&open.name, open.size_sectors);
    let wanted = match (args.size, args.device_size) {
        (Some(sectors), _) => sectors,
        (None, Some(bytes)) => whole_sectors(bytes)?,
        (None, None) => sectors_when_opened_now(&open)?,
    };
    if wanted == now {
        note(format_args!("{name}: it has {now} sectors already"));
        return Ok(());
    }
    Client::connect(&runtime, &args.name)?.ask(Request::Resize(wanted))?;
    note(format_args!(
        "{name}: it had {now} sectors and has {wanted} now"
    ));
    // NBD tells a client the size once.
    if open.clients > 0 {
        note(format_args!(
            "clients connected: {}; each keeps the size that it was told until it connects again",
            open.clients
        ));
    }
    Ok(())
}

fn whole_sectors(bytes: u64) -> Result<u64, CliError> {
    if bytes.is_multiple_of(512) {
        return Ok(bytes / 512);
    }
    let message = format!("{bytes} bytes are no whole number of sectors: use a multiple of 512");
    Err(CliError::usage(message))
}

/// The size of the volume, in 512-byte sectors, if it were opened as its device is now.
pub(crate) fn sectors_when_opened_now(open: &Status) -> Result<u64, CliError> {
    if !open.r#type.starts_with("LUKS") {
        return Err(CliError::usage(format!(
            "{} runs a table, which says how large it is: say the size with --size",
            open.name
        )));
    }
    let shared = |path: &str| Storage::open_shared(path.as_ref(), Access::ReadOnly);
    let device = shared(&open.device)?;
    let (header, placement) = match &open.header {
        Some(header) => (&shared(header)?, Placement::Detached),
        None => (&device, Placement::Attached),
    };
    let luks = read_luks(header, header.path())?;
    let segment = luks.header().data_segment().map_err(LuksError::from)?;
    let data = segment
        .extent(placement, device.info().size)
        .map_err(LuksError::from)?;
    Ok((data.end - data.start) / 512)
}
