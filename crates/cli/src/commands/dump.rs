//! `scrim dump IMAGE`: shows a LUKS header.

use crate::args::DumpArgs;
use crate::error::CliError;
use crate::luks::header::read_header;
use crate::terminal::{print, print_json};

pub(crate) fn run(args: &DumpArgs) -> Result<(), CliError> {
    let (_, luks) = read_header(&args.on)?;
    if args.json {
        print_json(&scrim_luks::dump::json(luks.header()))
    } else {
        let image = args.on.header_path().display().to_string();
        print(scrim_luks::dump::text(luks.header(), &image).as_bytes())
    }
}
