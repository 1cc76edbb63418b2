//! Errors of editing a header.

use std::error::Error;
use std::fmt;

use super::json::JsonFault;
use super::unsupported::Unsupported;
use super::write::WriteError;
use crate::random::RandomError;

/// Why a header stays as it is.
#[derive(Debug)]
pub enum EditError {
    /// LUKS1 does not have this part of a header.
    Luks1(&'static str),
    /// The text is not a UUID.
    Uuid(String),
    /// The key slot is not in use.
    UnusedKeyslot { slot: u8 },
    /// There is no token of this number.
    NoSuchToken { id: u8 },
    /// There is a token of this number already.
    TokenInUse { id: u8 },
    /// No token may have this number.
    TokenNumber { id: u8 },
    /// The value given is not a token.
    Token(JsonFault),
    /// The header belongs to another program.
    Unsupported(Unsupported),
    /// The changed header cannot be written.
    Write(WriteError),
}

impl fmt::Display for EditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Luks1(what) => {
                write!(f, "a LUKS1 header has no {what}: convert it to LUKS2 first")
            }
            Self::Uuid(uuid) => write!(
                f,
                "{uuid:?} is no UUID: write it like 9bbcbbf9-cf9b-48eb-95a2-34484ec7a33b"
            ),
            Self::UnusedKeyslot { slot } => {
                write!(f, "key slot {slot} is not in use: name another one")
            }
            Self::NoSuchToken { id } => write!(f, "there is no token {id}: name another one"),
            Self::TokenInUse { id } => write!(
                f,
                "there is a token {id} already: choose another number, or replace it"
            ),
            Self::TokenNumber { id } => {
                write!(f, "no token can have number {id}: choose one from 0 to 31")
            }
            Self::Token(fault) => write!(f, "this is no LUKS2 token: {fault}; correct it"),
            Self::Unsupported(error) => error.fmt(f),
            Self::Write(error) => error.fmt(f),
        }
    }
}

impl Error for EditError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Token(fault) => Some(fault),
            Self::Unsupported(error) => Some(error),
            Self::Write(error) => Some(error),
            _ => None,
        }
    }
}

impl From<Unsupported> for EditError {
    fn from(error: Unsupported) -> Self {
        Self::Unsupported(error)
    }
}

impl From<WriteError> for EditError {
    fn from(error: WriteError) -> Self {
        Self::Write(error)
    }
}

impl From<RandomError> for EditError {
    fn from(error: RandomError) -> Self {
        Self::Write(error.into())
    }
}
