//! Making a LUKS2 header.

use scrim_crypt::{CipherSpec, SectorSize};
use scrim_sys::memory::SecretBytes;
use serde_json::{Map, Value, json};

use super::Header;
use super::binary::{BINARY_SIZE, Binary};
use super::keyslots::{area_len, digest_json};
use super::limits::MAX_KEYSLOTS_SIZE;
use super::metadata::{self, Areas};
use crate::document::object;
use crate::error::{FormatError, WriteError};
use crate::flag::Flag;
use crate::header_copy::{HeaderCopy, LUKS2_COPY_SIZES};
use crate::kdf::Hash;
use crate::key::VolumeKey;
use crate::keys::{NewDigest, NewKeyslot, Seal};
use crate::keyslot;
use crate::layout::{BLOCK, DEFAULT_HEADER_END, Layout, align_to_mib};
use crate::plan::{Plan, Step};
use crate::random;
use crate::segment::Placement;
use crate::underway::Underway;
use crate::uuid;

/// Bytes of one copy unless asked otherwise.
const DEFAULT_METADATA_SIZE: u64 = 16 << 10;

/// Parameters of a new LUKS2 header.
#[derive(Debug)]
pub struct FormatSpec {
    /// Cipher of the data, and of the key slot where it may protect one.
    pub cipher: CipherSpec,
    /// Encryption sector of the data.
    pub sector_size: SectorSize,
    /// Hash of the volume key's digest.
    pub digest_hash: Hash,
    /// Iterations of that digest.
    pub digest_iterations: u32,
    /// The first key slot.
    pub keyslot: NewKeyslot,
    /// UUID; `None` makes a random one.
    pub uuid: Option<String>,
    /// Label, at most 47 bytes; empty for none.
    pub label: String,
    /// Subsystem label, at most 47 bytes; empty for none.
    pub subsystem: String,
    pub flags: Vec<Flag>,
    /// Placement of the header and its data.
    pub layout: Layout,
    /// Bytes of one copy of the header: `None` is 16 KiB.
    pub metadata_size: Option<u64>,
    /// Bytes of the key slots area: `None` is all that lies between the header and the data, or, in
    /// a detached header, what makes it 16 MiB long, or less on a device that is shorter.
    pub keyslots_size: Option<u64>,
}

/// Makes a header with its plan, and with the record of an encryption in place if that is underway.
pub(crate) fn make(
    spec: &FormatSpec,
    underway: Option<&Underway>,
    key: &VolumeKey,
    passphrase: &SecretBytes,
) -> Result<(Header, Plan), FormatError> {
    keyslot::check_key_size(&spec.cipher, key.len())?;
    let (areas, data_offset) = areas(spec, area_len(key.len()))?;
    let mut header = empty_header(spec, key, areas, data_offset)?;
    let cipher = keyslot::stored_name(&spec.cipher);
    let seal = Seal::new(key, passphrase, &spec.keyslot, (&cipher, key.len()));
    let (_, material) = header.insert_keyslot(&seal, 0)?;
    if let Some(underway) = underway {
        header.change_document(|document| underway.enter(document))?;
    }

    let header_end = areas.keyslots().end;
    let wipe_end = spec.layout.wipe_end(header_end, data_offset);
    let mut steps = spec.layout.forget_old_header(wipe_end);
    steps.push(Step::Randomise {
        offset: areas.keyslots().start,
        len: wipe_end - areas.keyslots().start,
    });
    steps.extend([material, Step::Sync]);
    for copy in [HeaderCopy::Secondary, HeaderCopy::Primary] {
        steps.extend([header.copy_step(copy)?, Step::Sync]);
    }
    Ok((header, Plan::new(steps)))
}

/// The sizes of the header, and where the data starts.
fn areas(spec: &FormatSpec, one_area: u64) -> Result<(Areas, u64), FormatError> {
    let hdr_size = spec.metadata_size.unwrap_or(DEFAULT_METADATA_SIZE);
    if !LUKS2_COPY_SIZES.contains(&hdr_size) {
        return Err(FormatError::MetadataSize(hdr_size));
    }
    let layout = &spec.layout;
    let copies = 2 * hdr_size;
    let sector_size = spec.sector_size.bytes() as u64;
    let default_offset = match spec.keyslots_size {
        Some(size) => align_to_mib(copies.saturating_add(size)),
        None => DEFAULT_HEADER_END,
    };
    let least_end = copies + one_area;
    let data_offset = layout.data_offset(least_end, default_offset, sector_size)?;
    let keyslots_size = spec.keyslots_size.unwrap_or_else(|| {
        let end = match layout.placement {
            _ if data_offset != 0 => data_offset,
            Placement::Detached if !layout.grows => layout.device_len.min(DEFAULT_HEADER_END),
            _ => DEFAULT_HEADER_END,
        };
        let room = end.saturating_sub(copies).min(MAX_KEYSLOTS_SIZE);
        (room - room % BLOCK).max(one_area)
    });
    if !keyslots_size.is_multiple_of(BLOCK)
        || !(one_area..=MAX_KEYSLOTS_SIZE).contains(&keyslots_size)
    {
        return Err(FormatError::KeyslotsSize {
            size: keyslots_size,
            least: one_area,
        });
    }
    let areas = Areas {
        hdr_size,
        keyslots_size,
    };
    // Once more, now that the size of the key slots area is known.
    layout.data_offset(areas.keyslots().end, default_offset, sector_size)?;
    Ok((areas, data_offset))
}

/// The header without key slots.
fn empty_header(
    spec: &FormatSpec,
    key: &VolumeKey,
    areas: Areas,
    data_offset: u64,
) -> Result<Header, FormatError> {
    let document = document(spec, key, areas, data_offset)?;
    let (metadata, areas) =
        metadata::parse(&document, areas.hdr_size).map_err(WriteError::Refused)?;
    Ok(Header {
        binary: Box::new(Binary {
            hdr_size: areas.hdr_size,
            seqid: 1,
            label: spec.label.clone(),
            checksum: Hash::Sha256.into(),
            uuid: uuid::given_or_random(spec.uuid.as_deref(), FormatError::Uuid)?,
            subsystem: spec.subsystem.clone(),
        }),
        document,
        metadata,
        areas,
        worse: HeaderCopy::Primary,
    })
}

fn document(
    spec: &FormatSpec,
    key: &VolumeKey,
    areas: Areas,
    data_offset: u64,
) -> Result<Map<String, Value>, FormatError> {
    let salt: [u8; 32] = random::bytes()?;
    let new = NewDigest {
        hash: spec.digest_hash,
        iterations: spec.digest_iterations,
    };
    let digest = digest_json(key, new, &salt, &["0"]).map_err(FormatError::Digest)?;
    let json_size = areas.hdr_size - BINARY_SIZE as u64;
    let mut document = json!({
        "keyslots": {},
        "tokens": {},
        "segments": {
            "0": {
                "type": "crypt",
                "offset": data_offset.to_string(),
                "size": "dynamic",
                "iv_tweak": "0",
                "encryption": keyslot::stored_name(&spec.cipher),
                "sector_size": spec.sector_size.bytes(),
            },
        },
        "digests": {
            "0": digest,
        },
        "config": {
            "json_size": json_size.to_string(),
            "keyslots_size": areas.keyslots_size.to_string(),
        },
    });
    if !spec.flags.is_empty() {
        let flags: Vec<&str> = spec.flags.iter().map(|flag| flag.name()).collect();
        document["config"]["flags"] = json!(flags);
    }
    Ok(object(&mut document))
}
