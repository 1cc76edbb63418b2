//! Tokens: ways to get a passphrase, for other programs.

use scrim_foreign::Foreign;
use serde_json::{Value, json};

use crate::luks2::{self, JsonFault};

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
    /// Reads a token from the JSON text of an untrusted file: one object with a `type` and a list
    /// of `keyslots`, as that of a [`Token`] is; whatever else it has is kept.
    ///
    /// # Errors
    /// [`JsonFault`]: it is not such an object.
    pub fn parse(text: &[u8]) -> Result<Value, JsonFault> {
        luks2::parse_token(text)
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_file_is_one_bounded_object_with_type_and_keyslots() {
        let whole = br#"{"type":"own","keyslots":["0","31"],"later":[{"a":1.5}]}"#;
        let token = Token::parse(whole).unwrap();
        assert_eq!(token.to_string().as_bytes(), whole);
        assert_eq!(
            Token::parse(Token::keyring("x", &[3]).to_string().as_bytes()),
            Ok(Token::keyring("x", &[3]))
        );
        let deep = format!("{{\"a\":{}", "[".repeat(1 << 20));
        for bad in [
            "",
            "[]",
            "{}",
            r#"{"type":"own"}"#,
            r#"{"type":7,"keyslots":[]}"#,
            r#"{"type":"own","keyslots":["32"]}"#,
            r#"{"type":"own","keyslots":[0]}"#,
            r#"{"type":"own","keyslots":[],"type":"own"}"#,
            r#"{"type":"own","keyslots":[]} x"#,
            &deep,
        ] {
            let fault = Token::parse(bad.as_bytes()).unwrap_err();
            assert!(fault.to_string().len() < 120, "{fault}");
        }
    }
}
