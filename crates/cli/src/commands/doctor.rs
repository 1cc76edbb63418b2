//! `scrim doctor`: what this machine offers, and what each missing piece costs.

use crate::args::DoctorArgs;
use crate::doctor::Examination;
use crate::error::CliError;
use crate::terminal::{print, print_json};

pub(crate) fn run(args: &DoctorArgs) -> Result<(), CliError> {
    let examination = Examination::of_this_machine();
    if args.json {
        return print_json(&examination);
    }
    print(examination.page().as_bytes())
}
