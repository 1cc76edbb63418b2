//! What `open` and `test-passphrase` share: read the header, say what is amiss, ask, unlock.

use scrim_backend::{Access, Backend, FileBackend};
use scrim_luks::Header;
use scrim_volume::{LuksDevice, LuksError, Unlocked};

use crate::args::{HeaderOnlyArgs, KeyArgs, LuksType};
use crate::commands::note;
use crate::error::{CliError, Exit};
use crate::secret_input::{Source, existing_passphrase};

/// Reads the header of an image, or of the file that holds it detached; prints what is amiss.
pub(crate) fn read_header(on: &HeaderOnlyArgs) -> Result<(FileBackend, LuksDevice), CliError> {
    let backend = FileBackend::open_shared(on.header_path(), Access::ReadOnly)?;
    let luks = read_luks(&backend)?;
    Ok((backend, luks))
}

/// Reads the header on a backend; prints what is amiss.
pub(crate) fn read_luks(backend: &FileBackend) -> Result<LuksDevice, CliError> {
    let place = backend.path().display();
    let luks = LuksDevice::read(backend)
        .map_err(|error| CliError::from(error).within(format_args!("{place}")))?;
    for finding in luks.findings() {
        note(format_args!("scrim: warning: {place}: {finding}"));
    }
    Ok(luks)
}

/// Whether a header is of the version that was asked for.
pub(crate) fn is_of_type(header: &Header, wanted: LuksType) -> bool {
    match wanted {
        LuksType::Luks => true,
        LuksType::Luks1 => header.version() == 1,
        LuksType::Luks2 => header.version() == 2,
    }
}

/// Refuses a header of another version than was asked for.
pub(crate) fn check_type(
    luks: &LuksDevice,
    wanted: LuksType,
    header: &FileBackend,
) -> Result<(), CliError> {
    if is_of_type(luks.header(), wanted) {
        return Ok(());
    }
    Err(CliError::usage(format!(
        "{} has a LUKS{} header, not the type that --type asks for",
        header.path().display(),
        luks.header().version()
    )))
}

/// Asks for the passphrase as often as is allowed, and unlocks.
pub(crate) fn unlock(
    luks: &LuksDevice,
    backend: &dyn Backend,
    image: &str,
    slot: Option<u8>,
    key: &KeyArgs,
    tries: u32,
) -> Result<Unlocked, CliError> {
    // What no passphrase can open is said before one is asked for.
    luks.header()
        .keyslots_to_try(slot)
        .map_err(LuksError::from)?;
    luks.header().data_segment().map_err(LuksError::from)?;
    let mut left = tries.max(1);
    loop {
        let passphrase = existing_passphrase(key, &format!("Enter passphrase for {image}: "))?;
        left -= 1;
        match luks.unlock(backend, slot, &passphrase.secret) {
            Ok(unlocked) => return Ok(unlocked),
            Err(error @ LuksError::NoKey { .. }) => {
                let message = format!("{image}: {error}; {}", passphrase.hint());
                if passphrase.source != Source::Terminal || left == 0 {
                    return Err(CliError::new(Exit::NoKey, message));
                }
                note(format_args!("scrim: {message}"));
            }
            Err(error) => return Err(CliError::from(error).within(image)),
        }
    }
}
