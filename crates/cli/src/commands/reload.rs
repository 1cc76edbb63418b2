//! `scrim reload`, `suspend` and `clear`: another table for an open volume, in dmsetup's words.

use std::path::Path;

use scrim_sys::memory::SecretBytes;
use scrim_volume::{Change, CryptTable};

use crate::args::{OpenNameArgs, ReloadArgs, VolumeName};
use crate::error::CliError;
use crate::nbd::control::{Client, Request};
use crate::nbd::runtime::RuntimeDir;
use crate::volume::table_input::read_table;

pub(crate) fn run(args: &ReloadArgs) -> Result<(), CliError> {
    let text = match (&args.table, &args.file) {
        (Some(line), _) => SecretBytes::copied_from(line.as_bytes()),
        (None, Some(file)) => read_table(file)?,
        (None, None) => read_table(Path::new("-"))?,
    };
    if text.len() > CryptTable::TEXT_MAX {
        return Err(CliError::usage("the line is too long for a table"));
    }
    let change = match args.force {
        true => Change::OfMeaning,
        false => Change::OfService,
    };
    let len = text.len();
    // The process is asked after the text has come: it would wait for it.
    let client = Client::connect(&RuntimeDir::locate(), &args.name)?;
    client.ask_with(Request::Reload { len, change }, text.expose())?;
    Ok(())
}

pub(crate) fn suspend(args: &OpenNameArgs) -> Result<(), CliError> {
    ask(&args.name, Request::Suspend)
}

pub(crate) fn clear(args: &OpenNameArgs) -> Result<(), CliError> {
    ask(&args.name, Request::Clear)
}

fn ask(name: &VolumeName, request: Request) -> Result<(), CliError> {
    Client::connect(&RuntimeDir::locate(), name)?.ask(request)?;
    Ok(())
}
