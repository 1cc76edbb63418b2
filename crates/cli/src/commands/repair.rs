//! `scrim repair IMAGE`.

use scrim_backend::{Access, Backend};
use scrim_luks::{Condition, Consent, Diagnosis, HEADER_AREA_MAX};
use scrim_volume::{HeaderSession, LuksDevice, LuksError};

use super::note;
use crate::args::RepairArgs;
use crate::confirm::Question;
use crate::error::{CliError, Exit};
use crate::header_change::write;
use crate::storage::Storage;

pub(crate) fn run(args: &RepairArgs) -> Result<(), CliError> {
    let path = args.on.on.header_path();
    let place = path.display();
    let within = |error: CliError| error.within(&place);
    let backend = Storage::open_shared(path, Access::ReadWrite)?;
    let area = LuksDevice::read_area(&backend, HEADER_AREA_MAX)?;
    let diagnosis = Diagnosis::of(&area, backend.info().size);
    for line in diagnosis.to_string().lines() {
        note(format_args!("{place}: {line}"));
    }
    check_type(args, &diagnosis)?;
    let plan = diagnosis
        .plan()
        .map_err(|error| within(LuksError::from(error).into()))?;
    let Some(plan) = plan else {
        return match diagnosis.condition {
            Condition::Hopeless { .. } => Err(CliError::usage(format!(
                "{place}: nothing here can be repaired; nothing was changed: put a backup of the \
                 header back with `scrim header-restore`, without one the data is lost"
            ))),
            _ => {
                note(format_args!("{place}: there is nothing to repair"));
                Ok(())
            }
        };
    };
    if diagnosis.consent() == Consent::Ask {
        confirm(args, &diagnosis)?;
    }
    let session = HeaderSession::start(&backend)?;
    if session.bytes(HEADER_AREA_MAX)? != area {
        return Err(within(LuksError::Changed.into()));
    }
    write(plan, &session, &backend)?;
    note(format_args!("{place}: the header is repaired"));
    Ok(())
}

fn check_type(args: &RepairArgs, diagnosis: &Diagnosis) -> Result<(), CliError> {
    let header = match &diagnosis.condition {
        Condition::Sound(parsed) | Condition::OneCopy(parsed) => &parsed.header,
        Condition::Luks1Fields { header, .. } => header,
        Condition::Hopeless { .. } => return Ok(()),
    };
    crate::unlock::check_type(header, args.on.r#type, args.on.on.header_path())
}

fn confirm(args: &RepairArgs, diagnosis: &Diagnosis) -> Result<(), CliError> {
    let place = args.on.on.header_path().display();
    let what = match &diagnosis.condition {
        Condition::OneCopy(_) => "one copy of the header is written anew from the other",
        _ => "the LUKS1 header is written anew, as its fields must have been",
    };
    let lost = match diagnosis.overwritten_by {
        Some(signature) => format!(", and {signature} that lies there is overwritten"),
        None => String::new(),
    };
    let warning = format!("This will repair {place}: {what}{lost}.");
    let question = Question {
        warning: &warning,
        unanswered: Some(&format!(
            "{place}: the repair may overwrite something else, and nobody is at a terminal to \
             confirm it"
        )),
        refused: Exit::Usage,
    };
    question.ask(args.on.batch_mode)
}
