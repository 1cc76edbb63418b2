//! A LUKS2 header as text.

use std::fmt::{self, Write};

use scrim_foreign::Foreign;
use serde_json::Value;

use super::hex::Hex;
use crate::digest::Digest;
use crate::kdf::Argon2Cost;
use crate::keyslot::{KdfParameters, Keyslot, KeyslotKind, PassphraseSlot, Priority};
use crate::on_disk::luks2::Header;
use crate::segment::{Segment, SegmentKind, SegmentLength};
use crate::token::Token;

/// Before the second line of bytes.
const INDENT: &str = "\t            ";

pub(super) fn write(f: &mut impl Write, header: &Header) -> fmt::Result {
    let metadata = header.metadata();
    writeln!(f, "LUKS header information")?;
    writeln!(f, "Version:       \t2")?;
    writeln!(f, "Epoch:         \t{}", header.seqid())?;
    writeln!(f, "Metadata area: \t{} [bytes]", header.metadata_size())?;
    writeln!(f, "Keyslots area: \t{} [bytes]", header.keyslots_size())?;
    writeln!(
        f,
        "UUID:          \t{}",
        or(Some(header.uuid()), "(no UUID)")
    )?;
    writeln!(f, "Label:         \t{}", or(header.label(), "(no label)"))?;
    let subsystem = or(header.subsystem(), "(no subsystem)");
    writeln!(f, "Subsystem:     \t{subsystem}")?;
    write!(f, "Flags:       \t")?;
    if metadata.flags.is_empty() {
        write!(f, "(no flags)")?;
    }
    words(f, &metadata.flags)?;
    if !metadata.requirements.is_empty() {
        write!(f, "Requirements:\t")?;
        words(f, &metadata.requirements)?;
    }
    writeln!(f, "\nData segments:")?;
    for segment in &metadata.segments {
        write_segment(f, segment)?;
    }
    writeln!(f, "Keyslots:")?;
    for slot in &metadata.keyslots {
        write_keyslot(f, header, slot)?;
    }
    writeln!(f, "Tokens:")?;
    for token in &metadata.tokens {
        write_token(f, token)?;
    }
    writeln!(f, "Digests:")?;
    for digest in &metadata.digests {
        write_digest(f, digest)?;
    }
    Ok(())
}

fn or<'a>(text: Option<Foreign<&'a str>>, otherwise: &'a str) -> Foreign<&'a str> {
    text.filter(|text| *text != "")
        .unwrap_or(Foreign::new(otherwise))
}

/// Each word with a space behind it, then the end of the line.
fn words(f: &mut impl Write, words: &[String]) -> fmt::Result {
    for word in words {
        write!(f, "{word} ")?;
    }
    writeln!(f)
}

fn write_segment(f: &mut impl Write, segment: &Segment) -> fmt::Result {
    let kind = match &segment.kind {
        SegmentKind::Crypt(_) => "crypt",
        SegmentKind::Other(kind) => kind,
    };
    writeln!(f, "  {}: {kind}", segment.id)?;
    writeln!(f, "\toffset: {} [bytes]", segment.offset)?;
    match segment.length {
        SegmentLength::Dynamic => writeln!(f, "\tlength: (whole device)")?,
        SegmentLength::Fixed(length) => writeln!(f, "\tlength: {length} [bytes]")?,
    }
    if let SegmentKind::Crypt(crypt) = &segment.kind {
        writeln!(f, "\tcipher: {}", crypt.cipher)?;
        writeln!(f, "\tsector: {} [bytes]", crypt.sector_size)?;
        if let Some(integrity) = &crypt.integrity {
            writeln!(f, "\tintegrity: {integrity}")?;
        }
    }
    if !segment.flags.is_empty() {
        writeln!(f, "\tflags : {}", segment.flags.join(", "))?;
    }
    writeln!(f)
}

