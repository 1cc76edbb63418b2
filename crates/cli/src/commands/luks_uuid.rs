//! `scrim luksUUID IMAGE`: prints or changes the UUID.

use scrim_luks::Edit;

use crate::args::UuidArgs;
use crate::error::CliError;
use crate::luks::header::{check_type, read_header};
use crate::luks::header_change::HeaderChange;
use crate::terminal::confirm::Question;
use crate::terminal::{note, print};

pub(crate) fn run(args: &UuidArgs) -> Result<(), CliError> {
    let Some(uuid) = &args.uuid else {
        let (backend, luks) = read_header(&args.on.on)?;
        check_type(luks.header(), args.on.r#type, backend.path())?;
        return print(format!("{}\n", luks.header().uuid()).as_bytes());
    };
    let change = HeaderChange::begin(&args.on)?;
    let place = &change.place;
    let warning = format!(
        "This will change the UUID of {place} from {} to {uuid}. Configurations that name the old UUID \
         will not find the volume any more.",
        change.header().uuid()
    );
    let question = Question {
        warning: &warning,
        unanswered: None,
    };
    question.ask(args.on.batch_mode)?;
    change.edit(&[Edit::Uuid(Some(uuid.clone()))])?;
    note(format_args!("{place}: UUID changed to {uuid}"));
    Ok(())
}
