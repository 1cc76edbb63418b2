//! Volume keys and passphrases in the kernel's keyrings.

use std::io;

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
        // No such key, or no keyrings.
        Err(_) => Ok(None),
    }
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
                "the key {self} has {has} bits, not the {asked} of --key-size"
            )));
        }
        Ok(key)
    }

    /// Refuses a key that is in no keyring in reach, which the kernel would not find either.
    pub(crate) fn demand(&self) -> Result<(), CliError> {
        let found = Serial::find(&self.kind, &self.description);
        found.map(drop).map_err(|error| {
            CliError::usage(format!(
                "the key {self} is in no keyring in reach: {error}; `keyctl show` lists the keys that are"
            ))
        })
    }

    /// Reads the content of the key.
    fn read(&self) -> Result<SecretBytes, CliError> {
        let found = Serial::find(&self.kind, &self.description).or_else(|error| {
            let number = self.description.parse().ok();
            number.and_then(Serial::new).ok_or(error)
        });
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

/// A volume key that is due in a keyring once all else is done.
pub(crate) struct DueLink {
    taker: KeyTaker,
    key: VolumeKey,
}

impl KeyTaker {
    /// Finds the keyring, so that a wrong one is refused before a passphrase is asked for.
    pub(crate) fn find(link: &KeyLink) -> Result<Self, CliError> {
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
    pub(crate) fn put(&self, key: &VolumeKey) -> Result<(), CliError> {
        let KernelKey { kind, description } = &self.link.key;
        let added = self.keyring.add(kind, description, key.expose());
        added.map(drop).map_err(|error| {
            refused(
                &self.link,
                format_args!("the volume key cannot be put there: {error}"),
            )
        })
    }

    /// Keeps a copy of `key` until it is due.
    pub(crate) fn later(self, key: &VolumeKey) -> DueLink {
        let key = VolumeKey::new(SecretBytes::copied_from(key.expose()));
        DueLink { taker: self, key }
    }
}

impl DueLink {
    pub(crate) fn put(&self) -> Result<(), CliError> {
        self.taker.put(&self.key)
    }
}

fn serial(keyring: &Keyring) -> io::Result<Serial> {
    match keyring {
        Keyring::Thread => Ok(Serial::THREAD),
        Keyring::Process => Ok(Serial::PROCESS),
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
