//! `scrim import RAW IMAGE`: encrypts a raw image into a new volume.

use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use scrim_backend::{Access, Backend};
use scrim_luks::Foreign;
use scrim_volume::{Volume, is_half_overwritten};

use super::format::confirm_overwriting;
use crate::args::ImportArgs;
use crate::error::{CliError, Exit};
use crate::luks::header::{half_overwritten, read_luks};
use crate::luks::new_volume::NewVolume;
use crate::luks::unlock::{Asking, unlock};
use crate::process::interruption::Interruption;
use crate::signature::Survey;
use crate::storage::{Manner, Storage, file_of, is_named_part, is_remote};
use crate::terminal::note;
use crate::transfer::{Kind, Partial, Record, Resumed, Side, Stamp, Target, Transfer};
use crate::volume::new_image::{ImageSize, NewImage, start};

/// Formats that hold a disk's contents in an order of their own: name, offset of the signature, the signature, and the
/// format's name in `qemu-img`.
const NOT_RAW: [(&str, usize, &[u8], &str); 5] = [
    ("qcow2", 0, b"QFI\xfb", "qcow2"),
    ("QED", 0, b"QED\0", "qed"),
    ("VMDK", 0, b"KDMV", "vmdk"),
    ("VHDX", 0, b"vhdxfile", "vhdx"),
    ("VDI", 64, b"\x7f\x10\xda\xbe", "vdi"),
];
/// Number of times that a passphrase is asked for.
const TRIES: u32 = 3;

pub(crate) fn run(args: &ImportArgs) -> Result<ExitCode, CliError> {
    let raw = open_raw(&args.raw)?;
    let image = &args.format.image;
    let begun = if is_existing_storage(image) {
        Some(begin_in_storage(args, &raw)?)
    } else {
        begin_in_file(args, &raw)?
    };
    let Some(begun) = begun else {
        note(format_args!("{}: finished before", image.display()));
        return Ok(ExitCode::SUCCESS);
    };
    let interruption = begun.interruption;
    let (version, uuid) = (begun.version, Foreign::new(begun.record.uuid.clone()));
    let transfer = Transfer {
        from: Side::Raw(raw),
        source: &args.raw,
        size: begun.data_size,
        to: Side::Volume(Box::new(begun.volume)),
        target: begun.target,
        record: begun.record,
        verify: !args.no_verify,
    };
    let code = transfer.run(&interruption)?;
    if !interruption.came() {
        let image = image.display();
        note(format_args!("{image}: LUKS{version} volume {uuid} created"));
    }
    Ok(code)
}

/// An open volume that is not complete.
struct Begun {
    volume: Volume,
    /// Number of bytes of data that make it complete.
    data_size: u64,
    target: Target,
    record: Record,
    version: u16,
    interruption: Interruption,
}

/// Returns whether a name means storage that exists and takes a volume in its place, and not a file to be made.
fn is_existing_storage(image: &Path) -> bool {
    let is_device = |image: &Path| {
        let found = image.metadata();
        found.is_ok_and(|found| found.file_type().is_block_device())
    };
    is_remote(image) || is_named_part(image) || is_device(image)
}

/// Opens the source for the whole import, and refuses one that is not a raw image.
fn open_raw(path: &Path) -> Result<Storage, CliError> {
    if path == Path::new("-") {
        return Err(CliError::usage(
            "standard input cannot be read twice, to go on or to compare; give a file or block \
             device, or format and open a volume and use nbdcopy",
        ));
    }
    let raw = Storage::open_for_volume(path, Access::ReadOnly, Manner::default())?;
    check_raw(&raw, path)?;
    Ok(raw)
}

/// Refuses a file or device that is not a raw image.
pub(super) fn check_raw(raw: &dyn Backend, path: &Path) -> Result<(), CliError> {
    let shown = path.display();
    if raw.info().size == 0 {
        return Err(CliError::new(
            Exit::WrongDevice,
            format!("{shown} is empty; make an empty volume with `scrim format`"),
        ));
    }
    if is_half_overwritten(raw).map_err(|error| CliError::from(error).within(&shown))? {
        return Err(half_overwritten(path));
    }
    let mut start = [0; 512];
    let len = usize::try_from(raw.info().size).map_or(start.len(), |len| len.min(start.len()));
    raw.read_at(0, &mut start[..len])?;
    let format = NOT_RAW
        .iter()
        .find(|(_, at, magic, _)| start[*at..].starts_with(magic));
    match format {
        None => Ok(()),
        Some((name, _, _, option)) => Err(CliError::new(
            Exit::WrongDevice,
            format!(
                "{shown} is a {name} image, not a raw one; convert it first: qemu-img convert -f \
                 {option} -O raw {shown} raw.img"
            ),
        )),
    }
}

