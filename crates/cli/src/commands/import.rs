//! `scrim import RAW IMAGE`.

use std::path::Path;
use std::process::ExitCode;

use scrim_backend::{Access, Backend, FileBackend};
use scrim_luks::Foreign;
use scrim_volume::{Volume, is_half_overwritten};

use crate::args::{FormatArgs, ImportArgs};
use crate::error::{CliError, Exit};
use crate::luks::header::{half_overwritten, read_luks};
use crate::luks::new_volume::NewVolume;
use crate::luks::unlock::{Asking, unlock};
use crate::process::interruption::Interruption;
use crate::signature::Survey;
use crate::storage::{demand_local, demand_whole};
use crate::terminal::note;
use crate::transfer::{Kind, Partial, Record, Resumed, Side, Stamp, Transfer};
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
    demand_local(&args.raw, "import")?;
    demand_local(&args.format.image, "import")?;
    for image in [&args.raw, &args.format.image] {
        demand_whole(image, "import")?;
    }
    let raw = open_raw(&args.raw)?;
    let image = &args.format.image;
    let partial = Partial::of(image, &args.raw, args.format.batch_mode)?;
    let stamp = Stamp::of(&args.raw)?;
    let interruption;
    let begun = if args.resume {
        let resumed = partial.resume(Kind::Import, stamp)?;
        let Resumed::Unfinished(backend, record) = resumed else {
            note(format_args!("{}: finished before", image.display()));
            return Ok(ExitCode::SUCCESS);
        };
        let begun = go_on(args, backend, record)?;
        interruption = Interruption::listen()?;
        begun
    } else {
        partial.check_unused(Kind::Import)?;
        let new = lay_out(&args.format, &raw)?;
        tell_of_filling(&args.raw, raw.info().size, new.data_size);
        interruption = Interruption::listen()?;
        begin(&partial, &new, stamp)?
    };
    let Begun {
        volume,
        record,
        version,
    } = begun;
    let uuid = Foreign::new(record.uuid.clone());
    let transfer = Transfer {
        from: Side::Raw(raw),
        source: &args.raw,
        to: Side::Volume(Box::new(volume)),
        target: image,
        partial,
        record,
        verify: !args.no_verify,
    };
    let code = transfer.run(&interruption)?;
    if !interruption.came() {
        let image = image.display();
        note(format_args!("{image}: LUKS{version} volume {uuid} created"));
    }
    Ok(code)
}

/// An open volume that still has its temporary name.
struct Begun {
    volume: Volume,
    record: Record,
    version: u16,
}

/// Opens the source for the whole import, and refuses one that is not a raw image.
fn open_raw(path: &Path) -> Result<FileBackend, CliError> {
    if path == Path::new("-") {
        return Err(CliError::usage(
            "standard input cannot be read twice, to go on or to compare; give a file or block \
             device, or format and open a volume and use nbdcopy",
        ));
    }
    let raw = FileBackend::open(path, Access::ReadOnly)?;
    check_raw(&raw)?;
    Ok(raw)
}

/// Refuses a file or device that is not a raw image.
pub(super) fn check_raw(raw: &FileBackend) -> Result<(), CliError> {
    let shown = raw.path().display();
    if raw.info().size == 0 {
        return Err(CliError::new(
            Exit::WrongDevice,
            format!("{shown} is empty; make an empty volume with `scrim format`"),
        ));
    }
    if is_half_overwritten(raw).map_err(|error| CliError::from(error).within(&shown))? {
        return Err(half_overwritten(raw.path()));
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

/// Lays out a volume that will hold all of `raw`, whatever size of image that takes.
fn lay_out(args: &FormatArgs, raw: &FileBackend) -> Result<NewImage, CliError> {
    let new = NewVolume::asked_for(args)?;
    new.warn();
    let sector_size = new.sector_size_for(raw, &Survey::of(raw));
    NewImage::lay_out(&new, args, ImageSize::OfData(raw.info().size), sector_size)
}

fn tell_of_filling(raw: &Path, size: u64, data_size: u64) {
    if size < data_size {
        let raw = raw.display();
        note(format_args!(
            "scrim: warning: {raw} ends within a sector; the volume has {} zeros more",
            data_size - size
        ));
    }
}

fn begin(partial: &Partial, new: &NewImage, stamp: Stamp) -> Result<Begun, CliError> {
    let record = Record::new(Kind::Import, stamp, new.formatted.header.uuid().raw());
    Ok(Begun {
        volume: new.create(partial, true, &record)?,
        record,
        version: new.formatted.header.version(),
    })
}

/// Opens the volume that an earlier run has begun.
fn go_on(args: &ImportArgs, backend: FileBackend, record: Record) -> Result<Begun, CliError> {
    let luks = read_luks(&backend, backend.path()).map_err(|error| {
        let step = "begin without --resume if nothing was done yet";
        CliError::new(Exit::WrongDevice, format!("{error}; {step}"))
    })?;
    if luks.header().uuid().raw() != record.uuid {
        return Err(CliError::new(
            Exit::WrongDevice,
            format!(
                "{} is not the volume that its record is of; remove both and begin without --resume",
                backend.path().display()
            ),
        ));
    }
    let shown = args.format.image.display().to_string();
    let asking = Asking {
        question: &format!("Enter passphrase for {shown}: "),
        key: (args.format.key).source_or(args.format.positional_key.as_deref()),
        tries: TRIES,
    };
    let (unlocked, _) = unlock(&luks, &backend, &shown, None, &asking)?;
    Ok(Begun {
        volume: start(backend, &luks, unlocked)?,
        record,
        version: luks.header().version(),
    })
}
