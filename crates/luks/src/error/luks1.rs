//! Faults of a LUKS1 header.

use std::fmt;

/// Why a LUKS1 header cannot be trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The device ends before the header does.
    Truncated {
        /// Bytes that it takes.
        need: usize,
        /// Bytes that there are.
        have: usize,
    },
    /// A text field is not a word that ends with a NUL.
    Text(&'static str),
    /// An impossible key length, in bytes.
    KeyBytes(u32),
    /// The digest has no iterations.
    DigestIterations,
    /// A key slot is marked neither as in use nor as free.
    Marker {
        slot: u8,
        /// The marker as stored.
        marker: u32,
    },
    /// A key slot in use has no iterations.
    Iterations { slot: u8 },
    /// A key slot has another number of stripes than 4000.
    Stripes {
        slot: u8,
        /// The number as stored.
        stripes: u32,
    },
    /// A key slot area starts inside the header.
    InsideHeader { slot: u8 },
    /// A key slot area reaches into the data.
    InsidePayload { slot: u8 },
    /// A key slot area lies further from the start than any header reaches.
    TooFar { slot: u8 },
    /// Two key slot areas share bytes.
    Overlap { slot: u8, other: u8 },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { need, have } => {
                write!(f, "it takes {need} bytes, and the device has {have}")
            }
            Self::Text(field) => write!(f, "its {field} is no printable word"),
            Self::KeyBytes(bytes) => write!(f, "its key cannot have {bytes} bytes"),
            Self::DigestIterations => f.write_str("the digest of its key has no iterations"),
            Self::Marker { slot, marker } => {
                write!(f, "key slot {slot} has the unknown marker {marker:#010x}")
            }
            Self::Iterations { slot } => write!(f, "key slot {slot} has no iterations"),
            Self::Stripes { slot, stripes } => {
                write!(f, "key slot {slot} has {stripes} stripes instead of 4000")
            }
            Self::InsideHeader { slot } => {
                write!(f, "the area of key slot {slot} starts inside the header")
            }
            Self::InsidePayload { slot } => {
                write!(f, "the area of key slot {slot} reaches into the data")
            }
            Self::TooFar { slot } => {
                write!(
                    f,
                    "the area of key slot {slot} lies where no header reaches"
                )
            }
            Self::Overlap { slot, other } => {
                write!(f, "the areas of key slots {slot} and {other} overlap")
            }
        }
    }
}

impl std::error::Error for Fault {}
