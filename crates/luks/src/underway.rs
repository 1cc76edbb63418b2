//! Record in a header of an encryption in place that is not finished.

use serde_json::{Map, Value, json};

use crate::document::member;

/// The mandatory requirement (LUKS2 specification, section 3.6.1) of a volume that is not yet
/// ciphertext as a whole. cryptsetup, and every Scrim that does not know it, refuses such a volume by
/// this name.
pub(crate) const REQUIREMENT: &str = "scrim-encrypt-in-place";
/// The type of the token that tells how far it is.
pub(crate) const TOKEN: &str = REQUIREMENT;

/// An encryption in place that has begun and is not finished. All numbers are bytes on the device.
///
/// The data is moved from its end to its start: what lay at `offset` comes to lie as ciphertext at
/// the data segment's offset + `offset`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Underway {
    /// Length of the data, from the start of the device.
    pub length: u64,
    /// Offset of the saved copy of the data's start, which the header has overwritten.
    pub saved: u64,
    /// Offset below which the data is still as it was; from here on it is ciphertext.
    pub position: u64,
    /// True if the file was made longer for the encryption, and is to be cut behind the volume when it ends.
    pub grown: bool,
}

impl Underway {
    fn token(&self) -> Value {
        json!({
            "type": TOKEN,
            "keyslots": [],
            "length": self.length.to_string(),
            "saved": self.saved.to_string(),
            "position": self.position.to_string(),
            "grown": self.grown,
        })
    }

    pub(crate) fn of_token(token: &Value) -> Option<Self> {
        let number = |name| token.get(name)?.as_str()?.parse().ok();
        Some(Self {
            length: number("length")?,
            saved: number("saved")?,
            position: number("position")?,
            // Nothing is cut off unless the header says so.
            grown: token.get("grown").and_then(Value::as_bool) == Some(true),
        })
    }

    /// Writes it to a document.
    pub(crate) fn enter(&self, document: &mut Map<String, Value>) {
        let tokens = member(document, "tokens");
        let id = tokens.as_ref().and_then(|tokens| number_of(tokens));
        if let Some(tokens) = tokens {
            let free = (0..32).map(|id: u8| id.to_string());
            let id = id.or_else(|| free.into_iter().find(|id| !tokens.contains_key(id)));
            tokens.insert(id.unwrap_or_default(), self.token());
        }
        if let Some(config) = member(document, "config") {
            let requirements = json!({ "mandatory": [REQUIREMENT] });
            config.insert("requirements".to_owned(), requirements);
        }
    }

    /// Takes every trace of it out of a document.
    pub(crate) fn leave(document: &mut Map<String, Value>) {
        if let Some(tokens) = member(document, "tokens")
            && let Some(id) = number_of(tokens)
        {
            tokens.shift_remove(&id);
        }
        if let Some(config) = member(document, "config") {
            config.shift_remove("requirements");
        }
    }
}

/// The number of the token that tells how far it is.
fn number_of(tokens: &Map<String, Value>) -> Option<String> {
    let is_ours = |token: &Value| token.get("type").and_then(Value::as_str) == Some(TOKEN);
    let mut tokens = tokens.iter();
    tokens
        .find(|(_, token)| is_ours(token))
        .map(|(id, _)| id.clone())
}