fn write_keyslot(f: &mut impl Write, header: &Header, slot: &Keyslot) -> fmt::Result {
    let metadata = header.metadata();
    let digest = metadata
        .digests
        .iter()
        .find(|digest| digest.keyslots.contains(&slot.id));
    let bound = digest.is_some_and(|digest| {
        let mut in_use = metadata.segments_in_use();
        in_use.any(|segment| digest.segments.contains(&segment.id))
    });
    let kind = match &slot.kind {
        KeyslotKind::Passphrase(_) => "luks2",
        KeyslotKind::Other(kind) => kind,
    };
    let unbound = if bound { "" } else { " (unbound)" };
    let priority = match slot.priority {
        Priority::Ignore => "ignored",
        Priority::Normal => "normal",
        Priority::Prefer => "preferred",
    };
    writeln!(f, "  {}: {kind}{unbound}", slot.id)?;
    writeln!(f, "\tKey:        {} bits", 8 * slot.key_size)?;
    writeln!(f, "\tPriority:   {priority}")?;
    match &slot.kind {
        KeyslotKind::Passphrase(sealed) => write_passphrase_slot(f, sealed)?,
        KeyslotKind::Other(_) => write_reencrypt_slot(f, header, slot.id)?,
    }
    writeln!(f, "\tArea offset:{} [bytes]", slot.area.start)?;
    let area_len = slot.area.end - slot.area.start;
    writeln!(f, "\tArea length:{area_len} [bytes]")?;
    match digest {
        Some(digest) => writeln!(f, "\tDigest ID:  {}", digest.id),
        None => Ok(()),
    }
}

fn write_passphrase_slot(f: &mut impl Write, slot: &PassphraseSlot) -> fmt::Result {
    writeln!(f, "\tCipher:     {}", slot.cipher)?;
    writeln!(f, "\tCipher key: {} bits", 8 * slot.cipher_key_size)?;
    match &slot.kdf {
        KdfParameters::Pbkdf2 { hash, iterations } => {
            writeln!(f, "\tPBKDF:      pbkdf2")?;
            writeln!(f, "\tHash:       {hash}")?;
            writeln!(f, "\tIterations: {iterations}")?;
        }
        KdfParameters::Argon2i(cost) => write_argon2(f, "argon2i", cost)?,
        KdfParameters::Argon2id(cost) => write_argon2(f, "argon2id", cost)?,
        KdfParameters::Other(name) => writeln!(f, "\tPBKDF:      {name}")?,
    }
    writeln!(f, "\tSalt:       {}", hex(&slot.salt))?;
    writeln!(f, "\tAF stripes: {}", slot.af_stripes)?;
    writeln!(f, "\tAF hash:    {}", slot.af_hash)
}

fn write_argon2(f: &mut impl Write, name: &str, cost: &Argon2Cost) -> fmt::Result {
    writeln!(f, "\tPBKDF:      {name}")?;
    writeln!(f, "\tTime cost:  {}", cost.time)?;
    writeln!(f, "\tMemory:     {}", cost.memory_kib)?;
    writeln!(f, "\tThreads:    {}", cost.lanes)
}

/// The members that a slot of type `reencrypt` has, as far as they are there.
fn write_reencrypt_slot(f: &mut impl Write, header: &Header, id: u8) -> fmt::Result {
    let keyslots = header.document().get("keyslots");
    let slot = keyslots.and_then(|slots| slots.get(id.to_string()));
    let slot = slot.unwrap_or(&Value::Null);
    let area = &slot["area"];
    let members = [
        ("Mode:       ", &slot["mode"], ""),
        ("Direction:  ", &slot["direction"], ""),
        ("Resilience: ", &area["type"], ""),
        ("Hash:       ", &area["hash"], ""),
        ("Hash data:  ", &area["sector_size"], " [bytes]"),
        ("Shift size: ", &area["shift_size"], " [bytes]"),
    ];
    for (label, value, unit) in members {
        match value {
            Value::String(text) => writeln!(f, "\t{label}{}{unit}", Foreign::new(text))?,
            Value::Number(number) => writeln!(f, "\t{label}{number}{unit}")?,
            _ => {}
        }
    }
    Ok(())
}

fn write_token(f: &mut impl Write, token: &Token) -> fmt::Result {
    writeln!(f, "  {}: {}", token.id, token.kind)?;
    if token.kind == "luks2-keyring"
        && let Some(description) = token.json.by_ref().raw()["key_description"].as_str()
    {
        writeln!(f, "\tKey description: {}", Foreign::new(description))?;
    }
    for slot in &token.keyslots {
        writeln!(f, "\tKeyslot:    {slot}")?;
    }
    Ok(())
}

fn write_digest(f: &mut impl Write, digest: &Digest) -> fmt::Result {
    writeln!(f, "  {}: pbkdf2", digest.id)?;
    writeln!(f, "\tHash:       {}", digest.hash)?;
    writeln!(f, "\tIterations: {}", digest.iterations)?;
    writeln!(f, "\tSalt:       {}", hex(&digest.salt))?;
    writeln!(f, "\tDigest:     {}", hex(&digest.value))
}

fn hex(bytes: &[u8]) -> Hex<'_> {
    Hex {
        bytes,
        per_line: 16,
        indent: INDENT,
    }
}
