//! Combinations of a cipher, a key size and a way to mount.

use std::fmt;

use scrim_crypt::{CipherSpec, chosen};
use scrim_foreign::Foreign;
use serde::{Deserialize, Serialize};

use crate::ciphers::MODES;

/// A cipher with a key size, mounted in one way; or plain data, mounted the same way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Combination {
    /// Cipher of the volume; `None` for plain data.
    pub cipher: Option<Cipher>,
    pub path: MountPath,
}

/// A cipher specification with the size of the volume key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cipher {
    /// Specification in dm-crypt's notation.
    pub spec: String,
    /// Size of the whole volume key in bits.
    pub key_bits: usize,
}

/// Way from a file in the mounted file system to the storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MountPath {
    /// Scrim's mount, which encrypts on the thread of the request.
    Inline,
    /// Scrim's mount through queues, as in dm-crypt.
    Queued,
    /// The kernel alone: a loop device, and dm-crypt where there is a cipher.
    Kernel,
}

/// Ciphers in the order of the page: key sizes of the 2009 report first, then other ciphers that cryptsetup offers.
/// A cipher that this build of Scrim does not know is left out.
const LISTED: [(&str, usize, Listed); 16] = [
    ("aes-xts-plain64", 512, Listed::Usual),
    ("aes-xts-plain64", 256, Listed::Usual),
    ("aes-cbc-essiv:sha256", 256, Listed::Usual),
    ("aes-lrw-benbi", 384, Listed::Usual),
    ("aes-ecb", 256, Listed::Usual),
    ("serpent-xts-plain64", 512, Listed::Usual),
    ("twofish-cbc-essiv:sha256", 256, Listed::Usual),
    ("twofish-lrw-benbi", 384, Listed::Usual),
    ("twofish-xts-plain64", 512, Listed::Usual),
    ("camellia-xts-plain64", 512, Listed::Usual),
    ("xchacha12,aes-adiantum-plain64", 256, Listed::Usual),
    ("xchacha20,aes-adiantum-plain64", 256, Listed::Further),
    ("serpent-cbc-essiv:sha256", 256, Listed::Further),
    ("serpent-lrw-benbi", 384, Listed::Further),
    ("camellia-cbc-essiv:sha256", 256, Listed::Further),
    ("camellia-lrw-benbi", 384, Listed::Further),
];

#[derive(Clone, Copy, PartialEq)]
enum Listed {
    /// It is measured by default.
    Usual,
    /// It is measured with `--all` only.
    Further,
}

impl Cipher {
    /// Parses `SPEC:KEYSIZE`, the size in bits; without a size the cipher has its usual one.
    ///
    /// # Errors
    /// With a sentence that says what is wrong and what fits.
    pub fn parse(text: &str) -> Result<Self, String> {
        let sized = text
            .rsplit_once(':')
            .and_then(|(spec, bits)| Some((spec, bits.parse::<usize>().ok()?)));
        let (name, bits) = match sized {
            Some((spec, bits)) => (spec, Some(bits)),
            None => (text, None),
        };
        let spec: CipherSpec = name.parse().map_err(|error| format!("{error}"))?;
        let key_bits = bits.unwrap_or(spec.default_key_size() * 8);
        let cipher = Self {
            spec: spec.to_string(),
            key_bits,
        };
        if cipher.is_known() {
            return Ok(cipher);
        }
        let sizes = spec.key_sizes().iter();
        let sizes: Vec<String> = sizes.map(|bytes| (bytes * 8).to_string()).collect();
        Err(format!(
            "a key of {key_bits} bits does not fit {spec}; give {name}:BITS with one of {}",
            sizes.join(", ")
        ))
    }

    /// Ciphers that are measured by default.
    #[must_use]
    pub fn usual() -> Vec<Self> {
        listed(|listed| listed == Listed::Usual)
    }

    /// Every listed cipher and every mode of AES, each with every key size.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let mut all = listed(|_| true);
        let names: Vec<String> = all.iter().map(|cipher| cipher.spec.clone()).collect();
        for name in names.iter().map(String::as_str).chain(MODES) {
            let sizes = name.parse::<CipherSpec>().map(|spec| spec.key_sizes());
            for bytes in sizes.unwrap_or_default() {
                let cipher = Self {
                    spec: name.to_owned(),
                    key_bits: bytes * 8,
                };
                if cipher.is_known() && !all.contains(&cipher) {
                    all.push(cipher);
                }
            }
        }
        all
    }

    /// Reason why nobody should use the cipher for new volumes.
    #[must_use]
    pub fn weakness(&self) -> Option<&'static str> {
        self.spec.parse::<CipherSpec>().ok()?.weakness()
    }

    /// Checks that the parser of arguments makes the same cipher of its text.
    pub(super) fn check(&self) -> Result<(), String> {
        let Self { spec, key_bits } = self;
        let shown = Foreign::new(spec);
        match Self::parse(&format!("{spec}:{key_bits}")) {
            Ok(parsed) if parsed == *self => Ok(()),
            Ok(_) => Err(format!("the cipher {shown} is not in its usual notation")),
            Err(error) => Err(format!("the cipher {shown}: {error}")),
        }
    }

    /// Returns whether Scrim has the cipher with this key size, and code for it that runs here.
    fn is_known(&self) -> bool {
        let Ok(spec) = self.spec.parse::<CipherSpec>() else {
            return false;
        };
        let fits =
            self.key_bits.is_multiple_of(8) && spec.key_sizes().contains(&(self.key_bits / 8));
        fits && !spec.is_null() && chosen(&spec).is_ok()
    }

    /// A throw-away key in hexadecimal digits.
    pub(super) fn key(&self) -> String {
        let bytes = (0..=u8::MAX).cycle().take(self.key_bits / 8);
        bytes.map(|byte| format!("{byte:02x}")).collect()
    }
}

