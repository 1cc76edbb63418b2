//! `scrim isLuks IMAGE`: the answer is the exit code.

use std::process::ExitCode;

use scrim_volume::LuksError;

use crate::args::IsLuksArgs;
use crate::error::{CliError, Exit};
use crate::luks::header::is_of_type;
use crate::storage::{Storage, header_place};
use crate::terminal::note;

pub(crate) fn run(args: &IsLuksArgs) -> Result<ExitCode, CliError> {
    let path = args.on.header_path();
    let backend = Storage::open_shared(&header_place(&args.on)?, scrim_backend::Access::ReadOnly)?;
    let (found, answer) = match scrim_volume::LuksDevice::read(&backend) {
        Ok(luks) => (
            is_of_type(luks.header(), args.r#type),
            format!("it has a LUKS{} header", luks.header().version()),
        ),
        Err(error @ LuksError::Header(_)) => (false, error.to_string()),
        Err(error) => return Err(error.into()),
    };
    if args.verbose {
        note(format_args!("{}: {answer}", path.display()));
    }
    Ok(if found {
        ExitCode::SUCCESS
    } else {
        Exit::Usage.into()
    })
}
