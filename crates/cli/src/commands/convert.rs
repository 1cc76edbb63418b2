//! `scrim convert IMAGE --type luks1|luks2`.

use scrim_backend::Backend;
use scrim_luks::{ConvertError, Header};

use crate::args::{ConvertArgs, LuksType};
use crate::error::CliError;
use crate::luks::header_change::HeaderChange;
use crate::terminal::confirm::Question;
use crate::terminal::note;

pub(crate) fn run(args: &ConvertArgs) -> Result<(), CliError> {
    let wanted = match args.r#type {
        LuksType::Luks1 => 1,
        LuksType::Luks2 => 2,
        LuksType::Luks => {
            return Err(CliError::usage(
                "name the version to convert to: --type luks1 or --type luks2",
            ));
        }
    };
    let change = HeaderChange::of(&args.on)?;
    let place = &change.place;
    let found = change.header().version();
    if found == wanted {
        return Err(CliError::from(ConvertError::Already(wanted)).within(place));
    }
    let warning = format!(
        "This will convert the header of {place} from LUKS{found} to LUKS{wanted}. Passphrases and data \
         stay as they are."
    );
    let question = Question {
        warning: &warning,
        unanswered: None,
    };
    question.ask(args.batch_mode)?;
    change.carry_out(|header, session| {
        let converted = match header {
            Header::Luks1(_) => {
                let len = usize::try_from(header.backup_len()).unwrap_or(usize::MAX);
                let bytes = session.bytes(len)?;
                header.convert_to_luks2(&bytes, change.backend.info().size)
            }
            Header::Luks2(_) => header.convert_to_luks1(),
        };
        let converted = converted?;
        *header = converted.header;
        Ok::<_, CliError>(((), converted.plan))
    })?;
    note(format_args!("{place}: converted to LUKS{wanted}"));
    Ok(())
}
