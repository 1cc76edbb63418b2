//! `scrim reload`, `suspend` and `clear`: another table for an open volume, in dmsetup's words.

use std::path::Path;

use scrim_sys::memory::SecretBytes;
use scrim_volume::{Change, CryptTable};

use crate::args::{OpenNameArgs, ReloadArgs};
use crate::error::CliError;
use crate::nbd::control::Request;
use crate::running_volume::RunningVolume;
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
    match RunningVolume::named(&args.name)? {
        RunningVolume::Scrim(client) => {
            let request = Request::Reload { len, change };
            client.ask_with(request, text.expose()).map(drop)
        }
        RunningVolume::Kernel(volume) => volume.load_table(&text, change),
    }
}

pub(crate) fn suspend(args: &OpenNameArgs) -> Result<(), CliError> {
    match RunningVolume::named(&args.name)? {
        RunningVolume::Scrim(client) => client.ask(Request::Suspend).map(drop),
        RunningVolume::Kernel(volume) => volume.suspend(),
    }
}

pub(crate) fn clear(args: &OpenNameArgs) -> Result<(), CliError> {
    match RunningVolume::named(&args.name)? {
        RunningVolume::Scrim(client) => client.ask(Request::Clear).map(drop),
        RunningVolume::Kernel(volume) => volume.clear(),
    }
}
