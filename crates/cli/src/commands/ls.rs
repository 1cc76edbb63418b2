//! `scrim ls IMAGE:/path`: lists files of the file system in a volume.

use crate::args::LsArgs;
use crate::error::CliError;
use crate::files::listing::Listing;
use crate::files::source::Source;

pub(crate) fn run(args: &LsArgs) -> Result<(), CliError> {
    let source = Source::open(&args.on)?;
    Listing::new(&source, args).run()
}
