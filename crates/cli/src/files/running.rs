//! The plaintext of a volume that is open, from the process that serves it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use scrim_backend::{Access, Backend};
use scrim_foreign::Foreign;
use scrim_nbd::{Endpoint, Uri};
use scrim_volume::{CryptTable, DataPath, Volume};

use crate::args::VolumeName;
use crate::error::{CliError, Exit};
use crate::nbd::control::Client;
use crate::nbd::runtime::RuntimeDir;
use crate::storage::{Manner, Storage, is_named_part};

/// Addition to the error for a name that an open volume might have.
const NO_FILE: &str = "; no file has this name either";

/// Reads a name as that of an open volume; `None` where a file has that name, or no volume can have it.
pub(crate) fn named(image: &Path) -> Option<VolumeName> {
    let name = image.to_str()?;
    (!image.exists() && !is_named_part(image))
        .then(|| name.parse().ok())
        .flatten()
}

/// Refuses a volume whose file system, or plaintext as one file, its process has mounted for writing.
pub(crate) fn refuse_if_written(name: &VolumeName) -> Result<(), CliError> {
    let status = Client::connect(&RuntimeDir::locate(), name)?.status()?;
    let Some(mount) = status.mounts.iter().find(|mount| !mount.read_only) else {
        return Ok(());
    };
    Err(CliError::new(
        Exit::Busy,
        format!(
            "{}: it is mounted for writing on {}, so that what is read beside that may be wrong; take the files from \
             there, or unmount it first",
            name.as_str(),
            Foreign::new(mount.directory.as_os_str().as_encoded_bytes())
        ),
    ))
}

/// Adds to the error for a name that [`named`] has read, and that no open volume has, that it is no file's either.
pub(crate) fn or_file(error: CliError) -> CliError {
    match error.exit {
        Exit::Busy => error,
        _ => error.followed_by(NO_FILE),
    }
}

/// Opens the plaintext of an open volume, only to read it. It is refused while a mount writes to it.
pub(crate) fn open(name: &VolumeName) -> Result<Volume, CliError> {
    let runtime = RuntimeDir::locate();
    runtime.check_if_there()?;
    // It says whether it is open, and what to do about that.
    refuse_if_written(name).map_err(or_file)?;
    let socket = runtime.nbd_socket(name);
    if !socket.exists() {
        return Err(CliError::new(
            Exit::WrongDevice,
            format!(
                "{}: the volume is not served on a socket of its own here; close it, and name its image \
                 instead",
                name.as_str()
            ),
        ));
    }
    let uri = Uri {
        endpoint: Endpoint::Unix(socket),
        tls: None,
        export: String::new(),
    };
    let address = PathBuf::from(uri.to_string());
    let storage = Storage::open_for_volume(&address, Access::ReadOnly, Manner::default())?;
    let sectors = storage.info().size / 512;
    let table = CryptTable::parse(&format!("0 {sectors} linear volume 0"))?;
    let storage: Arc<dyn Backend> = Arc::new(storage);
    Ok(Volume::start(table, DataPath::Inline, |_| {
        Ok(Arc::clone(&storage))
    })?)
}