fn listed(wanted: impl Fn(Listed) -> bool) -> Vec<Cipher> {
    let rows = LISTED.iter().filter(|(_, _, listed)| wanted(*listed));
    let ciphers = rows.map(|(spec, key_bits, _)| Cipher {
        spec: (*spec).to_owned(),
        key_bits: *key_bits,
    });
    ciphers.filter(Cipher::is_known).collect()
}

impl fmt::Display for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}b", self.spec, self.key_bits)
    }
}

impl Combination {
    /// Plain data on each of `paths`, then each cipher on each of them.
    #[must_use]
    pub fn of(ciphers: &[Cipher], paths: &[MountPath], kernel_ciphers: bool) -> Vec<Self> {
        let plain = [MountPath::Inline, MountPath::Kernel].into_iter();
        let plain = plain
            .filter(|path| paths.contains(path))
            .map(|path| Self { cipher: None, path });
        let encrypted = ciphers.iter().flat_map(|cipher| {
            let usable = paths.iter();
            let usable = usable.filter(move |path| kernel_ciphers || **path != MountPath::Kernel);
            usable.map(|&path| Self {
                cipher: Some(cipher.clone()),
                path,
            })
        });
        plain.chain(encrypted).collect()
    }

    /// Name of the combination as a part of series' names.
    #[must_use]
    pub fn name(&self) -> String {
        match &self.cipher {
            Some(cipher) => format!("{}_{}b_{}", cipher.spec, cipher.key_bits, self.path.name()),
            None => format!("plain_{}", self.path.plain_name()),
        }
    }

    /// Label of the combination on bars and in tables.
    #[must_use]
    pub fn label(&self) -> String {
        match &self.cipher {
            Some(cipher) => format!("{cipher}, {}", self.path.label()),
            None => match self.path {
                MountPath::Kernel => "no encryption, kernel".to_owned(),
                MountPath::Inline | MountPath::Queued => "no encryption, Scrim".to_owned(),
            },
        }
    }

    /// Returns whether `self` is plain data on the way that `other` is mounted.
    pub(super) fn is_plain_of(&self, other: &Self) -> bool {
        self.cipher.is_none() && self.path.plain_name() == other.path.plain_name()
    }
}

impl MountPath {
    fn name(self) -> &'static str {
        match self {
            Self::Inline => "inline",
            Self::Queued => "queued",
            Self::Kernel => "kernel",
        }
    }

    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Inline => "Scrim inline",
            Self::Queued => "Scrim queued",
            Self::Kernel => "kernel",
        }
    }

    /// Plain data passes no queue of the cipher, so both paths of Scrim are one.
    fn plain_name(self) -> &'static str {
        match self {
            Self::Inline | Self::Queued => "scrim",
            Self::Kernel => "kernel",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn aes(key_bits: usize) -> Cipher {
        Cipher {
            spec: "aes-xts-plain64".to_owned(),
            key_bits,
        }
    }

    #[test]
    fn a_key_size_follows_the_last_colon() {
        assert_eq!(Cipher::parse("aes-xts-plain64:512"), Ok(aes(512)));
        let essiv = Cipher::parse("aes-cbc-essiv:sha256:128").unwrap();
        assert_eq!(
            (essiv.spec.as_str(), essiv.key_bits),
            ("aes-cbc-essiv:sha256", 128)
        );
        let usual = Cipher::parse("aes-cbc-essiv:sha256").unwrap();
        assert_eq!(usual.spec, "aes-cbc-essiv:sha256");
        for (wrong, why) in [
            ("aes-xts-plain64:100", "one of 256, 384, 512"),
            ("aes-xts-plain64:999999999999999999", "does not fit"),
            ("cipher_null-ecb:128", "does not fit"),
            ("nothing:128", "nothing"),
            ("", ""),
        ] {
            let error = Cipher::parse(wrong).unwrap_err();
            assert!(error.contains(why), "{wrong}: {error}");
        }
    }

    #[test]
    fn lists_hold_what_the_registry_has() {
        let (usual, all) = (Cipher::usual(), Cipher::all());
        assert!(usual.contains(&aes(512)) && usual.contains(&aes(256)));
        assert!(all.len() > usual.len());
        for cipher in &all {
            let parsed = Cipher::parse(&format!("{}:{}", cipher.spec, cipher.key_bits));
            assert_eq!(parsed.as_ref(), Ok(cipher));
            assert_eq!(cipher.key().len() * 4, cipher.key_bits);
            assert_eq!(all.iter().filter(|other| *other == cipher).count(), 1);
        }
    }

    #[test]
    fn plain_data_comes_first_and_the_kernel_where_it_can() {
        let paths = [MountPath::Inline, MountPath::Queued, MountPath::Kernel];
        let names = |kernel| -> Vec<String> {
            let all = Combination::of(&[aes(256)], &paths, kernel);
            all.iter().map(Combination::name).collect()
        };
        assert_eq!(
            names(false),
            [
                "plain_scrim",
                "plain_kernel",
                "aes-xts-plain64_256b_inline",
                "aes-xts-plain64_256b_queued"
            ]
        );
        assert_eq!(names(true)[4], "aes-xts-plain64_256b_kernel");
        let all = Combination::of(&[aes(256)], &paths, true);
        assert!(all[0].is_plain_of(&all[3]) && !all[0].is_plain_of(&all[4]));
        assert!(all[1].is_plain_of(&all[4]) && !all[2].is_plain_of(&all[2]));
    }
}
