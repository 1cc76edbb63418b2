//! Cipher specifications in dm-crypt's spelling.

use std::fmt;

use crate::essiv::EssivHash;

/// A parsed cipher specification, such as `aes-xts-plain64`. `Display` prints it as it was given.
///
/// | form | example |
/// |---|---|
/// | `cipher-mode-iv` | `aes-cbc-essiv:sha256` |
/// | `capi:mode(cipher)-iv`, also with an implementation of the cipher | `capi:xts(aes)-plain64`, `capi:cbc(aes-generic)-plain64` |
/// | `capi:mode(ecb(cipher))-iv`, mode being `xts` or `lrw` | `capi:xts(ecb(aes))-plain64` |
/// | `capi:essiv(mode(cipher),hash)-iv` | `capi:essiv(cbc(aes),sha256)-plain64` |
/// | `capi:driver-iv` | `capi:xts-aes-aesni-plain64` |
/// | `capi:cryptd(…)-iv`, `…` being one of these three | `capi:cryptd(xts(aes))-plain64` |
///
/// | part | is one of |
/// |---|---|
/// | cipher | `aes`, `serpent`, `twofish`, `camellia`; `xchacha12,aes` and `xchacha20,aes` in `adiantum`; `cipher_null`, which encrypts nothing, in `ecb` |
/// | mode | `xts`, `cbc`, `ctr`, `ecb`, `lrw`; `adiantum` |
/// | IV | `null`, `plain`, `plain64`, `plain64be`, `benbi`, `eboiv`, `essiv:hash` |
/// | hash | `sha256`, `sha3-256`, `blake2b-256`, `blake2s-256`, `blake2s-128`, `sm3`, `streebog256` |
///
/// As in dm-crypt, `aes` and `aes-plain` are short for `aes-cbc-plain`; ECB needs no IV and
/// disregards one; `eboiv` is for XTS, CBC and LRW; Adiantum, whose IVs have 32 bytes, takes neither `eboiv` nor
/// `essiv`.
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
        self.algorithm.cipher() == Cipher::Null
    }

    /// The lengths that the whole volume key may have, in bytes, the shortest first. For XTS that
    /// is both keys together: 32 for AES-128, 48 for AES-192, 64 for AES-256. For LRW it is the cipher's key and the 16
    /// bytes of the tweak key after it.
    #[must_use]
    pub fn key_sizes(&self) -> &'static [usize] {
        self.algorithm.key_sizes()
    }

    /// The default length of the volume key, in bytes, as in cryptsetup: 256 bits, and for XTS two such keys. For LRW
    /// that is a cipher key of 128 bits with its tweak key.
    #[must_use]
    pub fn default_key_size(&self) -> usize {
        match self.algorithm.mode() {
            Mode::Xts => 64,
            Mode::Cbc | Mode::Ctr | Mode::Ecb | Mode::Lrw | Mode::Adiantum => 32,
        }
    }

    /// Length of the cipher's own key in a volume key of `volume_key_bytes`, in bytes: half of it for XTS, and what
    /// precedes the tweak key for LRW.
    #[must_use]
    pub fn cipher_key_size(&self, volume_key_bytes: usize) -> usize {
        match self.algorithm.mode() {
            Mode::Xts => volume_key_bytes / 2,
            Mode::Cbc | Mode::Ctr | Mode::Ecb | Mode::Lrw | Mode::Adiantum => {
                volume_key_bytes.saturating_sub(self.tweak_key_size())
            }
        }
    }

    /// Length of the tweak key in a volume key, in bytes, where that is the same for all sizes of a cipher's key: 16 for
    /// LRW, or else 0.
    #[must_use]
    pub fn tweak_key_size(&self) -> usize {
        match self.algorithm.mode() {
            Mode::Lrw => 16,
            Mode::Xts | Mode::Cbc | Mode::Ctr | Mode::Ecb | Mode::Adiantum => 0,
        }
    }

    /// Name of the cipher, such as `aes`.
    #[must_use]
    pub fn cipher(&self) -> &'static str {
        self.algorithm.cipher().name()
    }

    /// Reason to prefer another cipher for a new volume, in a clause; `None` if there is no such reason.
    #[must_use]
    pub fn weakness(&self) -> Option<&'static str> {
        let constant_iv = self.iv == IvMode::Null;
        match self.algorithm.mode() {
            Mode::Ecb if self.is_null() => Some("it encrypts nothing"),
            Mode::Ecb => Some("ECB encrypts equal blocks alike, so that patterns in the data show"),
            Mode::Ctr => Some(
                "CTR encrypts all that is ever written to a sector with one key stream, so that \
                 two versions of a sector tell what is in them",
            ),
            _ if constant_iv => {
                Some("with IV null equal sectors are encrypted alike, so that they can be told")
            }
            Mode::Cbc if self.essiv.is_none() && self.iv != IvMode::Eboiv => Some(
                "CBC with an IV that can be predicted lets a prepared file be recognised without \
                 the key; with essiv:sha256 it cannot be",
            ),
            Mode::Lrw if self.essiv.is_none() && self.iv == IvMode::Plain64be => Some(
                "LRW counts blocks from the IV, and those of plain64be are one apart, so that equal blocks of \
                 neighbouring sectors are encrypted alike; benbi leaves room between them",
            ),
            Mode::Lrw => Some(
                "LRW can reveal its tweak key when the volume holds a copy of that key; XTS, which took its place, \
                 cannot",
            ),
            Mode::Cbc | Mode::Xts | Mode::Adiantum => None,
        }
    }
}

