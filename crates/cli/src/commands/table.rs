//! `scrim table NAME`.

use super::print;
use crate::args::TableArgs;
use crate::control::{Client, Request};
use crate::error::CliError;
use crate::runtime::RuntimeDir;

pub(crate) fn run(args: &TableArgs) -> Result<(), CliError> {
    let request = if args.showkeys {
        Request::TableWithKeys
    } else {
        Request::Table
    };
    let table = Client::connect(&RuntimeDir::locate(), &args.name)?.ask(request)?;
    print(table.expose())
}
