//! Name and password of a request (RFC 7617).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use crate::http::Authorization;

/// Longest credentials that are checked, in bytes.
const BYTES_MAX: usize = 1024;

/// Name and password of a request; they are wiped and never shown.
pub(super) struct Credentials {
    bytes: Zeroizing<Vec<u8>>,
    /// Offset of the colon between the name and the password.
    colon: usize,
}

impl Credentials {
    /// Decodes name and password; `None` if they are not those of `Basic`.
    pub(super) fn decode(authorization: Authorization<'_>) -> Option<Self> {
        let (scheme, rest) = authorization.expose().split_at_checked("Basic ".len())?;
        if !scheme.eq_ignore_ascii_case(b"Basic ") {
            return None;
        }
        let encoded = rest.trim_ascii();
        if encoded.len() > BYTES_MAX.div_ceil(3) * 4 {
            return None;
        }
        // Decoding into a vector that grows would leave parts of the password behind.
        let mut bytes = Zeroizing::new(vec![0; encoded.len()]);
        let length = STANDARD.decode_slice(encoded, &mut bytes).ok()?;
        bytes.truncate(length);
        let colon = bytes.iter().position(|&byte| byte == b':')?;
        Some(Self { bytes, colon })
    }

    pub(super) fn name(&self) -> &[u8] {
        &self.bytes[..self.colon]
    }

    pub(super) fn password(&self) -> &[u8] {
        &self.bytes[self.colon + 1..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_and_a_password_are_read() {
        for (value, name, password) in [
            (
                "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==",
                "Aladdin",
                "open sesame",
            ),
            ("bASIC  dGVzdDoxMjPCow==", "test", "123£"),
            ("Basic YTpiOmM=", "a", "b:c"),
            ("Basic Og==", "", ""),
        ] {
            let authorization = Authorization::new(value.as_bytes());
            let read = Credentials::decode(authorization).expect(value);
            assert_eq!(read.name(), name.as_bytes());
            assert_eq!(read.password(), password.as_bytes());
            assert!(!format!("{authorization:?}").contains("QWxh"));
        }
    }

    #[test]
    fn other_values_are_no_credentials() {
        let long = format!("Basic {}", "QUFB".repeat(343));
        for value in [
            "",
            "Basic",
            "Basic ",
            "Bearer YTpi",
            "Basic YQ==",
            "Basic YTpi=",
            "Basic Y:b",
            &long,
        ] {
            assert!(
                Credentials::decode(Authorization::new(value.as_bytes())).is_none(),
                "{value}"
            );
        }
    }
}
