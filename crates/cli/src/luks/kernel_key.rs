//! Volume keys and passphrases in the kernel's keyrings.

use std::io;

use rustix::io::Errno;
use scrim_luks::VolumeKey;
use scrim_sys::keyring::Serial;
use scrim_sys::memory::SecretBytes;

use crate::args::{KernelKey, KeyLink, Keyring};
use crate::error::CliError;

/// Type of the keys that hold passphrases, as LUKS2's tokens of type `luks2-keyring` name them.
const PASSPHRASES: &str = "user";

/// The passphrase that a token names; `None` where no keyring in reach has such a key.
///
/// # Errors
/// A key that is there and cannot be read.
pub(super) fn passphrase(description: &str) -> io::Result<Option<SecretBytes>> {
    match Serial::find(PASSPHRASES, description) {
        Ok(key) => key.read().map(Some),
        Err(error) if is_missing(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns whether there is no such key, or no keyrings.
fn is_missing(error: &io::Error) -> bool {
    let missing = [Errno::NOKEY, Errno::NOSYS].map(Errno::raw_os_error);
    error
        .raw_os_error()
        .is_some_and(|code| missing.contains(&code))
}

impl KernelKey {
    /// Reads the volume key, of the length that was `asked` for in bytes.
    pub(super) fn volume_key(&self, asked: Option<usize>) -> Result<VolumeKey, CliError> {
        let key = match asked {
            Some(len) => self.exact(len)?,
            None => self.read()?,
        };
        Ok(VolumeKey::new(key))
    }

    /// Reads a key of `len` bytes.
    pub(crate) fn exact(&self, len: usize) -> Result<SecretBytes, CliError> {
        let key = self.read()?;
        if key.len() != len {
            let (has, asked) = (key.len() * 8, len * 8);
            return Err(CliError::usage(format!(
                "the key {self} has {has} bits, not {asked}"
            )));
        }
        Ok(key)
    }

    /// Refuses a key that the kernel would not find by its table: one that is in no keyring in reach, or whose name cannot
    /// be written there.
    pub(crate) fn demand(&self) -> Result<(), CliError> {
        let is_split = |letter: char| letter.is_whitespace() || letter == '\\';
        if self.description.contains(is_split) {
            return Err(CliError::usage(format!(
                "the kernel's tables cannot name the key {self}: add it by a name without spaces and backslashes"
            )));
        }
        let found = Serial::find(&self.kind, &self.description);
        found.map(drop).map_err(|error| {
            CliError::usage(format!(
                "the key {self} is in no keyring in reach: {error}; `keyctl show` lists the keys that are"
            ))
        })
    }

    /// Reads the content of the key.
    fn read(&self) -> Result<SecretBytes, CliError> {
        let found = Serial::find(&self.kind, &self.description);
        found.and_then(Serial::read).map_err(|error| {
            CliError::usage(format!(
                "the key {self} cannot be read from the kernel's keyrings: {error}; `keyctl show` lists the keys in reach"
            ))
        })
    }
}

/// A keyring that is to get a volume key.
pub(crate) struct KeyTaker {
    link: KeyLink,
    keyring: Serial,
}

/// A volume key that is due in a keyring once it is certain that the volume can be opened.
pub(crate) struct DueLink {
    taker: KeyTaker,
    key: VolumeKey,
}

impl KeyTaker {
    /// Finds the keyring that options name, if they do, so that a wrong one is refused before a passphrase is asked for.
    pub(crate) fn asked_for(link: Option<&KeyLink>) -> Result<Option<Self>, CliError> {
        link.map(Self::find).transpose()
    }

    fn find(link: &KeyLink) -> Result<Self, CliError> {
        let keyring = serial(&link.keyring)
            .and_then(|keyring| Ok((keyring, keyring.kind()?)))
            .map_err(|error| refused(link, format_args!("no such keyring: {error}")))?;
        match keyring {
            (keyring, kind) if kind == "keyring" => Ok(Self {
                link: link.clone(),
                keyring,
            }),
            (_, kind) => Err(refused(
                link,
                format_args!("not a keyring, but a key of type {kind}"),
            )),
        }
    }

    /// Puts the volume key into the keyring, in place of one of the same name.
    pub(crate) fn put(&self, key: &VolumeKey) -> Result<LinkedKey, CliError> {
        let KernelKey { kind, description } = &self.link.key;
        let added = self.keyring.add(kind, description, key.expose());
        let key = added.map_err(|error| {
            refused(
                &self.link,
                format_args!("the volume key cannot be put there: {error}"),
            )
        })?;
        Ok(LinkedKey {
            keyring: self.keyring,
            key,
            is_kept: false,
        })
    }

    /// Keeps a copy of `key` until it is due.
    pub(crate) fn later(self, key: &VolumeKey) -> DueLink {
        let key = VolumeKey::new(SecretBytes::copied_from(key.expose()));
        DueLink { taker: self, key }
    }
}

impl DueLink {
    pub(crate) fn put(self) -> Result<LinkedKey, CliError> {
        self.taker.put(&self.key)
    }
}

/// A volume key in a keyring, which is taken out again when this is dropped.
pub(crate) struct LinkedKey {
    keyring: Serial,
    key: Serial,
    is_kept: bool,
}

impl LinkedKey {
    /// Leaves the key there.
    pub(crate) fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for LinkedKey {
    fn drop(&mut self) {
        if !self.is_kept {
            self.keyring.unlink(self.key);
        }
    }
}

/// Puts a volume key into the keyring that is to get it, if there is one.
pub(crate) fn link(taker: Option<KeyTaker>, key: &VolumeKey) -> Result<(), CliError> {
    if let Some(taker) = taker {
        taker.put(key)?.keep();
    }
    Ok(())
}

fn serial(keyring: &Keyring) -> io::Result<Serial> {
    match keyring {
        Keyring::Session => Ok(Serial::SESSION),
        Keyring::User => Ok(Serial::USER),
        Keyring::UserSession => Ok(Serial::USER_SESSION),
        Keyring::Number(number) => {
            Serial::new(*number).ok_or_else(|| io::ErrorKind::NotFound.into())
        }
        Keyring::Named(name) => Serial::find_keyring(name),
    }
}

fn refused(link: &KeyLink, why: impl std::fmt::Display) -> CliError {
    CliError::usage(format!(
        "--link-vk-to-keyring {link}: {why}; `keyctl show` lists the keyrings in reach"
    ))
}
