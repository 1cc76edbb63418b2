//! Errors of unlocking a volume key.

use std::error::Error;
use std::fmt;

use super::unsupported::Unsupported;
use crate::kdf::KdfError;

/// Why there is no volume key.
#[derive(Debug)]
pub enum UnlockError {
    /// The passphrase does not open this key slot.
    WrongPassphrase { slot: u8 },
    /// The key is not the volume key.
    WrongVolumeKey,
    /// No key slot is in use, or all ask to be ignored.
    NoKeyslot,
    /// The key slot is not in use.
    UnusedKeyslot { slot: u8 },
    /// The key slot holds some other key.
    UnboundKeyslot { slot: u8 },
    /// The key slot has no cipher, so that any passphrase would open it.
    NullCipher { slot: u8 },
    /// Too little key material: the header device is too short.
    Material {
        slot: u8,
        /// Bytes that it takes.
        need: u64,
        /// Bytes that were given.
        have: u64,
    },
    /// The key derivation refused its parameters or failed.
    Kdf { slot: u8, source: KdfError },
    /// The digest could not be computed.
    Digest(KdfError),
    /// The header asks for something that Scrim does not have.
    Unsupported(Unsupported),
}

impl UnlockError {
    /// Returns whether a guard has ended the search for a key: other key slots need not be tried.
    #[must_use]
    pub fn is_the_end(&self) -> bool {
        let (Self::Kdf { source, .. } | Self::Digest(source)) = self else {
            return false;
        };
        matches!(source, KdfError::TimeLimit { .. } | KdfError::Interrupted)
    }
}

impl From<Unsupported> for UnlockError {
    fn from(error: Unsupported) -> Self {
        Self::Unsupported(error)
    }
}

impl fmt::Display for UnlockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WrongPassphrase { slot } => write!(
                f,
                "the passphrase does not open key slot {slot}: try again, or name another slot"
            ),
            Self::WrongVolumeKey => {
                f.write_str("the key is not this volume's key: use the key of this header")
            }
            Self::NoKeyslot => f.write_str(
                "no key slot is left that a passphrase could open: name one that is ignored, or \
                 restore the header from a backup",
            ),
            Self::UnusedKeyslot { slot } => {
                write!(
                    f,
                    "key slot {slot} is not in use: name another one, or none"
                )
            }
            Self::UnboundKeyslot { slot } => write!(
                f,
                "key slot {slot} does not hold the volume key: name another one, or none"
            ),
            Self::NullCipher { slot } => write!(
                f,
                "key slot {slot} has no cipher and would open with any passphrase: it is refused; \
                 make a new volume and copy the data"
            ),
            Self::Material { slot, need, have } => write!(
                f,
                "key slot {slot} takes {need} bytes, but only {have} are there: the header device \
                 has been truncated, restore it from a backup"
            ),
            Self::Kdf { slot, source } => write!(f, "key slot {slot}: {source}"),
            Self::Digest(source) => write!(f, "the digest of the volume key: {source}"),
            Self::Unsupported(error) => error.fmt(f),
        }
    }
}

impl Error for UnlockError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Kdf { source, .. } | Self::Digest(source) => Some(source),
            Self::Unsupported(error) => Some(error),
            _ => None,
        }
    }
}
