//! Cipher specifications in dm-crypt's spelling.

use std::fmt;

use crate::essiv::EssivHash;

/// A parsed cipher specification, such as `aes-xts-plain64`. `Display` prints it as it was given.
///
/// | form | example |
/// |---|---|
/// | `cipher-mode-iv` | `aes-cbc-essiv:sha256` |
/// | `capi:mode(cipher)-iv` | `capi:xts(aes)-plain64` |
/// | `capi:essiv(mode(cipher),hash)-iv` | `capi:essiv(cbc(aes),sha256)-plain64` |
/// | `capi:driver-iv` | `capi:xts-aes-aesni-plain64` |
/// | `capi:cryptd(…)-iv`, `…` being one of these three | `capi:cryptd(xts(aes))-plain64` |
///
/// | part | is one of |
/// |---|---|
/// | cipher | `aes`; `cipher_null`, which encrypts nothing, in `ecb` |
/// | mode | `xts`, `cbc`, `ctr`, `ecb` |
/// | IV | `null`, `plain`, `plain64`, `plain64be`, `benbi`, `eboiv`, `essiv:hash` |
/// | hash | `sha256`, `sha3-256`, `blake2b-256`, `blake2s-256`, `blake2s-128`, `sm3`, `streebog256` |
///
/// As in dm-crypt, `aes` and `aes-plain` are short for `aes-cbc-plain`; ECB needs no IV and
/// disregards one; `eboiv` is for XTS and CBC.
///
/// The names are dm-crypt's, and must be spelled exactly as there: lower case, no spaces. The key size is not part
/// of a specification; the key's length decides it ([`CipherSpec::key_sizes`]).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CipherSpec {
    /// The specification as it was given.
    text: String,
    pub(crate) algorithm: Algorithm,
    pub(crate) iv: IvMode,
    pub(crate) essiv: Option<EssivHash>,
    pub(crate) driver: Option<&'static str>,
    asynchronous: bool,
}

impl CipherSpec {
    /// Makes a specification without a queue of its own, from parts that the parser has found to belong together.
    pub(crate) fn from_parts(
        text: &str,
        algorithm: Algorithm,
        iv: IvMode,
        essiv: Option<EssivHash>,
        driver: Option<&'static str>,
    ) -> Self {
        Self {
            text: text.to_owned(),
            algorithm,
            iv,
            essiv,
            driver,
            asynchronous: false,
        }
    }

    /// Sets whether it is to have a queue of its own.
    pub(crate) fn asynchronous(mut self, asynchronous: bool) -> Self {
        self.asynchronous = asynchronous;
        self
    }

    /// The two strings for a LUKS1 header; joined by a hyphen, the one for LUKS2. The short forms
    /// are written out, as cryptsetup does.
    #[must_use]
    pub fn to_luks(&self) -> (&str, &str) {
        match self.text.split_once('-') {
            None | Some((_, "plain")) if !self.is_capi() => (self.cipher(), "cbc-plain"),
            None => (&self.text, ""),
            Some(parts) => parts,
        }
    }

    /// Returns whether it is in the kernel's own words, `capi:…`, which no key slot may have.
    #[must_use]
    pub fn is_capi(&self) -> bool {
        self.text.starts_with("capi:")
    }

    /// Returns whether it is to have a queue of its own, `cryptd`, on a path that has queues.
    #[must_use]
    pub fn is_asynchronous(&self) -> bool {
        self.asynchronous
    }

    /// Returns whether both encrypt the same data to the same bytes, whatever their names and drivers.
    #[must_use]
    pub fn is_equivalent_to(&self, other: &Self) -> bool {
        let meaning = |spec: &Self| (spec.algorithm, spec.iv, spec.essiv);
        meaning(self) == meaning(other)
    }

