//! The place of a volume, as a command line names it: an image, the options for a part of it, or a SIF image with an
//! encrypted partition.

use std::path::{Path, PathBuf};

use scrim_backend::{Access, Backend, FileBackend};

use crate::args::{HeaderOnlyArgs, WindowArgs};
use crate::error::{CliError, Exit};
use crate::storage::image::is_named_part;
use crate::storage::part::name_of;
use crate::storage::server::is_remote;
use crate::storage::sif::{SifError, encrypted_partition};
use crate::terminal::note;

/// Unit of a volume's place, in bytes.
const SECTOR: u64 = 512;

/// The place of a volume.
pub(crate) struct VolumePlace {
    /// Name by which the storage is opened.
    pub(crate) name: PathBuf,
    /// True for a partition of a SIF, which holds a file system that is only read.
    pub(crate) is_sif: bool,
}

/// Finds the volume that an image and the options for a part of it name.
pub(crate) fn place_of(image: &Path, window: WindowArgs) -> Result<VolumePlace, CliError> {
    let name = name_with(image, window)?;
    let is_whole = name == image && !is_remote(image) && !is_named_part(image);
    let found = match is_whole {
        true => in_sif(image)?,
        false => None,
    };
    Ok(VolumePlace {
        is_sif: found.is_some(),
        name: found.unwrap_or(name),
    })
}

/// The name of the header that a command works on.
pub(crate) fn header_place(on: &HeaderOnlyArgs) -> Result<PathBuf, CliError> {
    match &on.header {
        Some(_) if on.window.is_given() => Err(CliError::usage(
            "--image-offset and --image-size tell where the volume is in IMAGE, and its header is in the file that \
             --header names; leave them out",
        )),
        Some(header) => Ok(header.clone()),
        None => place_of(&on.image, on.window).map(|place| place.name),
    }
}

/// The name of the part of an image that the options select; the image's own without them.
pub(crate) fn name_with(image: &Path, window: WindowArgs) -> Result<PathBuf, CliError> {
    if !window.is_given() {
        return Ok(image.to_owned());
    }
    let shown = image.display();
    if is_remote(image) || is_named_part(image) {
        return Err(CliError::usage(format!(
            "{shown}: --image-offset and --image-size select a part of a whole file or device; leave them out, or \
             name that"
        )));
    }
    let start = window.image_offset.unwrap_or(0);
    let file = FileBackend::open_shared(image, Access::ReadOnly)?;
    let size = file.info().size;
    let rest = size.checked_sub(start).filter(|&rest| rest > 0);
    let rest = rest.ok_or_else(|| {
        CliError::usage(format!(
            "{shown}: --image-offset {start} is behind its end, it has {size} bytes"
        ))
    })?;
    let len = window.image_size.unwrap_or(rest);
    if len == 0 || len > rest {
        return Err(CliError::usage(format!(
            "{shown}: --image-size {len} does not fit: {rest} bytes are there from byte {start} on"
        )));
    }
    if !start.is_multiple_of(SECTOR) {
        return Err(CliError::usage(format!(
            "{shown}: --image-offset {start} is no multiple of {SECTOR}, and no volume starts within a sector"
        )));
    }
    Ok(name_of(image, &(start..start + len)))
}

/// The encrypted partition of an image, if that is a SIF. What cannot be read is no SIF: who opens it says why.
fn in_sif(image: &Path) -> Result<Option<PathBuf>, CliError> {
    let Ok(file) = FileBackend::open_shared(image, Access::ReadOnly) else {
        return Ok(None);
    };
    let shown = image.display();
    let found = encrypted_partition(&file).map_err(|error| {
        let exit = match &error {
            SifError::NotEncrypted { .. } | SifError::Several(_) => Exit::Usage,
            _ => Exit::WrongDevice,
        };
        CliError::new(exit, format!("{shown}: {error}"))
    })?;
    let Some(found) = found else {
        return Ok(None);
    };
    let use_of_it = match found.is_primary {
        true => ", that of the container's system",
        false => "",
    };
    let (start, len) = (found.range.start, found.range.end - found.range.start);
    note(format_args!(
        "scrim: {shown}: a SIF image; its encrypted partition is object {}{use_of_it}, {len} bytes at byte {start}",
        found.id
    ));
    if let Some((id, key)) = &found.sealed_key {
        note(format_args!(
            "scrim: {shown}: its passphrase is in object {id}, {} bytes at byte {}, encrypted for an RSA key; the \
             manual (where.md) has the commands that decrypt it into a key file",
            key.end - key.start,
            key.start
        ));
    }
    Ok(Some(name_of(image, &found.range)))
}
