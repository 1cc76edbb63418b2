//! `scrim dump IMAGE`.

use super::{print, print_json};
use crate::args::DumpArgs;
use crate::error::CliError;
use crate::unlock::read_header;

pub(crate) fn run(args: &DumpArgs) -> Result<(), CliError> {
    let (_, luks) = read_header(&args.on)?;
    if args.json {
        print_json(&scrim_luks::dump::json(luks.header()))
    } else {
        let image = args.on.header_path().display().to_string();
        print(scrim_luks::dump::text(luks.header(), &image).as_bytes())
    }
}
