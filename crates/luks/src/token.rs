//! Tokens: ways to get a passphrase, for other programs.

use scrim_foreign::Foreign;
use serde_json::{Value, json};

/// A token (LUKS2 specification, section 3.5): a way to get a passphrase, for other programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// Its number, 0 to 31.
    pub id: u8,
    /// Its type, such as `luks2-keyring` or `systemd-tpm2`.
    pub kind: Foreign<String>,
    /// The key slots that its passphrase opens.
    pub keyslots: Vec<u8>,
    /// The token as stored.
    pub json: Foreign<Value>,
}

impl Token {
    /// A token of type `luks2-keyring`: the passphrase is in the kernel's keyring, in a key of type
    /// `user` with this description.
    #[must_use]
    pub fn keyring(description: &str, keyslots: &[u8]) -> Value {
        let keyslots: Vec<String> = keyslots.iter().map(u8::to_string).collect();
        json!({
            "type": "luks2-keyring",
            "keyslots": keyslots,
            "key_description": description,
        })
    }
}
