//! Features of a sound header that Scrim does not have, or refuses.

use std::error::Error;
use std::fmt;

use scrim_crypt::CipherError;

use crate::underway;

/// Feature that a sound header asks for and that Scrim does not have, or refuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unsupported {
    /// A requirement that the header marks as mandatory.
    Requirement(String),
    /// No segment, or several.
    SegmentCount(usize),
    /// A segment of this type.
    SegmentType(String),
    /// A segment without exactly one digest.
    SegmentDigest(u8),
    /// Integrity protection of this type.
    Integrity(String),
    /// A sector of this size.
    SectorSize(u32),
    /// Key slots of one digest disagree about the length of its key.
    KeySizesDiffer {
        /// Length according to one key slot, in bytes.
        first: usize,
        /// Length according to another key slot, in bytes.
        other: usize,
    },
    /// A cipher that Scrim does not have, or cannot set up.
    Cipher(CipherError),
    /// A key that is too long or too short for its cipher.
    KeySize(CipherError),
    /// A cipher that no key slot may have.
    KeyslotCipher {
        /// The specification as stored.
        name: String,
    },
    /// A key slot of this type.
    KeyslotType {
        slot: u8,
        /// The type as stored.
        kind: String,
    },
    /// A key derivation function that Scrim does not have.
    Kdf {
        /// Its name as stored.
        name: String,
    },
    /// A hash that Scrim does not have.
    Hash {
        /// Its name as stored.
        name: String,
    },
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Requirement(name) if name == underway::REQUIREMENT => f.write_str(
                "its encryption in place is not finished: go on with scrim encrypt --in-place, then \
                 open it",
            ),
            Self::Requirement(name) if name.contains("reencrypt") => write!(
                f,
                "the volume is being reencrypted (requirement {name}): finish that with \
                 cryptsetup reencrypt --resume-only, then open it here"
            ),
            Self::Requirement(name) => write!(
                f,
                "the header requires {name}, which is not supported: open it with the program \
                 that set it"
            ),
            Self::SegmentCount(count) => write!(
                f,
                "the header has {count} segments, and only one that holds all data is supported: \
                 open it with cryptsetup"
            ),
            Self::SegmentType(kind) => write!(
                f,
                "the data segment is of type {kind}, and only crypt is supported: open it with \
                 cryptsetup"
            ),
            Self::SegmentDigest(id) => write!(
                f,
                "segment {id} has no digest, or several, to check its key with: restore the \
                 header from a backup"
            ),
            Self::Integrity(kind) => write!(
                f,
                "the volume has integrity protection ({kind}), which needs the kernel's \
                 dm-integrity: open it with cryptsetup"
            ),
            Self::SectorSize(size) => write!(
                f,
                "encryption sectors of {size} bytes are not supported: open it with cryptsetup"
            ),
            Self::KeySizesDiffer { first, other } => write!(
                f,
                "key slots hold volume keys of {first} and of {other} bytes: restore the header \
                 from a backup"
            ),
            Self::Kdf { name } => write!(
                f,
                "the key derivation {name} is not supported: open another key slot, or this one with a cryptsetup that \
                 has it"
            ),
            Self::Cipher(error) => error.fmt(f),
            Self::KeySize(error) => write!(
                f,
                "{error}: choose another size, or restore a damaged header from a backup"
            ),
            Self::KeyslotCipher { name } => write!(
                f,
                "cipher {name} may not protect a key slot: use another key slot, choose \
                 another cipher, or make a LUKS2 volume, whose key slots can have one of their own"
            ),
            Self::KeyslotType { slot, kind } => write!(
                f,
                "key slot {slot} is of type {kind}, which no passphrase opens: use another one"
            ),
            Self::Hash { name } => write!(
                f,
                "hash {name} is not supported: use a key slot with another hash, or open it with \
                 cryptsetup"
            ),
        }
    }
}

impl Error for Unsupported {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Cipher(error) | Self::KeySize(error) => Some(error),
            _ => None,
        }
    }
}
