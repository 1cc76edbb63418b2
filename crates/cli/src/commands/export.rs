//! `scrim export IMAGE RAW`: decrypts a volume into a raw image.

use std::path::Path;
use std::process::ExitCode;

use crate::args::ExportArgs;
use crate::cipher::self_tests::warn_of_failed_self_tests;
use crate::error::{CliError, Exit};
use crate::process::interruption::Interruption;
use crate::storage::{Storage, file_of, is_remote};
use crate::terminal::note;
use crate::transfer::{Kind, Partial, Record, Resumed, Side, Stamp, Target, Transfer};
use crate::volume::opening::{Opened, Wanted, from_luks};

pub(crate) fn run(args: &ExportArgs) -> Result<ExitCode, CliError> {
    if args.raw == Path::new("-") {
        return Err(CliError::usage(
            "standard output cannot be read again, to go on or to compare; give a file, or open \
             the volume and use nbdcopy",
        ));
    }
    if is_remote(&args.raw) {
        return Err(CliError::usage(format!(
            "{}: export makes a file; to copy to a server, open the volume and use nbdcopy",
            args.raw.display()
        )));
    }
    let whole = match is_remote(&args.image) {
        true => args.image.clone(),
        false => file_of(&args.image)?,
    };
    let partial = Partial::of(&args.raw, &whole, args.batch_mode)?;
    let stamp = Stamp::of(&whole)?;
    // This comes before the user is asked for a passphrase.
    let begun = if args.resume {
        match partial.resume(Kind::Export, stamp)? {
            Resumed::Unfinished(file, record) => Some((file, record)),
            Resumed::Finished => {
                note(format_args!("{}: finished before", args.raw.display()));
                return Ok(ExitCode::SUCCESS);
            }
        }
    } else {
        partial.check_unused(Kind::Export)?;
        None
    };
    let Opened { volume, origin, .. } = from_luks(&Wanted::to_read(&args.image, &args.luks))?;
    let uuid = origin.uuid;
    warn_of_failed_self_tests();
    let interruption = Interruption::listen()?;
    let (file, record) = if let Some(begun) = begun {
        begun
    } else {
        let record = Record::new(Kind::Export, stamp, &uuid);
        (partial.create(volume.size(), false, &record)?, record)
    };
    if record.uuid != uuid {
        return Err(CliError::new(
            Exit::WrongDevice,
            format!(
                "{} was begun from another volume; remove it and begin without --resume",
                partial.path().display()
            ),
        ));
    }
    let size = volume.size();
    let transfer = Transfer {
        from: Side::Volume(Box::new(volume)),
        source: &whole,
        to: Side::Raw(Storage::Local(file)),
        target: Target::File(partial),
        size,
        record,
        verify: !args.no_verify,
    };
    let code = transfer.run(&interruption)?;
    if !interruption.came() {
        let (raw, image) = (args.raw.display(), args.image.display());
        let compared = if args.no_verify { "" } else { " and compared" };
        note(format_args!(
            "{raw}: {size} bytes of {image} decrypted{compared}"
        ));
    }
    Ok(code)
}
