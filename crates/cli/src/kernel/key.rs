//! The key of a volume whose table names one in a keyring: the kernel looks for it whenever a table is loaded, and it went
//! with the process that opened the volume. So the passphrase is asked for again, as cryptsetup does.

use std::path::{Path, PathBuf};

use scrim_backend::Access;
use scrim_luks::VolumeKey;
use scrim_sys::keyring::LogonKey;

use super::table::{CryptArguments, KeyReference};
use super::volume::KernelVolume;
use crate::args::KernelKey;
use crate::error::{CliError, Exit};
use crate::luks::header::read_luks;
use crate::luks::key_source::KeySource;
use crate::luks::unlock::{Asking, OtherKeys};
use crate::storage::Storage;
use crate::storage::device_names::path_of;

/// Options for asking for the passphrase of a volume that is open.
pub(crate) struct KeyQuestion<'a> {
    /// The detached header, if any.
    pub(crate) header: Option<&'a Path>,
    pub(crate) key_slot: Option<u8>,
    pub(crate) tries: u32,
    pub(crate) key: KeySource<'a>,
    pub(crate) others: OtherKeys<'a>,
}

impl KernelVolume {
    /// Puts the key that a table names into this thread's keyring, until the value is dropped; `None` where the table has
    /// the key itself, or the keyring of the user has it.
    pub(super) fn key_for(
        &self,
        crypt: &CryptArguments<'_>,
        question: &KeyQuestion<'_>,
    ) -> Result<Option<LogonKey>, CliError> {
        let Some(reference) = KeyReference::parse(crypt.key) else {
            return Ok(None);
        };
        let KeyReference {
            size,
            r#type,
            description,
        } = reference;
        // Without a header, it is the user's key, which the kernel looks for.
        if self.identity.r#type == "PLAIN" || r#type != "logon" {
            let key = KernelKey {
                kind: r#type.to_owned(),
                description: description.to_owned(),
            };
            return key.demand().map(|()| None);
        }
        let key = self.unlock_again(crypt, question, size)?;
        let added = LogonKey::add(description, key.expose());
        added
            .map(Some)
            .map_err(|error| self.failed("put the key into the keyring", &error))
    }

    /// Asks for a passphrase that opens the volume key of `size` bytes, in the header that the volume was opened by.
    pub(super) fn unlock_again(
        &self,
        crypt: &CryptArguments<'_>,
        question: &KeyQuestion<'_>,
        size: usize,
    ) -> Result<VolumeKey, CliError> {
        let name = self.name.as_str();
        let path = match question.header {
            Some(header) => header.to_owned(),
            None => self.header_path(crypt),
        };
        let header = Storage::open_shared(&path, Access::ReadOnly)?;
        let luks = read_luks(&header, &path)?;
        let shown = path.display().to_string();
        if luks.header().uuid().raw() != self.identity.uuid {
            return Err(CliError::new(
                Exit::WrongDevice,
                format!(
                    "{shown}: this is not the header that {name} was opened by; name that with --header"
                ),
            ));
        }
        let asking = Asking {
            question: &format!("Enter passphrase for {shown}: "),
            key: question.key,
            tries: question.tries,
        };
        let key =
            question
                .others
                .find_or_ask(&luks, &header, &shown, question.key_slot, &asking)?;
        if key.len() != size {
            return Err(CliError::new(
                Exit::WrongDevice,
                format!("{shown}: the header's key has another size than that of {name}"),
            ));
        }
        Ok(key)
    }

    /// Device with the header, where that is not detached.
    pub(super) fn header_path(&self, crypt: &CryptArguments<'_>) -> PathBuf {
        path_of(crypt.device)
    }
}

/// Description of a volume's key, as cryptsetup makes it: that of the data's digest, which is the first.
pub(super) fn key_description(uuid: &str) -> String {
    format!("cryptsetup:{uuid}-d0")
}
