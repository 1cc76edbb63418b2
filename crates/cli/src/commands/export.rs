//! `scrim export IMAGE RAW`: decrypts a volume into a raw image.

use std::path::Path;
use std::process::ExitCode;

use scrim_volume::{DataPath, OpenFlags};

use crate::args::ExportArgs;
use crate::cipher::self_tests::warn_of_failed_self_tests;
use crate::error::{CliError, Exit};
use crate::process::interruption::Interruption;
use crate::storage::{Manner, demand_local};
use crate::terminal::note;
use crate::transfer::{Kind, Partial, Record, Resumed, Side, Stamp, Transfer};
use crate::volume::opening::{Opened, Wanted, from_luks};

pub(crate) fn run(args: &ExportArgs) -> Result<ExitCode, CliError> {
    if args.raw == Path::new("-") {
        return Err(CliError::usage(
            "standard output cannot be read again, to go on or to compare; give a file, or open \
             the volume and use nbdcopy",
        ));
    }
    demand_local(&args.image, "export")?;
    demand_local(&args.raw, "export")?;
    let partial = Partial::of(&args.raw, &args.image, args.batch_mode)?;
    let stamp = Stamp::of(&args.image)?;
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
    let Opened { volume, origin, .. } = from_luks(&wanted(args))?;
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
    let transfer = Transfer {
        from: Side::Volume(Box::new(volume)),
        source: &args.image,
        to: Side::Raw(file),
        target: &args.raw,
        partial,
        record,
        verify: !args.no_verify,
    };
    transfer.run(&interruption)
}

fn wanted(args: &ExportArgs) -> Wanted<'_> {
    Wanted {
        image: &args.image,
        r#type: args.r#type,
        readonly: true,
        header: args.header.as_deref(),
        key_slot: args.key_slot,
        flags: OpenFlags::default(),
        persistent: false,
        tries: args.tries,
        key: &args.key,
        manner: Manner::default(),
        data_path: DataPath::Auto,
    }
}
