//! Errors of reading a header.

use std::error::Error;
use std::fmt;

use super::json::JsonFault;
use super::luks1::Fault;
use crate::header_copy::HeaderCopy;
use crate::signature::Signature;

/// Why no header could be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeaderError {
    /// There is no LUKS header.
    NotLuks,
    /// A LUKS header, but of a version that is neither 1 nor 2.
    Version(u16),
    /// A LUKS1 header that cannot be trusted.
    Luks1(Fault),
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

impl From<Fault> for HeaderError {
    fn from(fault: Fault) -> Self {
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
