//! `scrim encrypt --in-place IMAGE`.

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use scrim_backend::{Access, Backend};
use scrim_crypt::SectorSize;
use scrim_figures::Size;
use scrim_luks::{HeaderError, Layout, Placement};
use scrim_volume::{
    HeaderSession, InPlace, InPlaceError, LuksDevice, LuksError, Prepared, Room, undo, undo_in,
};

use super::import::check_raw;
use crate::args::{EncryptArgs, LuksType};
use crate::error::{CliError, Exit};
use crate::luks::new_volume::{NewVolume, refused};
use crate::luks::unlock::{Asking, unlock};
use crate::nbd::runtime::RuntimeDir;
use crate::process::interruption::Interruption;
use crate::signature::{Contents, Survey};
use crate::storage::{Manner, Storage, demand_whole, is_remote};
use crate::terminal::confirm::Question;
use crate::terminal::progress::Display;
use crate::terminal::{note, same_command, shell_word};

/// Offset of the data in a volume unless asked otherwise, in bytes.
const DATA_OFFSET: u64 = 16 << 20;
/// Number of times that a passphrase is asked for.
const TRIES: u32 = 3;

pub(crate) fn run(args: &EncryptArgs) -> Result<ExitCode, CliError> {
    let image = args.format.image.as_path();
    if args.format.r#type == LuksType::Luks1 {
        return Err(CliError::usage(
            "LUKS1 cannot say that an encryption is not finished; leave --type out",
        ));
    }
    demand_whole(image, "encrypt --in-place")?;
    let new = NewVolume::asked_for(&args.format)?;
    let _turn = is_remote(image).then(|| take_turn(image)).transpose()?;
    let backend = Arc::new(undone(image)?);
    let within = |error| in_place_error(error, image);
    let (begun, interruption) = match LuksDevice::read(&*backend) {
        Ok(luks) => match luks.once_encrypted().map_err(within)? {
            Some(encrypted) => go_on(args, &backend, luks, &encrypted)?,
            None => {
                let version = luks.header().version();
                let message = format!("{} is a LUKS{version} volume already", image.display());
                return Err(CliError::new(Exit::Busy, message));
            }
        },
        Err(LuksError::Header(HeaderError::NotLuks)) => begin(args, &new, &backend)?,
        Err(error) => return Err(CliError::from(error).within(image.display())),
    };
    finish(args, &backend, begun, &interruption)
}

/// Keeps a second run of this user away from storage that no lock of its server protects, until the result is dropped.
fn take_turn(image: &Path) -> Result<File, CliError> {
    let runtime = RuntimeDir::locate();
    runtime.ensure()?;
    let path = runtime.in_place_lock(image);
    let fail = |error: io::Error| CliError::io(format_args!("lock {}", path.display()), &error);
    let mut options = File::options();
    let options = options.create(true).truncate(false).write(true).mode(0o600);
    let file = options.open(&path).map_err(fail)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(Errno::WOULDBLOCK) => Err(CliError::new(
            Exit::Busy,
            format!(
                "{}: another run encrypts it; let that end first",
                image.display()
            ),
        )),
        Err(error) => Err(fail(error.into())),
    }
}

/// Opens the image, and puts it back into its state where an earlier run did not get beyond its
/// beginning.
fn undone(image: &Path) -> Result<Storage, CliError> {
    let backend = match is_remote(image) {
        true => Storage::open_to_write(image, Manner::default())?,
        false => Storage::open(image, Access::ReadWrite)?,
    };
    let undone = undo(&backend).map_err(|error| in_place_error(error, image))?;
    if let Some(original) = undone {
        cut(&backend, original)?;
        note(format_args!(
            "{}: an encryption that was interrupted at its start has been undone",
            image.display()
        ));
    }
    Ok(backend)
}

/// Checks everything, asks what there is to ask, and only then changes something.
fn begin(
    args: &EncryptArgs,
    new: &NewVolume<'_>,
    backend: &Arc<Storage>,
) -> Result<(InPlace, Interruption), CliError> {
    let image = args.format.image.as_path();
    check_raw(&**backend, image)?;
    backend.check_new_header()?;
    new.warn();
    let size = backend.info().size;
    let shift = new.data_offset.unwrap_or(DATA_OFFSET);
    let found = Survey::of(&**backend);
    let sector_size = new.sector_size_for(&**backend, image, &found);
    let room = room(args, backend, shift, sector_size)?;
    confirm(args, found.contents, room)?;
    let passphrase = new.ask()?.secret;
    let key = new.key()?;
    let device_len = room.device().unwrap_or(size).max(size);
    let layout = Layout {
        placement: Placement::Attached,
        device_len,
        grows: false,
        data_offset: Some(shift),
    };
    let spec = new.luks2_spec(layout, sector_size)?;
    let prepared = Prepared::new(room, &spec, key, &passphrase);
    let prepared = prepared.map_err(|error| refused(&error, image))?;
    let interruption = Interruption::listen()?;
    let begun = write_beginning(backend, room, prepared);
    let begun = begun.map_err(|error| error.within(image.display()))?;
    Ok((begun, interruption))
}

