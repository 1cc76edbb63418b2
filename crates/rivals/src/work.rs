//! Work that is measured.

use sha2::{Digest, Sha256};

/// A cipher with a key size. All use a part of the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cipher {
    Aes256Xts,
    Aes128Xts,
    /// dm-crypt's `aes-cbc-essiv:sha256`, which encrypts the IVs.
    Aes256CbcEssiv,
    Aes128Cbc,
    Aes128Ctr,
    Aes128Ecb,
    Serpent256Xts,
    Camellia256Xts,
    /// With 12 rounds of XChaCha.
    Adiantum12,
    /// Records with a nonce and a tag of their own.
    Aes128Gcm,
    Aes256Gcm,
}

/// A cipher on data units of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Work {
    pub(crate) cipher: Cipher,
    /// Bytes of a sector, or of a record with its tag.
    pub(crate) unit: usize,
}

/// Direction of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Encrypt,
    Decrypt,
}

/// Any bytes that are not all alike: figures do not depend on them.
const KEY: [u8; 64] = {
    let mut key = [0; 64];
    let mut at = 0;
    while at < key.len() {
        #[expect(clippy::cast_possible_truncation, reason = "64 numbers")]
        let number = at as u8;
        key[at] = number.wrapping_mul(37) ^ 0x5a;
        at += 1;
    }
    key
};

/// Length of an IV, a tweak, a counter, a tag and a block.
pub(crate) const BLOCK: usize = 16;
/// Length of a GCM nonce.
pub(crate) const NONCE: usize = 12;

impl Cipher {
    /// The key: for XTS the data key followed by the tweak key.
    pub(crate) fn key(self) -> &'static [u8] {
        match self {
            Self::Aes256Xts | Self::Serpent256Xts | Self::Camellia256Xts => &KEY,
            Self::Aes128Xts | Self::Aes256CbcEssiv | Self::Adiantum12 | Self::Aes256Gcm => {
                &KEY[..32]
            }
            Self::Aes128Cbc | Self::Aes128Ctr | Self::Aes128Ecb | Self::Aes128Gcm => &KEY[..16],
        }
    }

    /// AES rounds that each block takes; `None` of another cipher.
    pub(crate) fn rounds(self) -> Option<usize> {
        match self {
            Self::Aes256Xts | Self::Aes256CbcEssiv | Self::Aes256Gcm => Some(14),
            Self::Aes128Xts
            | Self::Aes128Cbc
            | Self::Aes128Ctr
            | Self::Aes128Ecb
            | Self::Aes128Gcm => Some(10),
            Self::Serpent256Xts | Self::Camellia256Xts | Self::Adiantum12 => None,
        }
    }

    /// The key under which ESSIV encrypts the sector's number to have its IV.
    pub(crate) fn essiv_key(self) -> Option<[u8; 32]> {
        (self == Self::Aes256CbcEssiv).then(|| Sha256::digest(self.key()).into())
    }

    /// Name that dm-crypt has for the cipher; `None` if it does not have it.
    pub(crate) fn specification(self) -> Option<&'static str> {
        Some(match self {
            Self::Aes256Xts | Self::Aes128Xts => "aes-xts-plain64",
            Self::Aes256CbcEssiv => "aes-cbc-essiv:sha256",
            Self::Aes128Cbc => "aes-cbc-plain64",
            Self::Aes128Ctr => "aes-ctr-plain64",
            Self::Aes128Ecb => "aes-ecb",
            Self::Serpent256Xts => "serpent-xts-plain64",
            Self::Camellia256Xts => "camellia-xts-plain64",
            Self::Adiantum12 => "xchacha12,aes-adiantum-plain64",
            Self::Aes128Gcm | Self::Aes256Gcm => return None,
        })
    }

    /// Description of the cipher for people.
    pub(crate) fn describe(self) -> &'static str {
        match self {
            Self::Aes256Xts => "AES-256-XTS, plain64",
            Self::Aes128Xts => "AES-128-XTS, plain64",
            Self::Aes256CbcEssiv => "AES-256-CBC, essiv:sha256",
            Self::Aes128Cbc => "AES-128-CBC, plain64",
            Self::Aes128Ctr => "AES-128-CTR, plain64",
            Self::Aes128Ecb => "AES-128-ECB",
            Self::Serpent256Xts => "Serpent-256-XTS, plain64",
            Self::Camellia256Xts => "Camellia-256-XTS, plain64",
            Self::Adiantum12 => "Adiantum with XChaCha12, plain64",
            Self::Aes128Gcm => "AES-128-GCM",
            Self::Aes256Gcm => "AES-256-GCM",
        }
    }
}

