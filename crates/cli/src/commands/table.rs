//! `scrim table NAME`: prints the table of an open volume.

use scrim_sys::device_mapper::Which;
use scrim_volume::Keys;

use crate::args::TableArgs;
use crate::error::CliError;
use crate::nbd::control::Request;
use crate::running_volume::RunningVolume;
use crate::terminal::print;

pub(crate) fn run(args: &TableArgs) -> Result<(), CliError> {
    let table = match RunningVolume::named(&args.name)? {
        RunningVolume::Scrim(client) => client.ask(match (args.inactive, args.showkeys) {
            (false, false) => Request::Table,
            (false, true) => Request::TableWithKeys,
            (true, false) => Request::InactiveTable,
            (true, true) => Request::InactiveTableWithKeys,
        })?,
        RunningVolume::Kernel(volume) => {
            let which = match args.inactive {
                true => Which::Inactive,
                false => Which::Active,
            };
            let keys = match args.showkeys {
                true => Keys::Shown,
                false => Keys::Masked,
            };
            volume.printed_table(which, keys)?
        }
    };
    print(table.expose())
}
