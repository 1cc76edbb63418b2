//! Changes of a header beside its keys: names, flags, priorities, tokens.

use serde_json::Value;

use crate::flag::Flag;
use crate::keyslot::Priority;

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
    Priority { slot: u8, priority: Priority },
    /// Adds a token with a number that is free.
    AddToken {
        /// Its number; [`Header::free_token`](crate::Header::free_token) tells one.
        id: u8,
        /// Token made by [`Token::parse`](crate::Token::parse) or
        /// [`Token::keyring`](crate::Token::keyring).
        token: Value,
    },
    /// Another token in the place of one that is there.
    ReplaceToken { id: u8, token: Value },
    /// Removes a token. The key slots that it names stay.
    RemoveToken { id: u8 },
    /// Adds a key slot, which the token's passphrase opens, to those that the token names.
    AssignToken { id: u8, slot: u8 },
    /// Removes a key slot from those that a token names.
    UnassignToken { id: u8, slot: u8 },
}

impl Edit {
    /// Name of the part of a header that the edit changes.
    pub(crate) fn what(&self) -> &'static str {
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