impl Work {
    /// Sectors of `bytes` bytes, or records with `bytes` bytes of payload.
    pub(crate) const fn new(cipher: Cipher, bytes: usize) -> Self {
        let tag = match cipher {
            Cipher::Aes128Gcm | Cipher::Aes256Gcm => BLOCK,
            _ => 0,
        };
        Self {
            cipher,
            unit: bytes + tag,
        }
    }

    /// Returns whether each unit has a tag.
    pub(crate) fn is_tagged(self) -> bool {
        matches!(self.cipher, Cipher::Aes128Gcm | Cipher::Aes256Gcm)
    }

    /// Number of the first unit of a measurement: for sectors one of more than 32 bits, while records
    /// are counted from 0.
    pub(crate) fn first(self) -> u64 {
        if self.is_tagged() { 0 } else { 0x1_2345_6780 }
    }

    /// Payload of a unit, in bytes.
    pub(crate) fn payload(self) -> usize {
        self.unit - if self.is_tagged() { BLOCK } else { 0 }
    }

    /// Length of a run with `bytes` bytes of payload.
    pub(crate) fn run(self, bytes: usize) -> usize {
        bytes / self.payload() * self.unit
    }

    /// The units of a run that starts at `first`, each with its number. Sectors count in units of
    /// 512 bytes, as in every LUKS volume, records by themselves.
    pub(crate) fn units(
        self,
        first: u64,
        run: &mut [u8],
    ) -> impl Iterator<Item = (u64, &mut [u8])> {
        let numbers = (0..).map(move |index| self.number(first, index));
        numbers.zip(run.chunks_exact_mut(self.unit))
    }

    /// The number of the unit that is `index` after the one numbered `first`.
    pub(crate) fn number(self, first: u64, index: u64) -> u64 {
        first.wrapping_add(index.wrapping_mul(self.step()))
    }

    /// The ESSIV IVs of a run of `len` bytes before they are encrypted, one after the other: a
    /// library that has ECB encrypts them in one call.
    pub(crate) fn plain_ivs(self, first: u64, len: usize) -> impl Iterator<Item = [u8; BLOCK]> {
        (0..len / self.unit).map(move |index| plain64(self.number(first, index as u64)))
    }

    fn step(self) -> u64 {
        if self.is_tagged() {
            1
        } else {
            self.unit as u64 / 512
        }
    }
}

/// The IV of that name: the number, little endian.
pub(crate) fn plain64(number: u64) -> [u8; BLOCK] {
    let mut iv = [0; BLOCK];
    iv[..8].copy_from_slice(&number.to_le_bytes());
    iv
}

/// The nonce of a record, as TLS 1.3 counts them, but for the part that is fixed.
pub(crate) fn nonce(number: u64) -> [u8; NONCE] {
    let mut nonce = [0; NONCE];
    nonce[4..].copy_from_slice(&number.to_be_bytes());
    nonce
}

impl Direction {
    pub(crate) const BOTH: [Self; 2] = [Self::Encrypt, Self::Decrypt];

    /// Name, as in the names of results.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Encrypt => "encrypt",
            Self::Decrypt => "decrypt",
        }
    }
}
