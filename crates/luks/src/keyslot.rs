//! Key slots: the volume key, sealed by a passphrase.

use std::ops::Range;

use scrim_crypt::{CipherError, CipherSpec, Geometry, IvSector, SectorCipher, SectorSize};
use scrim_sys::memory::SecretBytes;

use crate::af;
use crate::error::{SealError, UnlockError, Unsupported};
use crate::kdf::{Argon2Cost, Hash, Kdf, KdfGuard};
use crate::key::VolumeKey;
use crate::random;

/// Longest key, in bytes, that a header may speak of: eight times the longest in use.
pub(crate) const MAX_KEY_SIZE: u32 = 512;

/// A key slot in use (LUKS1 specification, section 2.2; LUKS2 specification, section 3.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keyslot {
    /// Its number: 0 to 7 in LUKS1, 0 to 31 in LUKS2.
    pub id: u8,
    /// Length in bytes of the key it holds.
    pub key_size: u32,
    /// Its place in the order in which slots are tried.
    pub priority: Priority,
    /// The bytes of the header device that belong to it.
    pub area: Range<u64>,
    /// Contents of those bytes.
    pub kind: KeyslotKind,
}

/// Place of a key slot in the order in which slots are tried (LUKS2 specification, section 3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// Only when it is named.
    Ignore,
    /// In turn, by number.
    Normal,
    /// Tried before all others.
    Prefer,
}

/// Contents of a key slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyslotKind {
    /// A key sealed by a passphrase.
    Passphrase(PassphraseSlot),
    /// A type that Scrim does not open, such as `reencrypt`.
    Other(String),
}

/// Parameters by which a passphrase seals a key, as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassphraseSlot {
    /// Cipher specification of the area, such as `aes-xts-plain64`.
    pub cipher: String,
    /// Length in bytes of the key derived from the passphrase.
    pub cipher_key_size: u32,
    /// Derivation of that key.
    pub kdf: KdfParameters,
    /// Salt of that derivation.
    pub salt: Vec<u8>,
    /// Stripes of the anti-forensic splitter: always 4000.
    pub af_stripes: u32,
    /// Its hash, in the header's spelling.
    pub af_hash: String,
}

/// A key derivation function and its cost, as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KdfParameters {
    /// PBKDF2 (RFC 8018) with HMAC.
    Pbkdf2 {
        /// The hash, in the header's spelling.
        hash: String,
        iterations: u32,
    },
    /// Argon2i (RFC 9106), version 1.3.
    Argon2i(Argon2Cost),
    /// Argon2id (RFC 9106), version 1.3.
    Argon2id(Argon2Cost),
    /// A function that Scrim does not have, by its name in the header. Only its key slot cannot be opened.
    Other(String),
}

impl KdfParameters {
    fn resolve(&self) -> Result<Kdf, Unsupported> {
        Ok(match self {
            Self::Pbkdf2 { hash, iterations } => Kdf::Pbkdf2 {
                hash: parse_hash(hash)?,
                iterations: *iterations,
            },
            Self::Argon2i(cost) => Kdf::Argon2i { cost: *cost },
            Self::Argon2id(cost) => Kdf::Argon2id { cost: *cost },
            Self::Other(name) => return Err(Unsupported::Kdf { name: name.clone() }),
        })
    }
}

/// The hash that a header names.
pub(crate) fn parse_hash(name: &str) -> Result<Hash, Unsupported> {
    name.parse().map_err(|_| Unsupported::Hash {
        name: name.to_owned(),
    })
}

impl Keyslot {
    /// The bytes of the header device that hold the sealed key, for
    /// [`Header::unlock`](crate::Header::unlock). A part of [`Keyslot::area`].
    #[must_use]
    pub fn material(&self) -> Range<u64> {
        let len = af::material_len(self.key_size as usize) as u64;
        self.area.start..self.area.start.saturating_add(len).min(self.area.end)
    }

    /// Returns the error for a slot that no passphrase opens.
    pub(crate) fn not_for_passphrases(&self) -> Unsupported {
        let kind = match &self.kind {
            KeyslotKind::Passphrase(_) => "luks2".to_owned(),
            KeyslotKind::Other(kind) => kind.clone(),
        };
        Unsupported::KeyslotType {
            slot: self.id,
            kind,
        }
    }

    /// Opens the slot: the result is the key only if the passphrase was right, which a digest
    /// tells.
    pub(crate) fn open(
        &self,
        material: &[u8],
        passphrase: &SecretBytes,
        guard: &dyn KdfGuard,
    ) -> Result<SecretBytes, UnlockError> {
        let slot = self.id;
        let sealed = match &self.kind {
            KeyslotKind::Passphrase(sealed) => sealed,
            KeyslotKind::Other(_) => return Err(self.not_for_passphrases().into()),
        };
        let key_size = self.key_size as usize;
        let need = af::material_len(key_size);
        let short = UnlockError::Material {
            slot,
            need: need as u64,
            have: material.len() as u64,
        };
        let Some(material) = material.get(..need) else {
            return Err(short);
        };
        let af_hash = parse_hash(&sealed.af_hash)?;
        let stripes = sealed.decrypt(slot, material, passphrase, guard)?;
        af::merge(stripes.expose(), key_size, af_hash).ok_or(short)
    }
}

