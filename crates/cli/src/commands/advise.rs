//! `scrim advise`: options for a volume that does not exist yet.

use std::process::ExitCode;

use scrim_bench::{ROUNDS, Study};

use super::bench::machine;
use crate::advise::{Advice, Place, measure};
use crate::args::AdviseArgs;
use crate::error::CliError;
use crate::process::interruption::Interruption;
use crate::terminal::{note, print, print_json};

pub(crate) fn run(args: &AdviseArgs) -> Result<ExitCode, CliError> {
    let place = Place::examine(&args.place)?;
    let interruption = Interruption::listen()?;
    let mut study = Study::new(machine(), ROUNDS);
    let figures = measure(&place, &mut study, &interruption)?;
    let advice = Advice::new(place, figures, &study.finish());
    match args.json {
        true => print_json(&advice)?,
        false => print(advice.page().as_bytes())?,
    }
    for warning in advice.warnings() {
        note(format_args!("scrim: warning: {warning}"));
    }
    Ok(interruption.exit_code())
}
