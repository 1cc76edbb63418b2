//! `scrim repair IMAGE`: shows damage to a header and repairs it.

use scrim_backend::{Access, Backend};
use scrim_luks::{Condition, Consent, Diagnosis, HEADER_AREA_MAX, HeaderError};
use scrim_volume::{HeaderSession, LuksDevice, LuksError};

use crate::args::RepairArgs;
use crate::error::CliError;
use crate::luks::header;
use crate::luks::header_change::write;
use crate::storage::partitions::{luks_partitions, show_partitions};
use crate::storage::{Storage, header_place};
use crate::terminal::confirm::Question;
use crate::terminal::note;

pub(crate) fn run(args: &RepairArgs) -> Result<(), CliError> {
    let path = args.on.on.header_path();
    let place = path.display();
    let within = |error: CliError| error.within(&place);
    let backend = Storage::open_shared(&header_place(&args.on.on)?, Access::ReadWrite)?;
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
        return match &diagnosis.condition {
            Condition::Unusable {
                error: HeaderError::DeviceTooSmall { need, have },
                ..
            } => Err(CliError::usage(format!(
                "{place}: the header and its key slots take {need} bytes, and {have} are there; nothing was \
                 changed: make it {need} bytes long at least, as long as it was at best, and try again"
            ))),
            Condition::Unusable { error, remains } => {
                Err(beyond_repair(&backend, error, remains.is_empty()))
            }
            _ => {
                note(format_args!("{place}: there is nothing to repair"));
                Ok(())
            }
        };
    };
    if diagnosis.consent() == Consent::Ask {
        refuse_disk(args, &backend)?;
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

/// Error for a header that cannot be repaired. It claims no more than is known: a disk with partitions may be intact,
/// and key slots may be intact below a damaged header.
fn beyond_repair(backend: &Storage, error: &HeaderError, no_remains: bool) -> CliError {
    let place = backend.path().display();
    let partitions = luks_partitions(backend);
    show_partitions(backend.path(), &partitions);
    if !partitions.is_empty() {
        return CliError::usage(format!(
            "{place}: this is a disk with partitions, and nothing was changed: name the partition instead, as \
             shown above"
        ));
    }
    if *error != HeaderError::NotLuks || !no_remains {
        return CliError::usage(format!(
            "{place}: nothing here can be repaired; nothing was changed: put a backup of the header back \
             with `scrim header-restore`; without one keep the image as it is, its key slots may be whole"
        ));
    }
    CliError::usage(format!(
        "{place}: there is no trace of a LUKS header, so nothing was changed: check the name; if this \
         is a LUKS volume all the same, put a backup of its header back with `scrim header-restore`"
    ))
}

/// Shows the partitions of a disk whose table a repair may overwrite, since the disk was a LUKS volume once. Refuses
/// such a disk in batch mode, where no user reads that.
fn refuse_disk(args: &RepairArgs, backend: &Storage) -> Result<(), CliError> {
    let partitions = luks_partitions(backend);
    show_partitions(backend.path(), &partitions);
    if partitions.is_empty() || !args.on.batch_mode {
        return Ok(());
    }
    Err(CliError::usage(format!(
        "{}: this is a disk with partitions, and a header in its first sectors would take the place of their \
         table; nothing was changed: name the partition, as shown above, or leave out --batch-mode to be asked",
        backend.path().display()
    )))
}

fn check_type(args: &RepairArgs, diagnosis: &Diagnosis) -> Result<(), CliError> {
    match diagnosis.header() {
        Some(found) => header::check_type(found, args.on.r#type, args.on.on.header_path()),
        None => Ok(()),
    }
}

fn confirm(args: &RepairArgs, diagnosis: &Diagnosis) -> Result<(), CliError> {
    let place = args.on.on.header_path().display();
    let what = match &diagnosis.condition {
        Condition::OneCopy(_) => "one copy of the header is rewritten from the other",
        _ => "the LUKS1 header is rewritten with the values that its fields must have had",
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
    };
    question.ask(args.on.batch_mode)
}
