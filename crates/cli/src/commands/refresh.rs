//! `scrim refresh NAME`: other flags for an open volume.

use std::path::{Path, PathBuf};

use scrim_backend::Access;
use scrim_volume::OpenFlags;

use super::resume::{knows_its_header, refuse_key_options};
use crate::args::RefreshArgs;
use crate::error::CliError;
use crate::kernel::{KernelVolume, KeyQuestion};
use crate::luks::header::read_luks;
use crate::luks::header_change::HeaderChange;
use crate::nbd::control::{Client, Request};
use crate::nbd::runtime::RuntimeDir;
use crate::running_volume::RunningVolume;
use crate::storage::Storage;
use crate::volume::opening::{check_storable, persistent};

/// Facts about an open volume that a change of its flags depends on.
struct Open {
    /// `LUKS1`, `LUKS2`, or a type without a header.
    r#type: String,
    /// File or device with the header, if there is one.
    header: PathBuf,
    read_only: bool,
}

pub(crate) fn run(args: &RefreshArgs) -> Result<(), CliError> {
    match RunningVolume::named(&args.name)? {
        RunningVolume::Scrim(client) => of_scrim(args, client),
        RunningVolume::Kernel(volume) => of_kernel(args, &volume),
    }
}

fn of_scrim(args: &RefreshArgs, client: Client) -> Result<(), CliError> {
    refuse_key_options(&args.again, &args.name)?;
    if args.header.is_some() {
        return Err(knows_its_header(&args.name));
    }
    let status = client.status()?;
    let open = Open {
        header: PathBuf::from(status.header.as_ref().unwrap_or(&status.device)),
        r#type: status.r#type,
        read_only: status.read_only,
    };
    let path = args.data_path.map(Into::into);
    change(args, &open, |flags| {
        let client = Client::connect(&RuntimeDir::locate(), &args.name)?;
        client.ask(Request::Refresh(flags, path)).map(drop)
    })
}

fn of_kernel(args: &RefreshArgs, volume: &KernelVolume) -> Result<(), CliError> {
    if args.data_path.is_some() {
        return Err(CliError::usage(format!(
            "{}: the kernel runs it, and its data path follows from the --perf flags; leave --data-path out",
            args.name.as_str()
        )));
    }
    let status = volume.status()?;
    let open = Open {
        header: match &args.header {
            Some(header) => header.clone(),
            None => volume.header_device()?,
        },
        r#type: status.r#type,
        read_only: status.read_only,
    };
    let question = KeyQuestion {
        header: args.header.as_deref(),
        key_slot: args.again.key_slot,
        tries: args.again.attempts(),
        key: args.again.key.source(),
        others: args.again.others(),
    };
    change(args, &open, |flags| volume.set_flags(flags, &question))
}

/// Works out the flags, puts them to work by `set`, and stores them if they are to persist.
fn change(
    args: &RefreshArgs,
    open: &Open,
    set: impl FnOnce(OpenFlags) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let given = args.perf.flags(args.allow_discards);
    // What cannot be stored is not put to work either.
    let stored = match args.persistent {
        true => Some(header_to_change(args, open, given)?),
        false => None,
    };
    let flags = match (open.r#type.as_str(), args.persistent) {
        ("LUKS2", false) => with_stored(given, &open.header)?,
        _ => given,
    };
    set(flags)?;
    match stored {
        Some(header) => header
            .edit(&[persistent(given)])
            .map_err(|error| error.within("the flags are active, but not stored in the header")),
        None => Ok(()),
    }
}

fn header_to_change(
    args: &RefreshArgs,
    open: &Open,
    given: OpenFlags,
) -> Result<HeaderChange, CliError> {
    let name = args.name.as_str();
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
    HeaderChange::read(&open.header)
}

/// As in cryptsetup, what the header stores counts, too.
fn with_stored(given: OpenFlags, header: &Path) -> Result<OpenFlags, CliError> {
    let header = Storage::open_shared(header, Access::ReadOnly)?;
    let luks = read_luks(&header, header.path())?;
    Ok(given.and_those_of(luks.header()))
}
