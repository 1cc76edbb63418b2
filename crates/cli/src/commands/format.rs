//! `scrim format IMAGE`: creates a LUKS volume.

use std::path::{Path, PathBuf};

use scrim_backend::{Access, Backend, FileBackend};
use scrim_crypt::SectorSize;
use scrim_figures::Size;
use scrim_luks::{Formatted, Layout, Placement};
use scrim_volume::LuksDevice;

use crate::args::FormatArgs;
use crate::error::{CliError, Exit};
use crate::luks::new_volume::NewVolume;
use crate::process::daemon::defer_signals;
use crate::signature::{Contents, Survey};
use crate::storage::{Storage, is_named_part, is_remote, name_with};
use crate::terminal::confirm::Question;
use crate::terminal::note;

pub(crate) fn run(args: &FormatArgs) -> Result<(), CliError> {
    let new = NewVolume::asked_for(args)?;
    new.warn();
    let image = Place::find(&name_with(&args.image, args.window)?, args.size)?;
    let header = match &args.header {
        // A header file that does not exist is made, as large as it needs to be.
        Some(path)
            if !is_remote(path) && !is_named_part(path) && path.symlink_metadata().is_err() =>
        {
            Some(Place::find(path, Some(0))?)
        }
        Some(path) => Some(Place::find(path, None)?),
        None => None,
    };
    confirm(args, &image, header.as_ref(), new.version())?;
    let passphrase = new.ask()?;
    let key = new.key()?;
    let place = header.as_ref().unwrap_or(&image);
    let layout = Layout {
        placement: match header {
            Some(_) => Placement::Detached,
            None => Placement::Attached,
        },
        device_len: place.size_bytes,
        grows: header.is_some() && place.grows(),
        data_offset: new.data_offset,
    };
    let sector_size = new
        .sector_size
        .unwrap_or_else(|| image.sector_size(new.data_offset));
    let formatted = new.make(&place.path, layout, sector_size, &key, &passphrase.secret)?;
    write(&formatted, &image, header.as_ref())?;
    note(format_args!(
        "{}: LUKS{} volume {} created",
        args.image.display(),
        formatted.header.version(),
        formatted.header.uuid()
    ));
    Ok(())
}

/// A file or device that a header or its data goes to, or a file that is yet to be made.
struct Place {
    path: PathBuf,
    size_bytes: u64,
    /// `None` when the file does not exist yet.
    backend: Option<Storage>,
}

impl Place {
    fn find(path: &Path, size: Option<u64>) -> Result<Self, CliError> {
        let exists = is_remote(path) || is_named_part(path) || path.symlink_metadata().is_ok();
        let shown = path.display();
        match (exists, size) {
            (true, Some(_)) => Err(CliError::new(
                Exit::Busy,
                format!("{shown} exists already; leave --size out to overwrite what it holds"),
            )),
            (false, None) => Err(CliError::new(
                Exit::WrongDevice,
                format!("{shown} does not exist; say with --size how large to make it"),
            )),
            (false, Some(size_bytes)) => Ok(Self {
                path: path.to_owned(),
                size_bytes,
                backend: None,
            }),
            (true, None) => {
                let backend = Storage::open(path, Access::ReadWrite)?;
                backend.check_new_header()?;
                Ok(Self {
                    path: path.to_owned(),
                    size_bytes: backend.info().size,
                    backend: Some(backend),
                })
            }
        }
    }

    fn created(&self) -> bool {
        self.backend.is_none()
    }

    /// Returns whether it is made as long as it has to be.
    fn grows(&self) -> bool {
        self.backend.as_ref().is_none_or(Storage::is_whole_file)
    }

    fn contents(&self) -> Contents {
        self.backend
            .as_ref()
            .map_or(Contents::Blank, |backend| Survey::of(backend).contents)
    }

    /// The encryption sector where nobody asks for one: 4096 bytes, unless the device or the place of its data is no
    /// multiple of that.
    fn sector_size(&self, data_offset: Option<u64>) -> SectorSize {
        let offset = data_offset.unwrap_or_default();
        if self.size_bytes.is_multiple_of(4096) && offset.is_multiple_of(4096) {
            SectorSize::S4096
        } else {
            SectorSize::S512
        }
    }
}

/// Says what will be made or lost, and asks at a terminal.
fn confirm(
    args: &FormatArgs,
    image: &Place,
    header: Option<&Place>,
    version: u16,
) -> Result<(), CliError> {
    let device = header.unwrap_or(image);
    let path = device.path.display();
    if !device.created() {
        return confirm_overwriting(&device.path, device.contents(), args.batch_mode);
    }
    let warning = if header.is_some() {
        let image = image.path.display();
        format!("This creates {path} as the detached LUKS{version} header of {image}.")
    } else {
        format!(
            "This creates {path}, {}, as a LUKS{version} volume.",
            Size::of_bytes(device.size_bytes)
        )
    };
    let question = Question {
        warning: &warning,
        unanswered: None,
    };
    question.ask(args.batch_mode)
}

/// Says what will be lost in storage that exists, and asks at a terminal. Where nobody can answer, only what is blank is
/// overwritten without `--batch-mode`.
pub(super) fn confirm_overwriting(
    path: &Path,
    contents: Contents,
    batch_mode: bool,
) -> Result<(), CliError> {
    let path = path.display();
    let warning = format!("This will overwrite {path} irrevocably. It holds {contents}.");
    let unanswered = format!(
        "{path} holds {contents}, and nobody is at a terminal to confirm that it may be overwritten"
    );
    let question = Question {
        warning: &warning,
        unanswered: (contents != Contents::Blank).then_some(&unanswered),
    };
    question.ask(batch_mode)
}

/// Writes the header, whole: signals wait until it is done. What was made for it goes again when it
/// cannot be finished: half a volume is of no use to anybody.
fn write(formatted: &Formatted, image: &Place, header: Option<&Place>) -> Result<(), CliError> {
    defer_signals()?;
    let end = formatted.plan.end();
    let mut made = Vec::new();
    let written = match header {
        // The data's file comes first: without it no header is touched.
        Some(header) => image
            .create(image.size_bytes, &mut made)
            .and_then(|_| header.write(formatted, end, &mut made)),
        None => image.write(formatted, image.size_bytes.max(end), &mut made),
    };
    if written.is_err() {
        for path in made {
            let _ = std::fs::remove_file(path);
        }
    }
    written
}

impl Place {
    /// Makes the file if it does not exist; notes that it did.
    fn create(&self, size: u64, made: &mut Vec<PathBuf>) -> Result<Option<Storage>, CliError> {
        if self.backend.is_some() {
            return Ok(None);
        }
        let backend = FileBackend::create(&self.path, size)?;
        made.push(self.path.clone());
        Ok(Some(Storage::Local(backend)))
    }

    fn write(
        &self,
        formatted: &Formatted,
        size: u64,
        made: &mut Vec<PathBuf>,
    ) -> Result<(), CliError> {
        let created = self.create(size, made)?;
        if let Some(backend) = created.as_ref().or(self.backend.as_ref()) {
            backend.reserve(formatted.plan.end())?;
            backend.grow_to(formatted.plan.end())?;
            LuksDevice::write(&formatted.plan, backend)?;
        }
        Ok(())
    }
}
