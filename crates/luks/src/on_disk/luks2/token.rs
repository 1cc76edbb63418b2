//! Tokens from untrusted files.

use serde_json::Value;

use super::metadata;
use super::text;
use crate::error::JsonFault;
use crate::token::Token;

impl Token {
    /// Reads a token from the JSON text of an untrusted file: one object with a `type` and a list
    /// of `keyslots`, as that of a [`Token`] is; whatever else it has is kept.
    ///
    /// # Errors
    /// [`JsonFault`]: it is not such an object.
    pub fn parse(text: &[u8]) -> Result<Value, JsonFault> {
        let token = Value::Object(text::parse_text(text)?);
        metadata::check_token(&token)?;
        metadata::check_new_token(&token)?;
        Ok(token)
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
