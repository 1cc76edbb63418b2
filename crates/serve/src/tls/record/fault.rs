//! Reasons for which a record is not sealed, or not opened.

use std::fmt;

use rustls::AlertDescription;

/// Reason for which a record was not sealed. Nothing of it may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SealFault {
    /// The payload is longer than [`PAYLOAD_MAX`](super::wire::PAYLOAD_MAX).
    TooLong,
    /// The memory for the record is shorter than payload and overhead.
    NoRoom,
    /// The key has sealed as much as is safe.
    Spent,
    /// The cipher refused, which it does not do with right lengths.
    Cipher,
}

impl fmt::Display for SealFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLong => "more than 16 KiB of plaintext for one record",
            Self::NoRoom => "no room for the record around its plaintext",
            Self::Spent => "the key has encrypted as much as is safe",
            Self::Cipher => "the cipher refused to encrypt",
        })
    }
}

impl std::error::Error for SealFault {}

/// Reason for which a record was refused. The connection ends, with [`OpenFault::alert`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenFault {
    /// The header's version is not one of TLS.
    Version,
    /// The record is of a kind that has no place after the handshake.
    Kind,
    /// The record is longer than records may be.
    TooLong,
    /// The record was changed on the way, or sealed with another key.
    Mac,
    /// The record has no content, not even a kind.
    Empty,
    /// The bytes are shorter than the header says. Callers wait for the rest instead.
    Cut,
    /// More records than can be counted.
    Spent,
}

impl OpenFault {
    /// Alert that tells the other side.
    #[must_use]
    pub fn alert(self) -> AlertDescription {
        match self {
            Self::Version => AlertDescription::ProtocolVersion,
            Self::Kind | Self::Empty => AlertDescription::UnexpectedMessage,
            Self::TooLong => AlertDescription::RecordOverflow,
            Self::Mac => AlertDescription::BadRecordMac,
            Self::Cut | Self::Spent => AlertDescription::InternalError,
        }
    }
}

impl fmt::Display for OpenFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Version => "a record has no version of TLS",
            Self::Kind => "a record of a kind that does not belong here",
            Self::TooLong => "a record is longer than TLS allows",
            Self::Mac => "a record was changed on the way, or sealed with another key",
            Self::Empty => "a record has no content",
            Self::Cut => "a record is not whole",
            Self::Spent => "more records came than can be counted",
        })
    }
}

impl std::error::Error for OpenFault {}
