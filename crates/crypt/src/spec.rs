//! Cipher specifications in dm-crypt's spelling.

use std::fmt;
use std::str::FromStr;

use crate::CipherError;
use crate::error::alternatives;

/// A parsed cipher specification, `cipher-mode-iv`, such as `aes-xts-plain64`. `Display` prints it
/// as dm-crypt spells it.
///
/// | part | is one of |
/// |---|---|
/// | cipher | `aes` |
/// | mode | `xts` |
/// | IV | `null`, `plain`, `plain64`, `plain64be` |
///
/// The names are dm-crypt's and as exact as there: lower case, no spaces. The key size is not part
/// of a specification; the key's length decides it ([`CipherSpec::key_sizes`]).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CipherSpec {
    pub(crate) algorithm: Algorithm,
    pub(crate) iv: IvMode,
}

impl CipherSpec {
    /// From the two strings of a LUKS1 header (on-disk format 1.2.3, "cipher-name" and
    /// "cipher-mode"): `("aes", "xts-plain64")`.
    ///
    /// # Errors
    /// As for parsing the specification `cipher-mode`.
    pub fn from_luks(cipher: &str, mode: &str) -> Result<Self, CipherError> {
        format!("{cipher}-{mode}").parse()
    }

    /// The lengths that the whole volume key may have, in bytes, the shortest first. For XTS that
    /// is both keys together: 32 for AES-128, 64 for AES-256.
    #[must_use]
    pub fn key_sizes(&self) -> &'static [usize] {
        self.algorithm.key_sizes()
    }

    /// `aes`.
    #[must_use]
    pub fn cipher(&self) -> &'static str {
        self.algorithm.cipher()
    }

    /// `xts`.
    #[must_use]
    pub fn mode(&self) -> &'static str {
        self.algorithm.mode()
    }

    /// `null`, `plain`, `plain64` or `plain64be`.
    #[must_use]
    pub fn iv(&self) -> &'static str {
        self.iv.name()
    }
}

impl fmt::Display for CipherSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.cipher(), self.mode(), self.iv())
    }
}

impl FromStr for CipherSpec {
    type Err = CipherError;

    fn from_str(spec: &str) -> Result<Self, CipherError> {
        let unsupported =
            |part, name, supported| CipherError::unsupported(spec, part, name, supported);
        let ciphers = || Algorithm::ALL.iter().map(|a| a.cipher());
        if spec.starts_with("capi:") {
            return Err(unsupported("cipher", spec, alternatives(ciphers())));
        }
        let mut parts = spec.splitn(3, '-');
        let (Some(cipher), Some(mode), Some(iv)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err(CipherError::malformed(spec));
        };
        if !ciphers().any(|known| known == cipher) {
            return Err(unsupported("cipher", cipher, alternatives(ciphers())));
        }
        let of_cipher = Algorithm::ALL.iter().filter(|a| a.cipher() == cipher);
        let Some(&algorithm) = of_cipher.clone().find(|a| a.mode() == mode) else {
            let modes = alternatives(of_cipher.map(|a| a.mode()));
            return Err(unsupported("mode", mode, modes));
        };
        let Some(&iv) = IvMode::ALL.iter().find(|known| known.name() == iv) else {
            let ivs = alternatives(IvMode::ALL.iter().map(|known| known.name()));
            return Err(unsupported("IV", iv, ivs));
        };
        Ok(Self { algorithm, iv })
    }
}

/// A cipher in a mode of operation: what a kernel implements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Algorithm {
    /// IEEE Std 1619, with dm-crypt's IV as the tweak.
    AesXts,
}

impl Algorithm {
    pub(crate) const ALL: &[Self] = &[Self::AesXts];

    fn cipher(self) -> &'static str {
        match self {
            Self::AesXts => "aes",
        }
    }

    fn mode(self) -> &'static str {
        match self {
            Self::AesXts => "xts",
        }
    }

    /// As `/proc/crypto` names it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::AesXts => "xts(aes)",
        }
    }

    pub(crate) fn key_sizes(self) -> &'static [usize] {
        match self {
            Self::AesXts => &[32, 64],
        }
    }
}

/// How an IV is made from a sector's number; [`crate::iv`] has the arithmetic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum IvMode {
    Null,
    Plain,
    Plain64,
    Plain64be,
}

impl IvMode {
    pub(crate) const ALL: &[Self] = &[Self::Null, Self::Plain, Self::Plain64, Self::Plain64be];

    fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Plain => "plain",
            Self::Plain64 => "plain64",
            Self::Plain64be => "plain64be",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_specification_prints_as_it_was_read() {
        for iv in ["null", "plain", "plain64", "plain64be"] {
            let text = format!("aes-xts-{iv}");
            let spec: CipherSpec = text.parse().unwrap();
            assert_eq!(spec.to_string(), text);
            assert_eq!((spec.cipher(), spec.mode(), spec.iv()), ("aes", "xts", iv));
            assert_eq!(spec.key_sizes(), [32, 64]);
            assert_eq!(CipherSpec::from_luks("aes", &format!("xts-{iv}")), Ok(spec));
        }
    }

    #[test]
    fn what_is_not_supported_is_named_with_what_is() {
        for (spec, message) in [
            (
                "aes-xts-plain99",
                r#"the IV "plain99" in the cipher specification "aes-xts-plain99" is not supported; supported: null, plain, plain64 or plain64be"#,
            ),
            (
                "aes-xts-essiv:sha256",
                r#"the IV "essiv:sha256" in the cipher specification "aes-xts-essiv:sha256" is not supported; supported: null, plain, plain64 or plain64be"#,
            ),
            (
                "aes-cbc-plain64",
                r#"the mode "cbc" in the cipher specification "aes-cbc-plain64" is not supported; supported: xts"#,
            ),
            (
                "serpent-xts-plain64",
                r#"the cipher "serpent" in the cipher specification "serpent-xts-plain64" is not supported; supported: aes"#,
            ),
            (
                "aes:2-xts-plain64",
                r#"the cipher "aes:2" in the cipher specification "aes:2-xts-plain64" is not supported; supported: aes"#,
            ),
            (
                "capi:xts(aes)-plain64",
                r#"the cipher "capi:xts(aes)-plain64" in the cipher specification "capi:xts(aes)-plain64" is not supported; supported: aes"#,
            ),
            (
                "AES-xts-plain64",
                r#"the cipher "AES" in the cipher specification "AES-xts-plain64" is not supported; supported: aes"#,
            ),
            (
                "aes",
                r#"the cipher specification "aes" is not of the form cipher-mode-iv; write it like aes-xts-plain64"#,
            ),
            (
                "aes-plain",
                r#"the cipher specification "aes-plain" is not of the form cipher-mode-iv; write it like aes-xts-plain64"#,
            ),
            (
                "",
                r#"the cipher specification "" is not of the form cipher-mode-iv; write it like aes-xts-plain64"#,
            ),
        ] {
            let error = spec.parse::<CipherSpec>().unwrap_err();
            assert_eq!(error.to_string(), message);
        }
        assert!(CipherSpec::from_luks("", "").is_err());
        assert!("aes-xts-plain64 ".parse::<CipherSpec>().is_err());
    }

    #[test]
    fn hostile_text_is_cut_short_and_escaped() {
        let spec = format!("\u{1b}[2J{}-xts-plain64", "é".repeat(1 << 20));
        let message = spec.parse::<CipherSpec>().unwrap_err().to_string();
        assert!(message.len() < 500, "{}", message.len());
        assert!(!message.contains('\u{1b}'));
    }
}
