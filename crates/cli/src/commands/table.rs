//! `scrim table NAME`: prints the table of an open volume.

use crate::args::TableArgs;
use crate::error::CliError;
use crate::nbd::control::{Client, Request};
use crate::nbd::runtime::RuntimeDir;
use crate::terminal::print;

pub(crate) fn run(args: &TableArgs) -> Result<(), CliError> {
    let request = match (args.inactive, args.showkeys) {
        (false, false) => Request::Table,
        (false, true) => Request::TableWithKeys,
        (true, false) => Request::InactiveTable,
        (true, true) => Request::InactiveTableWithKeys,
    };
    let table = Client::connect(&RuntimeDir::locate(), &args.name)?.ask(request)?;
    print(table.expose())
}
