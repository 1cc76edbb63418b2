//! Size of an open volume by the present size of its device.

use scrim_backend::{Access, Backend};
use scrim_luks::Placement;
use scrim_volume::LuksError;

use crate::error::CliError;
use crate::luks::header::read_luks;
use crate::nbd::control::Status;
use crate::storage::Storage;

/// The size of the volume, in 512-byte sectors, if it were opened as its device is now.
pub(crate) fn sectors_when_opened_now(open: &Status) -> Result<u64, CliError> {
    if !open.r#type.starts_with("LUKS") {
        return Err(CliError::usage(format!(
            "{} was opened from a table, which fixes its size: give the new size with --size",
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
