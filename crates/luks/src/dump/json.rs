//! A header as JSON.

use scrim_foreign::Foreign;
use serde_json::{Map, Value, json};

use crate::header::Header;
use crate::on_disk::{luks1, luks2};

/// Everything in the header, as one object.
///
/// `version`, `uuid`, `label` and `subsystem` (null if not set) are there for both
/// versions. LUKS2 adds the other fields of the binary header, and under `metadata` what
/// `cryptsetup luksDump --dump-json-metadata` prints, unknown members included. LUKS1 adds its
/// fields under the names of its specification, bytes in hexadecimal, free key slots left out.
///
/// Text is as stored: show the JSON by [`scrim_foreign::json`].
#[must_use]
pub fn json(header: &Header) -> Value {
    let mut object = json!({
        "version": header.version(),
        "uuid": header.uuid().raw(),
        "label": header.label().map(Foreign::raw),
        "subsystem": header.subsystem().map(Foreign::raw),
    });
    let fields = match header {
        Header::Luks1(header) => luks1_fields(header),
        Header::Luks2(header) => luks2_fields(header),
    };
    if let Some(object) = object.as_object_mut() {
        object.extend(fields);
    }
    object
}

fn luks2_fields(header: &luks2::Header) -> Map<String, Value> {
    let fields = json!({
        "epoch": header.seqid(),
        "checksum_algorithm": header.checksum_algorithm(),
        "metadata_size": header.metadata_size(),
        "keyslots_size": header.keyslots_size(),
        "metadata": header.document(),
    });
    into_object(fields)
}

fn luks1_fields(header: &luks1::Header) -> Map<String, Value> {
    let slots = header.slots().iter().enumerate();
    let in_use = slots.filter(|(_, slot)| slot.active).map(|(number, slot)| {
        let fields = json!({
            "iterations": slot.iterations,
            "salt": hex(&slot.salt),
            "key_material_offset": slot.offset,
            "stripes": slot.stripes,
        });
        (number.to_string(), fields)
    });
    let fields = json!({
        "cipher_name": header.cipher_name(),
        "cipher_mode": header.cipher_mode(),
        "hash_spec": header.hash_spec(),
        "payload_offset": header.payload_offset(),
        "key_bytes": header.key_bytes(),
        "mk_digest": hex(header.digest()),
        "mk_digest_salt": hex(header.digest_salt()),
        "mk_digest_iterations": header.digest_iterations(),
        "keyslots": Map::from_iter(in_use),
    });
    into_object(fields)
}

fn into_object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
