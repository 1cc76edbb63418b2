//! Errors of making, changing and removing key slots.

use std::error::Error;
use std::fmt;

use super::unlock::UnlockError;
use super::unsupported::Unsupported;
use super::write::WriteError;
use crate::kdf::KdfError;
use crate::random::RandomError;

/// Why the key slots stay as they are.
#[derive(Debug)]
pub enum KeyslotError {
    /// There is no slot of this number.
    NoSuchSlot {
        slot: u8,
        /// Number of key slots.
        count: u8,
    },
    /// The slot is in use.
    InUse { slot: u8 },
    /// Every slot is in use.
    NoFreeSlot,
    /// The key slots area has no gap that is large enough.
    NoRoom {
        /// Bytes that the key slot takes.
        need: u64,
    },
    /// The slot could only be overwritten where it lies, which the caller did not allow.
    InPlaceOnly { slot: u8 },
    /// No other slot would hold the volume key, which the caller did not allow.
    LastKey {
        /// The last slots that hold it.
        slots: Vec<u8>,
    },
    /// The header has no digest of the slot's key to check it with.
    NoDigest { slot: u8 },
    /// Every digest is in use.
    NoFreeDigest,
    /// LUKS1 has no key slots for other keys.
    UnboundLuks1,
    /// LUKS1 has no Argon2.
    KdfLuks1,
    /// LUKS1 has one hash for the whole header.
    HashLuks1 {
        /// Name of that hash.
        hash: String,
    },
    /// LUKS1 has one cipher for the whole header.
    CipherLuks1,
    /// The key is the wrong one, or the header asks for something unsupported.
    Key(UnlockError),
    /// The key could not be sealed.
    Seal(SealError),
    /// The digest of an unbound key could not be computed.
    Digest(KdfError),
    /// The changed header cannot be written.
    Write(WriteError),
}

impl fmt::Display for KeyslotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchSlot { slot, count } => write!(
                f,
                "there is no key slot {slot}: choose one from 0 to {}",
                count.saturating_sub(1)
            ),
            Self::InUse { slot } => write!(f, "key slot {slot} is in use: choose another one"),
            Self::NoFreeSlot => f.write_str("every key slot is in use: remove one first"),
            Self::NoRoom { need } => write!(
                f,
                "the key slots area has no gap of {need} bytes: remove a key slot first"
            ),
            Self::InPlaceOnly { slot } => write!(
                f,
                "there is no room beside key slot {slot}, so that it would be overwritten in place \
                 and its key be lost if that is cut short: back up the header, then allow it, or \
                 remove another key slot first"
            ),
            Self::LastKey { slots } => write!(
                f,
                "no key would be left that opens the volume, and all its data would be lost with {}: \
                 add another key first, or confirm the loss",
                named(slots)
            ),
            Self::NoDigest { slot } => write!(
                f,
                "the header has no digest of the key in slot {slot}: the slot can only be removed"
            ),
            Self::NoFreeDigest => {
                f.write_str("every digest is in use: remove an unbound key slot first")
            }
            Self::UnboundLuks1 => f.write_str(
                "LUKS1 has no key slots for keys other than the volume key: convert the header to \
                 LUKS2 first",
            ),
            Self::KdfLuks1 => f.write_str("LUKS1 has no Argon2: choose pbkdf2"),
            Self::HashLuks1 { hash } => write!(
                f,
                "this LUKS1 header has hash {hash} in every key slot: choose that one"
            ),
            Self::CipherLuks1 => f.write_str(
                "a LUKS1 header has one cipher for data and key slots: choose no cipher for the \
                 key slot, or convert the header to LUKS2 first",
            ),
            Self::Key(error) => error.fmt(f),
            Self::Seal(error) => error.fmt(f),
            Self::Digest(error) => write!(f, "the digest of the unbound key: {error}"),
            Self::Write(error) => error.fmt(f),
        }
    }
}

impl Error for KeyslotError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Key(error) => Some(error),
            Self::Seal(error) => Some(error),
            Self::Digest(error) => Some(error),
            Self::Write(error) => Some(error),
            _ => None,
        }
    }
}

/// Key slots in a sentence: `key slot 3`, `key slots 1, 2`.
pub(crate) fn named(slots: &[u8]) -> String {
    let numbers: Vec<String> = slots.iter().map(u8::to_string).collect();
    let slots = if numbers.len() == 1 { "slot" } else { "slots" };
    format!("key {slots} {}", numbers.join(", "))
}

/// Why a key could not be sealed into a key slot.
#[derive(Debug)]
pub enum SealError {
    /// A cipher or hash that Scrim does not have.
    Unsupported(Unsupported),
    /// The key derivation failed.
    Kdf(KdfError),
    /// The operating system gave no random bytes.
    Random(RandomError),
}

impl fmt::Display for SealError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported(error) => error.fmt(f),
            Self::Kdf(error) => error.fmt(f),
            Self::Random(error) => error.fmt(f),
        }
    }
}

impl Error for SealError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Unsupported(error) => Some(error),
            Self::Kdf(error) => Some(error),
            Self::Random(error) => Some(error),
        }
    }
}

impl From<UnlockError> for KeyslotError {
    fn from(error: UnlockError) -> Self {
        Self::Key(error)
    }
}

impl From<Unsupported> for KeyslotError {
    fn from(error: Unsupported) -> Self {
        Self::Key(error.into())
    }
}

impl From<SealError> for KeyslotError {
    fn from(error: SealError) -> Self {
        Self::Seal(error)
    }
}

impl From<WriteError> for KeyslotError {
    fn from(error: WriteError) -> Self {
        Self::Write(error)
    }
}

impl From<Unsupported> for SealError {
    fn from(error: Unsupported) -> Self {
        Self::Unsupported(error)
    }
}

impl From<RandomError> for SealError {
    fn from(error: RandomError) -> Self {
        Self::Random(error)
    }
}