impl PassphraseSlot {
    fn decrypt(
        &self,
        slot: u8,
        material: &[u8],
        passphrase: &SecretBytes,
        guard: &dyn KdfGuard,
    ) -> Result<SecretBytes, UnlockError> {
        let mut stripes = SecretBytes::copied_from(material);
        if is_null_cipher(&self.cipher) {
            // Such a slot gives its key to anyone; with a passphrase it only pretends to ask.
            return if passphrase.is_empty() {
                Ok(stripes)
            } else {
                Err(UnlockError::NullCipher { slot })
            };
        }
        let cipher = keyslot_cipher(&self.cipher)?;
        let kdf = self.kdf.resolve()?;
        let key_size = self.cipher_key_size as usize;
        check_key_size(&cipher, key_size)?;
        let mut key = SecretBytes::zeroed(key_size);
        guard
            .begin(Some(slot), &kdf)
            .and_then(|()| {
                let out = key.expose_mut();
                kdf.derive_guarded(guard, passphrase.expose(), &self.salt, out)
            })
            .map_err(|source| UnlockError::Kdf { slot, source })?;
        area_cipher(&cipher, &key)?.decrypt_in_place(IvSector(0), stripes.expose_mut());
        Ok(stripes)
    }
}

/// Parameters with which a new key slot is sealed.
pub(crate) struct SealSpec<'a> {
    pub(crate) cipher: &'a str,
    pub(crate) cipher_key_size: usize,
    pub(crate) kdf: &'a Kdf,
    pub(crate) af_hash: Hash,
}

/// A key that was sealed for a key slot.
pub(crate) struct Sealed {
    pub(crate) salt: [u8; 32],
    /// Ciphertext, of [`af::material_len`] bytes.
    pub(crate) material: Vec<u8>,
}

/// Seals `key` by `passphrase`.
pub(crate) fn seal(
    key: &VolumeKey,
    passphrase: &SecretBytes,
    spec: &SealSpec<'_>,
) -> Result<Sealed, SealError> {
    let cipher = keyslot_cipher(spec.cipher)?;
    check_key_size(&cipher, spec.cipher_key_size)?;
    let salt = random::bytes()?;
    let mut derived = SecretBytes::zeroed(spec.cipher_key_size);
    spec.kdf
        .derive(passphrase.expose(), &salt, derived.expose_mut())
        .map_err(SealError::Kdf)?;
    let mut stripes = af::split(key.expose(), spec.af_hash)?;
    area_cipher(&cipher, &derived)?.encrypt_in_place(IvSector(0), stripes.expose_mut());
    Ok(Sealed {
        salt,
        material: stripes.expose().to_vec(),
    })
}

/// Cipher and key length of a new LUKS2 key slot: the given ones, or, as in cryptsetup, the default
/// where the given cipher may not protect a key slot.
pub(crate) fn cipher_for_new((cipher, key_size): (&str, usize)) -> (String, usize) {
    match keyslot_cipher(cipher) {
        Err(Unsupported::KeyslotCipher { .. }) => {
            (DEFAULT_CIPHER.to_owned(), DEFAULT_CIPHER_KEY_SIZE)
        }
        _ => (cipher.to_owned(), key_size),
    }
}

/// A cipher as a LUKS2 header names it.
pub(crate) fn stored_name(cipher: &CipherSpec) -> String {
    match cipher.to_luks() {
        (cipher, "") => cipher.to_owned(),
        (cipher, mode) => format!("{cipher}-{mode}"),
    }
}

const DEFAULT_CIPHER: &str = "aes-xts-plain64";
const DEFAULT_CIPHER_KEY_SIZE: usize = 64;

/// Modes and IVs of which cryptsetup, which turns key slots without the kernel, makes other IVs than
/// dm-crypt does: such a slot would be read by some and not by others.
const DISPUTED: [&str; 4] = ["-xts-eboiv", "-lrw-eboiv", "-ctr-benbi", "-adiantum-benbi"];

/// The cipher of a key slot area, which must be one that everybody reads alike.
pub(crate) fn keyslot_cipher(name: &str) -> Result<CipherSpec, Unsupported> {
    let disputed = DISPUTED.iter().any(|words| name.ends_with(words));
    if name.starts_with("capi:") || is_null_cipher(name) || disputed {
        return Err(Unsupported::KeyslotCipher {
            name: name.to_owned(),
        });
    }
    parse_cipher(name)
}

/// The cipher specification that a header names.
pub(crate) fn parse_cipher(name: &str) -> Result<CipherSpec, Unsupported> {
    name.parse().map_err(Unsupported::Cipher)
}

/// Refuses a key that is too short or too long for its cipher, which no digest would notice. A
/// volume with the null cipher has a key too, of any length, which encrypts nothing.
pub(crate) fn check_key_size(cipher: &CipherSpec, key_size: usize) -> Result<(), Unsupported> {
    if cipher.is_null() || cipher.key_sizes().contains(&key_size) {
        return Ok(());
    }
    Err(Unsupported::KeySize(CipherError::KeySize {
        spec: cipher.clone(),
        bytes: key_size,
    }))
}

fn is_null_cipher(name: &str) -> bool {
    let base = name.split('-').next().unwrap_or(name);
    matches!(base, "null" | "cipher_null")
}

/// Key slot areas always have 512-byte sectors, numbered from 0.
fn area_cipher(cipher: &CipherSpec, key: &SecretBytes) -> Result<SectorCipher, Unsupported> {
    let geometry = Geometry::new(SectorSize::S512);
    SectorCipher::new(cipher, key.expose(), geometry).map_err(Unsupported::Cipher)
}