/// Makes a file longer and writes the header, all under one lock, so that nothing changes before the header is there
/// and everything can be put back if a step fails.
fn write_beginning(
    backend: &Arc<Storage>,
    room: Room,
    prepared: Prepared,
) -> Result<InPlace, CliError> {
    let session = HeaderSession::start(&**backend).map_err(CliError::from)?;
    if room.grows() {
        let (at, end) = room.end(&session)?;
        backend.reserve(at.saturating_add(end.len() as u64))?;
        if let Some(file) = backend.whole_file() {
            file.grow(at, &end)?;
        }
    }
    let begun = InPlace::begin(Arc::clone(backend) as Arc<dyn Backend>, &session, prepared);
    begun.map_err(|error| {
        // If the data cannot be put back now, the next run puts it back.
        // Where the header is whole there is nothing to put back, but to go on.
        if let Ok(Some(original)) = undo_in(&session) {
            let _ = cut(backend, original);
        }
        error.into()
    })
}

/// Cuts a file that was made longer; a device has its size already.
fn cut(backend: &Storage, len: u64) -> Result<(), CliError> {
    if let Some(file) = backend.whole_file() {
        return Ok(file.cut(len)?);
    }
    let is_remote = backend.server_state().is_some();
    if !is_remote || backend.measure()?.size <= len {
        return Ok(());
    }
    let shown = backend.path().display();
    Err(CliError::new(
        Exit::WrongDevice,
        format!(
            "{shown} is a file that this command has made longer, and a server does not make it shorter: give the same \
             command for the file itself"
        ),
    ))
}

/// Divides the device as it is to be meanwhile.
fn room(
    args: &EncryptArgs,
    backend: &Storage,
    shift: u64,
    sector_size: SectorSize,
) -> Result<Room, CliError> {
    let image = args.format.image.display();
    let (size, sector) = (backend.info().size, sector_size.bytes() as u64);
    let spare = Room::around(shift).ok_or_else(|| CliError::usage("--offset is too large"))?;
    match args.reduce_device_size {
        Some(reduce) => Room::in_device(size, reduce, shift, sector).ok_or_else(|| {
            CliError::usage(format!(
                "--reduce-device-size must leave data on {image}, and spare {spare} bytes at least: \
                 what the header takes, twice, and a record"
            ))
        }),
        None if backend.whole_file().is_some() => Room::in_file(size, shift, sector)
            .ok_or_else(|| CliError::usage(format!("{image} cannot be extended"))),
        None => Err(CliError::usage(format!(
            "{image} cannot be extended; make the file system on it {spare} bytes shorter, and \
             say so with --reduce-device-size"
        ))),
    }
}

fn confirm(args: &EncryptArgs, holds: Contents, room: Room) -> Result<(), CliError> {
    let shown = args.format.image.display();
    let size = Size::of_bytes(room.length);
    let warning = format!(
        "This encrypts {shown} where it lies: {holds}, {size}. Until that is finished nobody can \
         use it, and afterwards only who has the passphrase. A copy kept elsewhere protects against \
         failing storage."
    );
    let question = Question {
        warning: &warning,
        unanswered: Some(&format!(
            "{shown} holds {holds}, and nobody is at a terminal to confirm that it may be encrypted"
        )),
    };
    question.ask(args.format.batch_mode)
}

fn go_on(
    args: &EncryptArgs,
    backend: &Arc<Storage>,
    luks: LuksDevice,
    encrypted: &LuksDevice,
) -> Result<(InPlace, Interruption), CliError> {
    let shown = args.format.image.display().to_string();
    note(format_args!("{shown}: its encryption goes on"));
    let asking = Asking {
        question: &format!("Enter passphrase for {shown}: "),
        key: (args.format.key).source_or(args.format.positional_key.as_deref()),
        tries: TRIES,
    };
    let (unlocked, _) = unlock(encrypted, &**backend, &shown, None, &asking)?;
    let interruption = Interruption::listen()?;
    let begun = InPlace::resume(Arc::clone(backend) as Arc<dyn Backend>, luks, unlocked.key);
    let begun = begun.map_err(|error| in_place_error(error, &args.format.image))?;
    Ok((begun, interruption))
}

#[allow(clippy::cast_precision_loss, reason = "shown as a percentage")]
fn finish(
    args: &EncryptArgs,
    backend: &Storage,
    mut begun: InPlace,
    interruption: &Interruption,
) -> Result<ExitCode, CliError> {
    let shown = args.format.image.display();
    let next = format!("go on with `{}`", same_command(None));
    let failed = |error: InPlaceError| {
        let error = in_place_error(error, &args.format.image);
        CliError::new(error.exit, format!("{error}; {next}"))
    };
    let source = shown.to_string();
    let mut display = Display::new("encrypting", "stops it; the same command goes on");
    while begun.left() > 0 {
        if interruption.came() {
            drop(display);
            note(format_args!(
                "scrim: interrupted; {shown} keeps the part that is done: {next}"
            ));
            return Ok(interruption.exit_code());
        }
        display.moved(&source, begun.length() - begun.left(), begun.length());
        begun.advance().map_err(&failed)?;
    }
    drop(display);
    let uuid = begun.header().uuid().to_owned();
    let encrypted = begun.clean().map_err(&failed)?;
    if let Some(end) = encrypted.end() {
        cut(backend, end)?;
    }
    encrypted.finish().map_err(failed)?;
    note(format_args!("{shown}: LUKS2 volume {uuid} created"));
    Ok(ExitCode::SUCCESS)
}

/// An error of encrypting an image in place; the commands that its text gives name the image.
fn in_place_error(error: InPlaceError, image: &Path) -> CliError {
    let is_of_others = matches!(
        error,
        InPlaceError::Luks(_) | InPlaceError::Open(_) | InPlaceError::Volume(_)
    );
    let mut error = CliError::from(error);
    if let (false, Some(path)) = (is_of_others, image.to_str()) {
        let message = error.to_string().replace("IMAGE", &shell_word(path));
        error = CliError::new(error.exit, message);
    }
    error.within(image.display())
}