/// Begins or goes on with an import into a new file; `None` if it was finished before.
fn begin_in_file(args: &ImportArgs, raw: &Storage) -> Result<Option<Begun>, CliError> {
    let source = match is_remote(&args.raw) {
        true => args.raw.clone(),
        false => file_of(&args.raw)?,
    };
    let partial = Partial::of(&args.format.image, &source, args.format.batch_mode)?;
    let stamp = Stamp::of(&args.raw)?;
    if args.resume {
        return match partial.resume(Kind::Import, stamp)? {
            Resumed::Finished => Ok(None),
            Resumed::Unfinished(file, record) => {
                go_on(args, partial, Storage::Local(file), record).map(Some)
            }
        };
    }
    partial.check_unused(Kind::Import)?;
    let new = lay_out(&NewVolume::asked_for(&args.format)?, args, raw)?;
    let interruption = Interruption::listen()?;
    let record = record_of(&new, stamp);
    Ok(Some(Begun {
        volume: new.create(&partial, true, &record)?,
        data_size: new.data_size,
        target: Target::File(partial),
        record,
        version: new.formatted.header.version(),
        interruption,
    }))
}

/// Begins an import into storage that exists.
fn begin_in_storage(args: &ImportArgs, raw: &Storage) -> Result<Begun, CliError> {
    let image = &args.format.image;
    let shown = image.display();
    if args.resume {
        return Err(CliError::usage(format!(
            "{shown}: only an import into a new file can be resumed; begin again without --resume"
        )));
    }
    if args.raw == *image {
        return Err(CliError::usage(format!(
            "{shown} would be both read and written; give another target, or encrypt a file or device in \
             place: scrim encrypt --in-place"
        )));
    }
    let new = NewVolume::asked_for(&args.format)?;
    let storage = Storage::open_to_write(image, Manner::default())?;
    if storage.info().size <= raw.info().size {
        return Err(CliError::new(
            Exit::WrongDevice,
            format!(
                "{shown} has {} bytes; the data alone takes {}",
                storage.info().size,
                raw.info().size
            ),
        ));
    }
    confirm_overwriting(image, Survey::of(&storage).contents, args.format.batch_mode)?;
    let new = lay_out(&new, args, raw)?;
    let interruption = Interruption::listen()?;
    let record = record_of(&new, Stamp::of(&args.raw)?);
    let (data_size, version) = (new.data_size, new.formatted.header.version());
    let (volume, existing) = new.create_in(storage)?;
    Ok(Begun {
        volume,
        data_size,
        target: Target::Existing(existing),
        record,
        version,
        interruption,
    })
}

/// Lays out a volume that will hold all of `raw`, whatever size of image that takes.
fn lay_out(new: &NewVolume, args: &ImportArgs, raw: &Storage) -> Result<NewImage, CliError> {
    new.warn();
    let sector_size = new.sector_size_for(raw, raw.path(), &Survey::of(raw));
    let size = raw.info().size;
    let new = NewImage::lay_out(new, &args.format, ImageSize::OfData(size), sector_size)?;
    if size < new.data_size {
        let raw = args.raw.display();
        note(format_args!(
            "scrim: warning: {raw} ends within a sector; the volume has {} zeros more",
            new.data_size - size
        ));
    }
    Ok(new)
}

fn record_of(new: &NewImage, stamp: Stamp) -> Record {
    Record::new(Kind::Import, stamp, new.formatted.header.uuid().raw())
}

/// Opens the volume that an earlier run has begun.
fn go_on(
    args: &ImportArgs,
    partial: Partial,
    storage: Storage,
    record: Record,
) -> Result<Begun, CliError> {
    let luks = read_luks(&storage, storage.path()).map_err(|error| {
        let step = "begin without --resume if nothing was done yet";
        CliError::new(Exit::WrongDevice, format!("{error}; {step}"))
    })?;
    if luks.header().uuid().raw() != record.uuid {
        return Err(CliError::new(
            Exit::WrongDevice,
            format!(
                "{} is not the volume that its record is of; remove both and begin without --resume",
                storage.path().display()
            ),
        ));
    }
    let shown = args.format.image.display().to_string();
    let asking = Asking {
        question: &format!("Enter passphrase for {shown}: "),
        key: (args.format.key).source_or(args.format.positional_key.as_deref()),
        tries: TRIES,
    };
    let (unlocked, _) = unlock(&luks, &storage, &shown, None, &asking)?;
    let volume = start(Arc::new(storage), &luks, unlocked)?;
    Ok(Begun {
        data_size: volume.size(),
        volume,
        target: Target::File(partial),
        record,
        version: luks.header().version(),
        interruption: Interruption::listen()?,
    })
}
