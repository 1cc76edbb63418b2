//! `scrim luksUUID IMAGE`.

use super::print;
use crate::args::HeaderOnlyArgs;
use crate::error::CliError;
use crate::unlock::read_header;

pub(crate) fn run(args: &HeaderOnlyArgs) -> Result<(), CliError> {
    let (_, luks) = read_header(args)?;
    print(format!("{}\n", luks.header().uuid()).as_bytes())
}
