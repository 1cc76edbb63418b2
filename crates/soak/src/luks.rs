//! Headers as the operations and histories make them: small, and cheap to unlock.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher};
use std::sync::{Mutex, PoisonError};

use scrim_backend::Backend;
use scrim_crypt::SectorSize;
use scrim_luks::kdf::{Hash, Kdf};
use scrim_luks::{Layout, NewKeyslot, Placement, UnlockError, VolumeKey, luks1, luks2};
use scrim_sys::memory::SecretBytes;
use scrim_volume::{LuksDevice, LuksError, Unlocked};

/// Reason for a failure: the text of its error.
pub(crate) type Refused = String;

pub(crate) fn refused(error: impl std::fmt::Display) -> Refused {
    error.to_string()
}

/// Every passphrase that any header here has ever had.
pub(crate) const PASSPHRASES: [&str; 3] = ["first", "second", "third"];

/// Offset of LUKS1's data: behind eight key slots of 256-bit keys.
pub(crate) const LUKS1_DATA: u64 = 4096 + 8 * KEYSLOT;
/// Offset of LUKS2's data: behind two copies and two key slots of 256-bit keys.
pub(crate) const LUKS2_DATA: u64 = luks2_data(COPY, 2);
/// Bytes of one copy of a LUKS2 header by default.
pub(crate) const COPY: u64 = 16 << 10;
/// The key slot area of a 256-bit key: 4000 stripes, in whole blocks.
const KEYSLOT: u64 = 32 * 4096;

/// Offset of LUKS2's data, with copies of `copy` bytes and room for `keyslots` key slots.
pub(crate) const fn luks2_data(copy: u64, keyslots: u64) -> u64 {
    2 * copy + keyslots * KEYSLOT
}

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
        cipher: None,
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

/// Makes a LUKS2 header with room for two key slots; `number` makes it different from others.
pub(crate) fn format2(
    backend: &dyn Backend,
    number: u8,
    passphrase: &str,
    sector_size: SectorSize,
    copy: u64,
) -> Result<(), Refused> {
    format2_with_room(backend, number, passphrase, sector_size, copy, 2)
}

/// Makes a LUKS2 header with room for `keyslots` key slots.
pub(crate) fn format2_with_room(
    backend: &dyn Backend,
    number: u8,
    passphrase: &str,
    sector_size: SectorSize,
    copy: u64,
    keyslots: u64,
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
        layout: layout(backend, luks2_data(copy, keyslots)),
        metadata_size: Some(copy),
        keyslots_size: None,
    };
    let made = luks2::format(&spec, &volume_key(number), &secret(passphrase)).map_err(refused)?;
    LuksDevice::write(&made.plan, backend).map_err(refused)
}

/// Unlocks a header, by one slot, whatever key it holds, or by any: `None` where the passphrase does
/// not. What the same bytes have said before is remembered: most of the disks that a power cut leaves
/// are alike, and key derivation takes longer than everything else together.
pub(crate) fn unlock(
    device: &LuksDevice,
    backend: &dyn Backend,
    slot: Option<u8>,
    passphrase: &str,
) -> Result<Option<VolumeKey>, Refused> {
    static KNOWN: Mutex<BTreeMap<u64, Option<Vec<u8>>>> = Mutex::new(BTreeMap::new());
    const MOST: usize = 1 << 14;

    let mut hasher = DefaultHasher::new();
    (deciding(device, backend, slot)?, slot, passphrase).hash(&mut hasher);
    let question = hasher.finish();
    let lock = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let remembered = lock().get(&question).cloned();
    let answer = match remembered {
        Some(answer) => answer,
        None => match unlock_now(device, backend, slot, passphrase) {
            Ok(unlocked) => Some(unlocked.key.expose().to_vec()),
            Err(LuksError::NoKey { .. } | LuksError::Unlock(UnlockError::NoKeyslot)) => None,
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

/// Returns what decides which passphrases open a header: for one key slot its material and what the
/// header says of it, otherwise the whole header with its key slots.
fn deciding(
    device: &LuksDevice,
    backend: &dyn Backend,
    slot: Option<u8>,
) -> Result<(String, Vec<u8>), Refused> {
    let header = device.header();
    let mut keyslots = header.keyslots().iter();
    let (text, range) = match keyslots.find(|keyslot| Some(keyslot.id) == slot) {
        Some(keyslot) => {
            let digests = header.digests();
            (format!("{keyslot:?} {digests:?}"), keyslot.material())
        }
        None => (String::new(), 0..header.header_end()),
    };
    let len = usize::try_from(range.end - range.start).map_err(refused)?;
    let mut bytes = vec![0; len];
    backend.read_at(range.start, &mut bytes).map_err(refused)?;
    Ok((text, bytes))
}

fn unlock_now(
    device: &LuksDevice,
    backend: &dyn Backend,
    slot: Option<u8>,
    passphrase: &str,
) -> Result<Unlocked, LuksError> {
    let passphrase = secret(passphrase);
    match slot {
        Some(slot) => device.unlock_keyslot(backend, slot, &passphrase),
        None => device.unlock(backend, None, &passphrase),
    }
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
    let added = header
        .add_keyslot(&key, &secret(passphrase), &new_keyslot(slot))
        .map_err(refused)?;
    LuksDevice::write(&added.plan, backend).map_err(refused)
}