impl fmt::Display for CipherSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Cipher {
    /// The standard FIPS 197.
    Aes,
    /// Anderson, Biham, Knudsen: "Serpent: A Proposal for the Advanced Encryption Standard".
    Serpent,
    /// Schneier and others: "Twofish: A 128-Bit Block Cipher".
    Twofish,
    /// The cipher of RFC 3713.
    Camellia,
    /// The parts of Adiantum, with 12 rounds of the stream cipher.
    XChaCha12Aes,
    /// The same with 20 rounds.
    XChaCha20Aes,
    /// The bytes unchanged; no key.
    Null,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Mode {
    /// IEEE Std 1619, with the IV as the tweak.
    Xts,
    /// NIST SP 800-38A, 6.2.
    Cbc,
    /// NIST SP 800-38A, 6.5; the IV is the first counter, of 128 bits, big endian.
    Ctr,
    /// NIST SP 800-38A, 6.1; no IV.
    Ecb,
    /// Liskov, Rivest, Wagner: "Tweakable Block Ciphers", as in draft 5 of IEEE P1619; the IV is the index of the
    /// first block, of 128 bits, big endian.
    Lrw,
    /// Crowley, Biggers: "Adiantum: length-preserving encryption for entry-level processors"; a data unit is one wide
    /// block, and the IV is its tweak, of 32 bytes.
    Adiantum,
}

/// One table of all algorithms: the variant, its parts, its name in `/proc/crypto`.
macro_rules! algorithms {
    ($($variant:ident: $cipher:ident, $mode:ident, $name:literal;)*) => {
        /// A cipher in a mode of operation: what a kernel implements. The IVs are those of
        /// [`crate::kernels::iv::Ivs`], one for each data unit.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub(crate) enum Algorithm {
            $($variant,)*
        }

        impl Algorithm {
            pub(crate) const ALL: &[Self] = &[$(Self::$variant,)*];

            pub(crate) fn cipher(self) -> Cipher {
                match self {
                    $(Self::$variant => Cipher::$cipher,)*
                }
            }

            pub(crate) fn mode(self) -> Mode {
                match self {
                    $(Self::$variant => Mode::$mode,)*
                }
            }

            /// Name of the algorithm in `/proc/crypto`.
            pub(crate) fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

algorithms! {
    AesXts: Aes, Xts, "xts(aes)";
    AesCbc: Aes, Cbc, "cbc(aes)";
    AesCtr: Aes, Ctr, "ctr(aes)";
    AesEcb: Aes, Ecb, "ecb(aes)";
    AesLrw: Aes, Lrw, "lrw(aes)";
    SerpentXts: Serpent, Xts, "xts(serpent)";
    SerpentCbc: Serpent, Cbc, "cbc(serpent)";
    SerpentCtr: Serpent, Ctr, "ctr(serpent)";
    SerpentEcb: Serpent, Ecb, "ecb(serpent)";
    SerpentLrw: Serpent, Lrw, "lrw(serpent)";
    TwofishXts: Twofish, Xts, "xts(twofish)";
    TwofishCbc: Twofish, Cbc, "cbc(twofish)";
    TwofishCtr: Twofish, Ctr, "ctr(twofish)";
    TwofishEcb: Twofish, Ecb, "ecb(twofish)";
    TwofishLrw: Twofish, Lrw, "lrw(twofish)";
    CamelliaXts: Camellia, Xts, "xts(camellia)";
    CamelliaCbc: Camellia, Cbc, "cbc(camellia)";
    CamelliaCtr: Camellia, Ctr, "ctr(camellia)";
    CamelliaEcb: Camellia, Ecb, "ecb(camellia)";
    CamelliaLrw: Camellia, Lrw, "lrw(camellia)";
    Adiantum12: XChaCha12Aes, Adiantum, "adiantum(xchacha12,aes)";
    Adiantum20: XChaCha20Aes, Adiantum, "adiantum(xchacha20,aes)";
    NullEcb: Null, Ecb, "ecb(cipher_null)";
}

impl Cipher {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Aes => "aes",
            Self::Serpent => "serpent",
            Self::Twofish => "twofish",
            Self::Camellia => "camellia",
            Self::XChaCha12Aes => "xchacha12,aes",
            Self::XChaCha20Aes => "xchacha20,aes",
            Self::Null => "cipher_null",
        }
    }
}

impl Mode {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Xts => "xts",
            Self::Cbc => "cbc",
            Self::Ctr => "ctr",
            Self::Ecb => "ecb",
            Self::Lrw => "lrw",
            Self::Adiantum => "adiantum",
        }
    }

    pub(crate) fn takes_iv(self) -> bool {
        self != Self::Ecb
    }
}

impl Algorithm {
    pub(crate) fn key_sizes(self) -> &'static [usize] {
        match (self.cipher(), self.mode()) {
            (Cipher::Null, _) => &[0],
            (_, Mode::Xts) => &[32, 48, 64],
            (_, Mode::Cbc | Mode::Ctr | Mode::Ecb) => &[16, 24, 32],
            (_, Mode::Lrw) => &[32, 40, 48],
            (_, Mode::Adiantum) => &[32],
        }
    }

    /// Block size in bytes, like the kernel's `blocksize`.
    pub(crate) fn block_size(self) -> usize {
        match (self.cipher(), self.mode()) {
            (Cipher::Null, _) | (_, Mode::Ctr) => 1,
            _ => 16,
        }
    }

    /// Length of the IV in bytes, like the kernel's `ivsize`.
    pub(crate) fn iv_size(self) -> usize {
        match self.mode() {
            Mode::Ecb => 0,
            Mode::Adiantum => 32,
            Mode::Xts | Mode::Cbc | Mode::Ctr | Mode::Lrw => 16,
        }
    }

    /// Returns whether ESSIV can encrypt its IVs, which must be blocks of the cipher for that.
    pub(crate) fn takes_essiv(self) -> bool {
        self.iv_size() == 16
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
