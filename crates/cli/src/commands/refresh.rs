//! `scrim refresh NAME`: other flags for an open volume.

use std::path::Path;

use scrim_backend::Access;
use scrim_volume::OpenFlags;

use crate::args::RefreshArgs;
use crate::error::CliError;
use crate::luks::header::read_luks;
use crate::luks::header_change::HeaderChange;
use crate::nbd::control::{Client, Request, Status};
use crate::nbd::runtime::RuntimeDir;
use crate::storage::Storage;
use crate::volume::opening::{check_storable, persistent};

pub(crate) fn run(args: &RefreshArgs) -> Result<(), CliError> {
    let runtime = RuntimeDir::locate();
    let open = Client::connect(&runtime, &args.name)?.status()?;
    let given = args.perf.flags(args.allow_discards);
    // What cannot be stored is not put to work either.
    let stored = match args.persistent {
        true => Some(header_to_change(&open, given)?),
        false => None,
    };
    let flags = match (open.r#type.as_str(), args.persistent) {
        ("LUKS2", false) => with_stored(given, header_path(&open))?,
        _ => given,
    };
    let path = args.data_path.map(Into::into);
    Client::connect(&runtime, &args.name)?.ask(Request::Refresh(flags, path))?;
    match stored {
        Some(header) => header
            .edit(&[persistent(given)])
            .map_err(|error| error.within("the flags are active, but not stored in the header")),
        None => Ok(()),
    }
}

fn header_path(open: &Status) -> &Path {
    Path::new(open.header.as_ref().unwrap_or(&open.device))
}

fn header_to_change(open: &Status, given: OpenFlags) -> Result<HeaderChange, CliError> {
    let name = &open.name;
    if open.r#type != "LUKS2" {
        let r#type = &open.r#type;
        return Err(CliError::usage(format!(
            "{name}: {type} has no persistent flags; leave --persistent out"
        )));
    }
    if open.read_only {
        return Err(CliError::usage(format!(
            "{name} is read-only; leave --persistent out, or use `scrim config --persistent-flags`"
        )));
    }
    check_storable(given)?;
    HeaderChange::read(header_path(open))
}

/// As in cryptsetup, what the header stores counts, too.
fn with_stored(given: OpenFlags, header: &Path) -> Result<OpenFlags, CliError> {
    let header = Storage::open_shared(header, Access::ReadOnly)?;
    let luks = read_luks(&header, header.path())?;
    Ok(given.and_those_of(luks.header()))
}
