//! `scrim resize NAME`: what there is to say of it. A volume has the size that it was opened with.

use scrim_backend::{Access, Backend, FileBackend};
use scrim_luks::Placement;
use scrim_volume::LuksError;

use super::{note, status};
use crate::args::ResizeArgs;
use crate::control::{Client, Status};
use crate::error::{CliError, Exit};
use crate::runtime::RuntimeDir;
use crate::unlock::read_luks;

pub(crate) fn run(args: &ResizeArgs) -> Result<(), CliError> {
    let open = status::ask(Client::connect(&RuntimeDir::locate(), &args.name)?)?;
    let (name, now) = (&open.name, open.size_sectors);
    let asked = args.size.or(args.device_size.map(|bytes| bytes / 512));
    let wanted = match asked {
        Some(sectors) => sectors,
        None => sectors_when_opened_now(&open)?,
    };
    if wanted == now {
        note(format_args!("{name}: it has {now} sectors already"));
        return Ok(());
    }
    let next = match asked {
        Some(_) => {
            "a volume is as large as its device allows: change the size of that, close the volume, \
             and open it again"
                .to_owned()
        }
        None => format!("close the volume and open it again, and it will have {wanted} sectors"),
    };
    Err(CliError::new(
        Exit::Busy,
        format!(
            "{name} has {now} sectors for as long as it is open, since NBD tells its clients the size \
             only once; {next}"
        ),
    ))
}

/// The size of the volume, in 512-byte sectors, if it were opened as its device is now.
fn sectors_when_opened_now(open: &Status) -> Result<u64, CliError> {
    if !open.r#type.starts_with("LUKS") {
        return Err(CliError::usage(format!(
            "{} runs a table, which says how large it is: close it, and open it with another table",
            open.name
        )));
    }
    let shared = |path: &str| FileBackend::open_shared(path.as_ref(), Access::ReadOnly);
    let device = shared(&open.device)?;
    let (header, placement) = match &open.header {
        Some(header) => (&shared(header)?, Placement::Detached),
        None => (&device, Placement::Attached),
    };
    let luks = read_luks(header)?;
    let segment = luks.header().data_segment().map_err(LuksError::from)?;
    let data = segment
        .extent(placement, device.info().size)
        .map_err(LuksError::from)?;
    Ok((data.end - data.start) / 512)
}
