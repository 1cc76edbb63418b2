//! Volumes of the kernel that forget their key and get it back, as by `cryptsetup luksSuspend` and `luksResume`.

use scrim_luks::VolumeKey;
use scrim_sys::device_mapper::{Pending, Which};
use scrim_sys::keyring::LogonKey;
use scrim_sys::memory::SecretBytes;

use super::key::{KeyQuestion, key_description};
use super::volume::KernelVolume;
use crate::error::CliError;

impl KernelVolume {
    /// Holds requests, after those that were made are carried out, and has dm-crypt destroy its key.
    pub(crate) fn forget_key(&self) -> Result<(), CliError> {
        let name = self.name.as_str();
        if !self.identity.r#type.starts_with("LUKS") {
            return Err(CliError::usage(format!(
                "{name} runs a table, and no header could give its key back; `scrim suspend` holds its requests and keeps \
                 the key"
            )));
        }
        if self.state.suspended {
            return Err(CliError::usage(format!("{name} is suspended already")));
        }
        self.suspend()?;
        self.message(b"key wipe").map_err(|error| {
            let _ = self.mapper.resume(&self.name, Pending::CarriedOut);
            self.failed("destroy the key", &error)
        })
    }

    /// Gives dm-crypt the key that a passphrase opens, and lets requests go on. Returns the key.
    pub(crate) fn recall_key(&self, question: &KeyQuestion<'_>) -> Result<VolumeKey, CliError> {
        if !self.state.suspended {
            let name = self.name.as_str();
            return Err(CliError::usage(format!("{name} is not suspended")));
        }
        let table = self.table(Which::Active)?;
        let crypt = table.crypt().ok_or_else(|| self.is_no_crypt())?;
        let key = self.unlock_again(&crypt, question, crypt.key_len())?;
        self.set_key(key.expose())
            .map_err(|error| self.failed("give the key back", &error))?;
        self.mapper.resume(&self.name, Pending::CarriedOut)?;
        Ok(key)
    }

    /// As at the opening of the volume, the key of LUKS2 is named in the keyring, where the kernel has one.
    fn set_key(&self, key: &[u8]) -> std::io::Result<()> {
        if self.identity.r#type == "LUKS2" {
            let description = key_description(&self.identity.uuid);
            if let Ok(_in_keyring) = LogonKey::add(&description, key) {
                let words = format!("key set :{}:logon:{description}", key.len());
                return self.message(words.as_bytes());
            }
        }
        self.message(set_by_digits(key).expose())
    }

    fn message(&self, words: &[u8]) -> std::io::Result<()> {
        self.mapper.control().message(self.name.as_str(), words)
    }

    /// Closes the volume once nobody uses it; returns whether it is in use.
    pub(crate) fn close_when_unused(&self) -> Result<bool, CliError> {
        let removed = self.mapper.remove(&self.name, true);
        removed.map_err(|error| self.failed("close the device", &error))?;
        self.mapper.has(&self.name)
    }

    /// Keeps the volume open after all.
    pub(crate) fn stay_open(&self) -> Result<(), CliError> {
        let cancelled = self.message(b"@cancel_deferred_remove");
        cancelled.map_err(|error| self.failed("keep the device open", &error))
    }
}

/// The message that sets a key, with the key in hexadecimal digits.
fn set_by_digits(key: &[u8]) -> SecretBytes {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    const WORDS: &[u8] = b"key set ";
    let mut message = SecretBytes::zeroed(WORDS.len() + 2 * key.len());
    let (words, digits) = message.expose_mut().split_at_mut(WORDS.len());
    words.copy_from_slice(WORDS);
    for (pair, byte) in digits.chunks_exact_mut(2).zip(key) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
    message
}

#[cfg(test)]
mod tests {
    use super::set_by_digits;

    #[test]
    fn a_key_is_set_by_its_digits() {
        assert_eq!(set_by_digits(&[0, 0x9a, 0xff]).expose(), b"key set 009aff");
    }
}
