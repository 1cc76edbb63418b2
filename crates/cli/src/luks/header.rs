//! Reading of LUKS headers: reports damage, and refuses a version that was not asked for.

use std::path::Path;

use scrim_backend::{Access, Backend};
use scrim_luks::{Header, HeaderError};
use scrim_volume::{LuksDevice, LuksError, is_half_overwritten};

use crate::args::{HeaderOnlyArgs, LuksType};
use crate::error::{CliError, Exit};
use crate::luks::not_luks;
use crate::storage::partitions::{luks_partitions, show_partitions};
use crate::storage::{Storage, header_place};
use crate::terminal::note;

/// Reads the header of an image, or of the file that holds it detached; prints what is amiss.
pub(crate) fn read_header(on: &HeaderOnlyArgs) -> Result<(Storage, LuksDevice), CliError> {
    let backend = Storage::open_shared(&header_place(on)?, Access::ReadOnly)?;
    let luks = read_luks(&backend, backend.path())?;
    Ok((backend, luks))
}

/// Reads the header on a backend; prints what is amiss with it, by the name of its place.
pub(crate) fn read_luks(backend: &dyn Backend, path: &Path) -> Result<LuksDevice, CliError> {
    let place = path.display();
    let luks = LuksDevice::read(backend).map_err(|error| {
        // A disk with partitions may have been a LUKS volume as a whole, and have remains of that.
        if matches!(&error, LuksError::Header(error) if may_be_a_disk(error)) {
            show_partitions(path, &luks_partitions(backend));
        }
        let is_not_luks = matches!(error, LuksError::Header(HeaderError::NotLuks));
        if is_not_luks && is_half_overwritten(backend).is_ok_and(|is_half| is_half) {
            return half_overwritten(path);
        }
        if let (true, Some(found)) = (is_not_luks, not_luks::describe(backend)) {
            return CliError::usage(format!("{place}: no LUKS header was found: {found}"));
        }
        CliError::from(error).within(format_args!("{place}"))
    })?;
    for finding in luks.findings() {
        note(format_args!("scrim: warning: {place}: {finding}"));
    }
    Ok(luks)
}

/// Refuses an image whose encryption in place was cut short before its header was whole.
pub(crate) fn half_overwritten(image: &Path) -> CliError {
    let shown = image.display();
    CliError::new(
        Exit::WrongDevice,
        format!(
            "{shown}: an encryption in place was interrupted while the header was written over the data: run \
             `scrim encrypt --in-place {shown}`, which restores the data and then asks for \
             confirmation to encrypt it; without confirmation the data stays as it was"
        ),
    )
}

/// Tells whether what is wrong with a header may come from a partition table that was written over it.
fn may_be_a_disk(error: &HeaderError) -> bool {
    match error {
        HeaderError::NotLuks | HeaderError::Luks2 { .. } | HeaderError::Overwritten { .. } => true,
        HeaderError::Version(_) | HeaderError::Luks1(_) | HeaderError::DeviceTooSmall { .. } => {
            false
        }
    }
}

/// Tells whether a header is of the version that was asked for.
pub(crate) fn is_of_type(header: &Header, wanted: LuksType) -> bool {
    match wanted {
        LuksType::Luks => true,
        LuksType::Luks1 => header.version() == 1,
        LuksType::Luks2 => header.version() == 2,
    }
}

/// Refuses a header of another version than was asked for.
pub(crate) fn check_type(header: &Header, wanted: LuksType, path: &Path) -> Result<(), CliError> {
    if is_of_type(header, wanted) {
        return Ok(());
    }
    Err(CliError::usage(format!(
        "{} has a LUKS{} header, not the type that --type asks for",
        path.display(),
        header.version()
    )))
}