    /// The driver that a `capi:` specification names.
    #[must_use]
    pub fn driver(&self) -> Option<&'static str> {
        self.driver
    }

    /// Returns whether it encrypts nothing. Its key is empty, whatever key a LUKS volume has.
    #[must_use]
    pub fn is_null(&self) -> bool {
        self.algorithm == Algorithm::NullEcb
    }

    /// The lengths that the whole volume key may have, in bytes, the shortest first. For XTS that
    /// is both keys together: 32 for AES-128, 48 for AES-192, 64 for AES-256.
    #[must_use]
    pub fn key_sizes(&self) -> &'static [usize] {
        self.algorithm.key_sizes()
    }

    /// The default length of the volume key, in bytes, as in cryptsetup: that of
    /// AES-256, and for XTS of two such keys.
    #[must_use]
    pub fn default_key_size(&self) -> usize {
        match self.algorithm {
            Algorithm::AesXts => 64,
            Algorithm::AesCbc | Algorithm::AesCtr | Algorithm::AesEcb | Algorithm::NullEcb => 32,
        }
    }

    /// Name of the cipher: `aes` or `cipher_null`.
    #[must_use]
    pub fn cipher(&self) -> &'static str {
        self.algorithm.cipher()
    }

    /// Reason to prefer another cipher for a new volume, in a clause; `None` if there is no such reason.
    #[must_use]
    pub fn weakness(&self) -> Option<&'static str> {
        let constant_iv = self.iv == IvMode::Null;
        match self.algorithm {
            Algorithm::NullEcb => Some("it encrypts nothing"),
            Algorithm::AesEcb => {
                Some("ECB encrypts equal blocks alike, so that patterns in the data show")
            }
            Algorithm::AesCtr => Some(
                "CTR encrypts all that is ever written to a sector with one key stream, so that \
                 two versions of a sector tell what is in them",
            ),
            _ if constant_iv => {
                Some("with IV null equal sectors are encrypted alike, so that they can be told")
            }
            Algorithm::AesCbc if self.essiv.is_none() && self.iv != IvMode::Eboiv => Some(
                "CBC with an IV that can be predicted lets a prepared file be recognised without \
                 the key; with essiv:sha256 it cannot be",
            ),
            Algorithm::AesCbc | Algorithm::AesXts => None,
        }
    }
}

impl fmt::Display for CipherSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A cipher in a mode of operation: what a kernel implements. The IVs are those of
/// [`crate::kernels::iv::Ivs`], one for each data unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Algorithm {
    /// IEEE Std 1619, with the IV as the tweak.
    AesXts,
    /// NIST SP 800-38A, 6.2.
    AesCbc,
    /// NIST SP 800-38A, 6.5; the IV is the first counter, of 128 bits, big endian.
    AesCtr,
    /// NIST SP 800-38A, 6.1; no IV.
    AesEcb,
    /// The bytes unchanged; no IV, no key.
    NullEcb,
}

impl Algorithm {
    pub(crate) const ALL: &[Self] = &[
        Self::AesXts,
        Self::AesCbc,
        Self::AesCtr,
        Self::AesEcb,
        Self::NullEcb,
    ];

    pub(crate) fn cipher(self) -> &'static str {
        match self {
            Self::AesXts | Self::AesCbc | Self::AesCtr | Self::AesEcb => "aes",
            Self::NullEcb => "cipher_null",
        }
    }

    pub(crate) fn mode(self) -> &'static str {
        match self {
            Self::AesXts => "xts",
            Self::AesCbc => "cbc",
            Self::AesCtr => "ctr",
            Self::AesEcb | Self::NullEcb => "ecb",
        }
    }

    /// Name of the algorithm in `/proc/crypto`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::AesXts => "xts(aes)",
            Self::AesCbc => "cbc(aes)",
            Self::AesCtr => "ctr(aes)",
            Self::AesEcb => "ecb(aes)",
            Self::NullEcb => "ecb(cipher_null)",
        }
    }

    pub(crate) fn key_sizes(self) -> &'static [usize] {
        match self {
            Self::AesXts => &[32, 48, 64],
            Self::AesCbc | Self::AesCtr | Self::AesEcb => &[16, 24, 32],
            Self::NullEcb => &[0],
        }
    }

    pub(crate) fn takes_iv(self) -> bool {
        match self {
            Self::AesXts | Self::AesCbc | Self::AesCtr => true,
            Self::AesEcb | Self::NullEcb => false,
        }
    }
}

/// Rule by which an IV is made from a sector's number, before ESSIV encrypts it; [`crate::kernels::iv`] has the
/// arithmetic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum IvMode {
    Null,
    Plain,
    Plain64,
    Plain64be,
    /// Counts cipher blocks of 16 bytes.
    Benbi,
    /// Counts bytes: to dm-crypt a block of CTR, a stream cipher, is one.
    BenbiOfBytes,
    Eboiv,
}
