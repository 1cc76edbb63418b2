//! Why a header is refused or cannot be used.

use std::error::Error;
use std::fmt;

use scrim_crypt::CipherError;

use crate::diagnosis::Signature;
use crate::finding::HeaderCopy;
use crate::luks1;
use crate::luks2::JsonFault;
use crate::underway;

/// Why no header could be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeaderError {
    /// There is no LUKS header.
    NotLuks,
    /// A LUKS header, but of a version that is neither 1 nor 2.
    Version(u16),
    /// A LUKS1 header that cannot be trusted.
    Luks1(luks1::Fault),
    /// A LUKS2 header of which neither copy can be trusted.
    Luks2 {
        /// Fault of the primary.
        primary: CopyFault,
        /// Fault of the secondary, if there is one where the primary says.
        secondary: Option<CopyFault>,
    },
    /// The header device ends before the header's key slots area does.
    DeviceTooSmall {
        /// Bytes that the header and its key slots area take.
        need: u64,
        /// Bytes that there are.
        have: u64,
    },
    /// One copy of a LUKS2 header is whole, and the other is not; other signatures on the device tell that it
    /// may be in use for something else.
    Overwritten {
        /// The copy that is not whole.
        copy: HeaderCopy,
        /// Signature of the other use.
        by: Signature,
    },
}

/// Why one copy of a LUKS2 header cannot be trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyFault {
    /// The device ends before the copy does.
    Truncated {
        /// Bytes from the start of the device that it needs.
        need: u64,
        /// Bytes that there are.
        have: u64,
    },
    /// Its magic is not there.
    Magic,
    /// Its version is not 2.
    Version(u16),
    /// Its size is not one of the nine that LUKS2 has.
    Size(u64),
    /// It says that it lies elsewhere.
    Offset {
        /// Offset that it states, in bytes.
        says: u64,
        /// Offset where it lies, in bytes.
        lies: u64,
    },
    /// A text field does not hold text.
    Text(&'static str),
    /// Its checksum is of a kind that Scrim does not have.
    ChecksumAlgorithm(String),
    /// Its checksum does not match.
    Checksum,
    /// Its JSON metadata is not what LUKS2 allows.
    Json(Box<JsonFault>),
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const RESTORE: &str = "restore the header from a backup";
        match self {
            Self::NotLuks => {
                f.write_str("no LUKS header was found: check the name, or name the detached header")
            }
            Self::Version(version) => write!(
                f,
                "the LUKS header has version {version}, and only 1 and 2 are known: {RESTORE} if \
                 it is damaged"
            ),
            Self::Luks1(fault) => write!(f, "the LUKS1 header is damaged: {fault}; {RESTORE}"),
            Self::Luks2 {
                primary,
                secondary: Some(secondary),
            } if primary == secondary => write!(
                f,
                "both LUKS2 headers are damaged: each {primary}; {RESTORE}"
            ),
            Self::Luks2 {
                primary,
                secondary: Some(secondary),
            } => write!(
                f,
                "both LUKS2 headers are damaged: the primary {primary}, the secondary \
                 {secondary}; {RESTORE}"
            ),
            Self::Luks2 {
                primary,
                secondary: None,
            } => write!(
                f,
                "the LUKS2 header is damaged and has no second copy: it {primary}; {RESTORE}"
            ),
            Self::DeviceTooSmall { need, have } => write!(
                f,
                "the device is too small: the header and its key slots take {need} bytes, and it has \
                 {have}: if it was cut short, make it as long as it was; or name the detached header"
            ),
            Self::Overwritten { copy, by } => write!(
                f,
                "the {copy} header is damaged and the other copy is whole, but the device also has the \
                 signature of {by}: if it is to be the LUKS volume again, use `scrim repair`"
            ),
        }
    }
}

impl Error for HeaderError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Luks1(fault) => Some(fault),
            Self::Luks2 { primary, .. } => Some(primary),
            Self::NotLuks
            | Self::Version(_)
            | Self::DeviceTooSmall { .. }
            | Self::Overwritten { .. } => None,
        }
    }
}

impl From<luks1::Fault> for HeaderError {
    fn from(fault: luks1::Fault) -> Self {
        Self::Luks1(fault)
    }
}

impl fmt::Display for CopyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { need, have } => {
                write!(f, "needs {need} bytes of the device, which has {have}")
            }
            Self::Magic => f.write_str("has lost its magic"),
            Self::Version(version) => write!(f, "has version {version}"),
            Self::Size(size) => write!(f, "has an impossible size of {size} bytes"),
            Self::Offset { says, lies } => {
                write!(f, "lies at byte {lies}, but says it belongs at {says}")
            }
            Self::Text(field) => write!(f, "has a {field} that is no text"),
            Self::ChecksumAlgorithm(name) => {
                write!(f, "has a checksum of the unknown kind {name:?}")
            }
            Self::Checksum => f.write_str("fails its checksum"),
            Self::Json(fault) => write!(f, "holds metadata that LUKS2 forbids, {fault}"),
        }
    }
}

impl Error for CopyFault {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Json(fault) => Some(&**fault),
            _ => None,
        }
    }
}

impl From<JsonFault> for CopyFault {
    fn from(fault: JsonFault) -> Self {
        Self::Json(Box::new(fault))
    }
}

/// Feature that a sound header asks for and that Scrim does not have, or refuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unsupported {
    /// A mandatory requirement.
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
        /// Its number.
        slot: u8,
        /// The type as stored.
        kind: String,
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
