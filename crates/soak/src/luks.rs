//! Headers as the operations and histories make them: small, and cheap to unlock.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher};
use std::sync::{Mutex, PoisonError};

use scrim_backend::Backend;
use scrim_crypt::SectorSize;
use scrim_luks::kdf::{Hash, Kdf};
use scrim_luks::{Layout, NewKeyslot, Placement, VolumeKey, luks1, luks2};
use scrim_sys::memory::SecretBytes;
use scrim_volume::{LuksDevice, LuksError};

/// Why something could not be done: the text of its error.
pub(crate) type Refused = String;

pub(crate) fn refused(error: impl std::fmt::Display) -> Refused {
    error.to_string()
}

/// Every passphrase that any header here has ever had.
pub(crate) const PASSPHRASES: [&str; 3] = ["first", "second", "third"];

/// Where LUKS1's data starts: behind eight key slots of 256-bit keys.
pub(crate) const LUKS1_DATA: u64 = 4096 + 8 * KEYSLOT;
/// Where LUKS2's data starts: behind two copies and two key slots of 256-bit keys.
pub(crate) const LUKS2_DATA: u64 = 2 * (16 << 10) + 2 * KEYSLOT;
/// The key slot area of a 256-bit key: 4000 stripes, in whole blocks.
const KEYSLOT: u64 = 32 * 4096;

pub(crate) fn secret(passphrase: &str) -> SecretBytes {
    SecretBytes::copied_from(passphrase.as_bytes())
}

/// A volume key of 256 bits, the same for the same number.
pub(crate) fn volume_key(number: u8) -> VolumeKey {
    let bytes: Vec<u8> = (0..32).map(|at| at ^ number.wrapping_mul(37)).collect();
    VolumeKey::new(SecretBytes::copied_from(&bytes))
}

/// A UUID, the same for the same number.
fn uuid(number: u8) -> Option<String> {
    Some(format!("9bbcbbf9-cf9b-48eb-95a2-34484ec7a3{number:02x}"))
}

pub(crate) fn new_keyslot(slot: Option<u8>) -> NewKeyslot {
    NewKeyslot {
        slot,
        kdf: Kdf::Pbkdf2 {
            hash: Hash::Sha256,
            iterations: 1,
        },
        af_hash: Hash::Sha256,
    }
}

fn layout(backend: &dyn Backend, data_offset: u64) -> Layout {
    Layout {
        placement: Placement::Attached,
        device_len: backend.info().size,
        grows: false,
        data_offset: Some(data_offset),
    }
}

fn cipher() -> Result<scrim_crypt::CipherSpec, Refused> {
    "aes-xts-plain64".parse().map_err(refused)
}

/// Makes a LUKS1 header; `number` makes it different from others.
pub(crate) fn format1(backend: &dyn Backend, number: u8, passphrase: &str) -> Result<(), Refused> {
    let spec = luks1::FormatSpec {
        cipher: cipher()?,
        hash: Hash::Sha256,
        digest_iterations: 1,
        iterations: 1,
        slot: None,
        uuid: uuid(number),
        layout: layout(backend, LUKS1_DATA),
    };
    let made = luks1::format(&spec, &volume_key(number), &secret(passphrase)).map_err(refused)?;
    LuksDevice::write(&made.plan, backend).map_err(refused)
}

/// Makes a LUKS2 header; `number` makes it different from others.
pub(crate) fn format2(
    backend: &dyn Backend,
    number: u8,
    passphrase: &str,
    sector_size: SectorSize,
    metadata_size: u64,
) -> Result<(), Refused> {
    let spec = luks2::FormatSpec {
        cipher: cipher()?,
        sector_size,
        digest_hash: Hash::Sha256,
        digest_iterations: 1,
        keyslot: new_keyslot(None),
        uuid: uuid(number),
        label: String::new(),
        subsystem: String::new(),
        flags: Vec::new(),
        layout: layout(backend, 2 * metadata_size + 2 * KEYSLOT),
        metadata_size: Some(metadata_size),
        keyslots_size: None,
    };
    let made = luks2::format(&spec, &volume_key(number), &secret(passphrase)).map_err(refused)?;
    LuksDevice::write(&made.plan, backend).map_err(refused)
}

/// Unlocks a header, by one slot or by any: `None` where the passphrase does not. What a header of
/// the same bytes has said before is remembered: most of the disks that a power cut leaves are alike,
/// and key derivation takes longer than everything else together.
pub(crate) fn unlock(
    device: &LuksDevice,
    backend: &dyn Backend,
    slot: Option<u8>,
    passphrase: &str,
) -> Result<Option<VolumeKey>, Refused> {
    static KNOWN: Mutex<BTreeMap<u64, Option<Vec<u8>>>> = Mutex::new(BTreeMap::new());
    const MOST: usize = 1 << 14;

    let mut area = vec![0; usize::try_from(device.header().header_end()).map_err(refused)?];
    backend.read_at(0, &mut area).map_err(refused)?;
    let mut hasher = DefaultHasher::new();
    (area, slot, passphrase).hash(&mut hasher);
    let question = hasher.finish();
    let lock = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let remembered = lock().get(&question).cloned();
    let answer = match remembered {
        Some(answer) => answer,
        None => match device.unlock(backend, slot, &secret(passphrase)) {
            Ok(unlocked) => Some(unlocked.key.expose().to_vec()),
            Err(LuksError::NoKey { .. }) => None,
            Err(error) => return Err(refused(error)),
        },
    };
    let mut known = lock();
    if known.len() >= MOST {
        known.clear();
    }
    known.insert(question, answer.clone());
    drop(known);
    Ok(answer.map(|key| VolumeKey::new(SecretBytes::copied_from(&key))))
}

/// Adds a key slot for `passphrase`, in `slot` or the first free one, to a header whose volume key has
/// this number.
pub(crate) fn add_key(
    backend: &dyn Backend,
    number: u8,
    passphrase: &str,
    slot: Option<u8>,
) -> Result<(), Refused> {
    let device = LuksDevice::read(backend).map_err(refused)?;
    let mut header = device.header().clone();
    let key = volume_key(number);
    let plan = header
        .add_keyslot(&key, &secret(passphrase), &new_keyslot(slot))
        .map_err(refused)?;
    LuksDevice::write(&plan, backend).map_err(refused)
}
