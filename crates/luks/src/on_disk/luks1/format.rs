//! Making a LUKS1 header.

use scrim_crypt::CipherSpec;
use scrim_sys::memory::SecretBytes;

use super::Header;
use super::phdr::{KEYSLOTS, Phdr, SECTOR, SECTOR_BYTES, Slot};
use crate::af;
use crate::digest;
use crate::error::FormatError;
use crate::kdf::{Hash, Kdf};
use crate::key::VolumeKey;
use crate::keys::{NewKeyslot, Seal};
use crate::keyslot;
use crate::layout::{BLOCK, Layout, align_to_mib, align_up};
use crate::plan::{Plan, Step};
use crate::random;
use crate::uuid;

/// Where the area of the first key slot starts; each later one starts on a block too.
pub(super) const FIRST_AREA: u64 = HEADER_BLOCK as u64;
/// The header with the zeros that follow it.
const HEADER_BLOCK: usize = 4096;

/// Parameters of a new LUKS1 header.
#[derive(Debug)]
pub struct FormatSpec {
    /// Cipher of the data and of the key slots.
    pub cipher: CipherSpec,
    /// The hash of everything: key derivation, anti-forensic splitter, digest.
    pub hash: Hash,
    /// Iterations of the volume key's digest.
    pub digest_iterations: u32,
    /// PBKDF2 iterations of the first key slot.
    pub iterations: u32,
    /// Number of the first key slot; `None` is 0.
    pub slot: Option<u8>,
    /// UUID; `None` makes a random one.
    pub uuid: Option<String>,
    /// Placement of the header and its data.
    pub layout: Layout,
}

/// Makes a header with its plan.
pub(crate) fn make(
    spec: &FormatSpec,
    key: &VolumeKey,
    passphrase: &SecretBytes,
) -> Result<(Header, Plan), FormatError> {
    keyslot::check_key_size(&spec.cipher, key.len())?;
    let area_len = align_up(af::material_len(key.len()) as u64, BLOCK);
    let header_end = FIRST_AREA + u64::from(KEYSLOTS) * area_len;
    let default_offset = align_to_mib(header_end);
    let data_offset = spec
        .layout
        .data_offset(header_end, default_offset, SECTOR)?;
    let mut header = Header::from_phdr(Box::new(empty_phdr(spec, key, area_len, data_offset)?));
    let new = NewKeyslot {
        slot: spec.slot,
        kdf: Kdf::Pbkdf2 {
            hash: spec.hash,
            iterations: spec.iterations,
        },
        af_hash: spec.hash,
        cipher: None,
    };
    let slot = header.free_slot(spec.slot)?;
    let content = header.seal(&Seal::new(key, passphrase, &new, ("", key.len())))?;
    let material = header.fill(slot, &content);
    header.activate(slot);

    let wipe_end = spec.layout.wipe_end(header_end, data_offset);
    let mut steps = spec.layout.forget_old_header(wipe_end);
    steps.push(Step::Randomise {
        offset: FIRST_AREA,
        len: wipe_end - FIRST_AREA,
    });
    let mut block = header.phdr.to_bytes()?;
    block.resize(HEADER_BLOCK, 0);
    let mut without_first_sector = block.clone();
    without_first_sector[..SECTOR_BYTES].fill(0);
    steps.extend([
        material,
        Step::Write {
            offset: 0,
            bytes: without_first_sector,
        },
        Step::Sync,
        Step::Write {
            offset: 0,
            bytes: block,
        },
        Step::Sync,
    ]);
    Ok((header, Plan::new(steps)))
}

/// The header without key slots.
fn empty_phdr(
    spec: &FormatSpec,
    key: &VolumeKey,
    area_len: u64,
    data_offset: u64,
) -> Result<Phdr, FormatError> {
    let sectors = |bytes: u64| {
        u32::try_from(bytes / SECTOR).map_err(|_| FormatError::DataOffsetLuks1 { offset: bytes })
    };
    let (cipher_name, cipher_mode) = spec.cipher.to_luks();
    let salt: [u8; 32] = random::bytes()?;
    let digest = digest::compute(key, spec.hash, spec.digest_iterations, &salt, 20)
        .map_err(FormatError::Digest)?;
    let mut mk_digest = [0; 20];
    mk_digest.copy_from_slice(digest.expose());
    // The cipher takes a key of this length, so it has few bytes.
    let key_bytes = u32::try_from(key.len()).unwrap_or(u32::MAX);
    let mut slots: [Slot; KEYSLOTS as usize] = Default::default();
    for (number, slot) in (0..).zip(&mut slots) {
        slot.offset = sectors(FIRST_AREA + number * area_len)?;
    }
    Ok(Phdr {
        cipher_name: cipher_name.to_owned(),
        cipher_mode: cipher_mode.to_owned(),
        hash_spec: spec.hash.to_string(),
        payload_offset: sectors(data_offset)?,
        key_bytes,
        mk_digest,
        mk_digest_salt: salt,
        mk_digest_iterations: spec.digest_iterations,
        uuid: uuid::given_or_random(spec.uuid.as_deref(), FormatError::Uuid)?,
        slots,
    })
}
