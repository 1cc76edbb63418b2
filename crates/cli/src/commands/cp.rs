//! `scrim cp IMAGE:/path DEST`: copies files out of the file system in a volume.

use std::process::ExitCode;

use rustix::process::geteuid;

use crate::args::CpArgs;
use crate::error::CliError;
use crate::files::copy;
use crate::files::source::Source;

pub(crate) fn run(args: &CpArgs) -> Result<ExitCode, CliError> {
    if args.preserve_owner && !geteuid().is_root() {
        return Err(CliError::usage(
            "only root can give files to other owners; leave --preserve-owner out, or run the command as root",
        ));
    }
    let source = Source::open(&args.on)?;
    copy::run(&source, args)
}
