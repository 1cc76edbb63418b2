//! Changes of a header beside its keys: names, flags, priorities, tokens.

use std::error::Error;
use std::fmt;

use serde_json::Value;

use crate::error::Unsupported;
use crate::flag::Flag;
use crate::format::WriteError;
use crate::header::Header;
use crate::keyslot::Priority;
use crate::luks2::JsonFault;
use crate::plan::{Plan, Step};
use crate::random::RandomError;
use crate::uuid;

/// One change of a header. LUKS1 has only [`Edit::Uuid`].
#[derive(Debug, Clone)]
pub enum Edit {
    /// The UUID; `None` makes a random one.
    Uuid(Option<String>),
    /// The label, at most 47 bytes; empty for none.
    Label(String),
    /// The subsystem label, at most 47 bytes; empty for none.
    Subsystem(String),
    /// The persistent flags that are to be set, and no others, except those that Scrim does not
    /// know: they stay.
    Flags(Vec<Flag>),
    /// A new priority of a key slot.
    Priority {
        /// The key slot.
        slot: u8,
        /// Its new priority.
        priority: Priority,
    },
    /// A new token.
    AddToken {
        /// Its number; [`Header::free_token`] tells one.
        id: u8,
        /// Token made by [`Token::parse`](crate::Token::parse) or
        /// [`Token::keyring`](crate::Token::keyring).
        token: Value,
    },
    /// Another token in the place of one that is there.
    ReplaceToken {
        /// Its number.
        id: u8,
        /// As for [`Edit::AddToken`].
        token: Value,
    },
    /// Removes a token. The key slots that it names stay.
    RemoveToken {
        /// Its number.
        id: u8,
    },
    /// Adds a key slot, which the token's passphrase opens, to those that the token names.
    AssignToken {
        /// The token.
        id: u8,
        /// The key slot.
        slot: u8,
    },
    /// Removes a key slot from those that a token names.
    UnassignToken {
        /// The token.
        id: u8,
        /// The key slot.
        slot: u8,
    },
}

impl Header {
    /// Makes all of these changes, in this order, in one update of the header.
    ///
    /// The header changes at once, the disk when the plan is applied. A cut leaves all of them made
    /// or none; key slots are not touched. Members and tokens that Scrim does not know stay as they
    /// are.
    ///
    /// # Errors
    /// [`EditError`]; neither header nor disk has changed.
    pub fn edit(&mut self, edits: &[Edit]) -> Result<Plan, EditError> {
        self.check_editable()?;
        let steps = match self {
            Self::Luks1(header) => {
                let mut changed = header.clone();
                for edit in edits {
                    let Edit::Uuid(given) = edit else {
                        return Err(EditError::Luks1(edit.what()));
                    };
                    let uuid = uuid::given_or_random(given.as_deref(), EditError::Uuid)?;
                    changed.set_uuid(uuid);
                }
                let steps = vec![changed.write_step()?, Step::Sync];
                *header = changed;
                steps
            }
            Self::Luks2(header) => {
                let mut changed = header.clone();
                for edit in edits {
                    changed.edit(edit)?;
                }
                let steps = changed.update_steps()?;
                *header = changed;
                steps
            }
        };
        Ok(Plan::new(steps))
    }

    /// The first number that no token has; `None` when all 32 are taken, or in LUKS1.
    #[must_use]
    pub fn free_token(&self) -> Option<u8> {
        match self {
            Self::Luks1(_) => None,
            Self::Luks2(header) => header.free_token(),
        }
    }
}

impl Edit {
    /// Name of the part of a header that the edit changes.
    fn what(&self) -> &'static str {
        match self {
            Self::Uuid(_) => "UUID",
            Self::Label(_) => "label",
            Self::Subsystem(_) => "subsystem label",
            Self::Flags(_) => "persistent flags",
            Self::Priority { .. } => "key slot priorities",
            _ => "tokens",
        }
    }
}

/// Why a header stays as it is.
#[derive(Debug)]
pub enum EditError {
    /// LUKS1 does not have this part of a header.
    Luks1(&'static str),
    /// The text is not a UUID.
    Uuid(String),
    /// The key slot is not in use.
    UnusedKeyslot {
        /// The key slot.
        slot: u8,
    },
    /// There is no token of this number.
    NoSuchToken {
        /// The number.
        id: u8,
    },
    /// There is a token of this number already.
    TokenInUse {
        /// The number.
        id: u8,
    },
    /// No token may have this number.
    TokenNumber {
        /// The number.
        id: u8,
    },
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
