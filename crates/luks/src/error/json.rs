//! Faults of the JSON metadata, and their places.

use std::fmt;
use std::ops::RangeInclusive;

/// A fault in the JSON metadata of a LUKS2 header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonFault {
    /// The member at fault, such as `keyslots.0.area.offset`; empty for the text as a whole.
    pub path: String,
    pub problem: Problem,
}

impl JsonFault {
    pub(crate) fn whole(problem: Problem) -> Self {
        Self {
            path: String::new(),
            problem,
        }
    }
}

/// Kinds of faults of a member of the JSON metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// No NUL ends the text.
    Unterminated,
    /// The text is not one JSON object.
    NotAnObject,
    /// Something other than NULs follows the text.
    TrailingBytes,
    /// The text nests too deep.
    TooDeep { limit: usize },
    /// The text holds too many values.
    TooManyValues { limit: usize },
    /// An object names this key twice.
    RepeatedKey(String),
    /// The text is not JSON.
    Syntax {
        /// Line, the first of which is 1.
        line: usize,
        /// Column, the first of which is 1.
        column: usize,
    },
    /// The member is not there.
    Missing,
    /// The member has another type or spelling.
    Expected(&'static str),
    /// The number of decoded bytes is out of range.
    Length {
        /// Number of decoded bytes.
        len: usize,
        /// Numbers of bytes that are allowed.
        allowed: RangeInclusive<usize>,
    },
    /// The number is out of range.
    OutOfRange {
        /// Value in the header.
        value: u64,
        /// Values that are allowed.
        allowed: RangeInclusive<u64>,
    },
    /// The number differs from what the binary header says.
    Mismatch {
        /// Value in the JSON metadata.
        value: u64,
        /// Value that the binary header demands.
        expected: u64,
    },
    /// More entries than there may be.
    TooMany { limit: usize },
    /// It names an object that does not exist.
    Dangling {
        /// Name of the missing object, such as `keyslots.7`.
        to: String,
    },
    /// Something that may occur once occurs here and there.
    Twice {
        /// The other place, such as `digests.0`.
        other: String,
    },
    /// Two areas or segments share bytes.
    Overlaps {
        /// The other one, such as `keyslots.3`.
        other: String,
    },
    /// An area leaves the part of the header that is meant for it.
    Outside {
        /// First and last+1 byte of what is at fault.
        range: (u64, u64),
        /// First and last+1 byte of where it has to be.
        bounds: (u64, u64),
    },
    /// The area is too small for the key and its stripes.
    AreaTooSmall {
        /// Bytes that are needed.
        need: u64,
    },
    /// A type or algorithm that the specification does not have.
    Unknown(String),
}

impl fmt::Display for JsonFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            write!(f, "the JSON area {}", self.problem)
        } else {
            write!(f, "{} {}", self.path, self.problem)
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unterminated => f.write_str("is not ended by a NUL"),
            Self::NotAnObject => f.write_str("does not hold one object"),
            Self::TrailingBytes => f.write_str("holds bytes behind its end"),
            Self::TooDeep { limit } => write!(f, "nests deeper than {limit} levels"),
            Self::TooManyValues { limit } => write!(f, "holds more than {limit} values"),
            Self::RepeatedKey(key) => write!(f, "names {key} twice in one object"),
            Self::Syntax { line, column } => {
                write!(f, "is no valid JSON at line {line}, column {column}")
            }
            Self::Missing => f.write_str("is missing"),
            Self::Expected(what) => write!(f, "is not {what}"),
            Self::Length { len, allowed } => write!(
                f,
                "has {len} bytes, outside {} to {}",
                allowed.start(),
                allowed.end()
            ),
            Self::OutOfRange { value, allowed } => write!(
                f,
                "is {value}, outside {} to {}",
                allowed.start(),
                allowed.end()
            ),
            Self::Mismatch { value, expected } => write!(f, "is {value}, but must be {expected}"),
            Self::TooMany { limit } => write!(f, "has more than {limit} entries"),
            Self::Dangling { to } => write!(f, "names {to}, which does not exist"),
            Self::Twice { other } => write!(f, "repeats what {other} has"),
            Self::Overlaps { other } => write!(f, "overlaps {other}"),
            Self::Outside { range, bounds } => write!(
                f,
                "covers bytes {} to {}, outside {} to {}",
                range.0, range.1, bounds.0, bounds.1
            ),
            Self::AreaTooSmall { need } => write!(f, "is smaller than the {need} bytes of its key"),
            Self::Unknown(what) => write!(f, "is {what:?}, which LUKS2 does not have"),
        }
    }
}

impl std::error::Error for JsonFault {}
