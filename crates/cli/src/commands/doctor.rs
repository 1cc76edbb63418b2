//! `scrim doctor`: what this machine offers, and what each missing piece costs.

use super::{print, print_json};
use crate::args::DoctorArgs;
use crate::doctor::Examination;
use crate::error::CliError;

pub(crate) fn run(args: &DoctorArgs) -> Result<(), CliError> {
    let examination = Examination::of_this_machine();
    if args.json {
        return print_json(&examination);
    }
    print(examination.page().as_bytes())
}
