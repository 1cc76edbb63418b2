//! The JSON metadata (LUKS2 specification, chapter 3), parsed into types and checked as a whole.

use std::ops::Range;

use scrim_foreign::Foreign;
use serde_json::{Map, Value};

use super::binary::BINARY_SIZE;
use super::limits::{MAX_DIGESTS, MAX_KEYSLOTS, MAX_KEYSLOTS_SIZE, MAX_SEGMENTS, MAX_TOKENS};
use super::node::Node;
use crate::af::{self, STRIPES};
use crate::digest::Digest;
use crate::error::{JsonFault, Problem};
use crate::kdf::Argon2Cost;
use crate::keyslot::{KdfParameters, Keyslot, KeyslotKind, MAX_KEY_SIZE, PassphraseSlot, Priority};
use crate::metadata::Metadata;
use crate::segment::{CryptSegment, Segment, SegmentKind, SegmentLength};
use crate::token::Token;

/// Longest key that a key slots area has room for, in bytes. It encrypts nothing here: it is stored
/// for other programs, in an unbound key slot.
const MAX_STORED_KEY: u32 = (128 << 20) / STRIPES;
/// Fewest and most bytes of a salt: Argon2 asks for 8, cryptsetup makes 32.
const SALT: std::ops::RangeInclusive<usize> = 8..=64;
/// Fewest and most bytes of a digest: fewer would match too many keys by chance, and no hash here
/// is longer.
const DIGEST: std::ops::RangeInclusive<usize> = 16..=64;

/// The one type of token that LUKS2 defines.
const KEYRING: &str = "luks2-keyring";

/// Bytes on the header device that the JSON must agree with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Areas {
    /// Size of one header copy.
    pub(super) hdr_size: u64,
    /// Size of the key slots area behind both.
    pub(super) keyslots_size: u64,
}

impl Areas {
    /// Range of the key slots area.
    pub(super) fn keyslots(self) -> Range<u64> {
        // `hdr_size` is at most 4 MiB, `keyslots_size` at most 128 MiB.
        let start = 2 * self.hdr_size;
        start..start + self.keyslots_size
    }
}

/// Reads and checks the whole document.
pub(super) fn parse(
    document: &Map<String, Value>,
    hdr_size: u64,
) -> Result<(Metadata, Areas), JsonFault> {
    let config = parse_config(document, hdr_size)?;
    let metadata = Metadata {
        keyslots: Node::of_root(document, "keyslots")?
            .numbered(MAX_KEYSLOTS)?
            .iter()
            .map(|(id, node)| parse_keyslot(*id, node))
            .collect::<Result<_, _>>()?,
        digests: Node::of_root(document, "digests")?
            .numbered(MAX_DIGESTS)?
            .iter()
            .map(|(id, node)| parse_digest(*id, node))
            .collect::<Result<_, _>>()?,
        segments: Node::of_root(document, "segments")?
            .numbered(MAX_SEGMENTS)?
            .iter()
            .map(|(id, node)| parse_segment(*id, node))
            .collect::<Result<_, _>>()?,
        tokens: Node::of_root(document, "tokens")?
            .numbered(MAX_TOKENS)?
            .iter()
            .map(|(id, node)| parse_token(*id, node))
            .collect::<Result<_, _>>()?,
        flags: config.flags,
        requirements: config.requirements,
    };
    check_references(&metadata)?;
    check_keyslot_areas(&metadata, config.areas)?;
    check_segments(&metadata)?;
    check_data_offset(&metadata, config.areas)?;
    Ok((metadata, config.areas))
}

struct Config {
    areas: Areas,
    flags: Vec<String>,
    requirements: Vec<String>,
}

fn parse_config(document: &Map<String, Value>, hdr_size: u64) -> Result<Config, JsonFault> {
    let config = Node::of_root(document, "config")?;
    let json_size = config.get("json_size")?;
    let (value, expected) = (json_size.decimal()?, hdr_size - BINARY_SIZE as u64);
    if value != expected {
        return Err(json_size.fault(Problem::Mismatch { value, expected }));
    }
    let keyslots_size = config.get("keyslots_size")?;
    let value = keyslots_size.decimal()?;
    if value > MAX_KEYSLOTS_SIZE {
        let allowed = 0..=MAX_KEYSLOTS_SIZE;
        return Err(keyslots_size.fault(Problem::OutOfRange { value, allowed }));
    }
    if !value.is_multiple_of(4096) {
        return Err(keyslots_size.fault(Problem::Expected("a multiple of 4096")));
    }
    let requirements = match config.find("requirements")? {
        Some(requirements) => words(requirements.find("mandatory")?)?,
        None => Vec::new(),
    };
    Ok(Config {
        areas: Areas {
            hdr_size,
            keyslots_size: value,
        },
        flags: words(config.find("flags")?)?,
        requirements,
    })
}

/// An array of words that need not be there.
fn words(node: Option<Node<'_>>) -> Result<Vec<String>, JsonFault> {
    let Some(node) = node else {
        return Ok(Vec::new());
    };
    let words = node.array(64)?;
    words
        .iter()
        .map(|word| Ok(word.text()?.to_owned()))
        .collect()
}

/// LUKS2 specification, section 3.2.
fn parse_keyslot(id: u8, node: &Node<'_>) -> Result<Keyslot, JsonFault> {
    let area = node.get("area")?;
    let (offset, size) = (area.get("offset")?.decimal()?, area.get("size")?);
    let end = offset
        .checked_add(size.decimal()?)
        .filter(|end| *end > offset)
        .ok_or_else(|| size.fault(Problem::Expected("a size that a device can have")))?;
    let key_size = node.get("key_size")?.number(1..=MAX_STORED_KEY)?;
    let kind = match node.get("type")?.text()? {
        "luks2" => KeyslotKind::Passphrase(parse_passphrase_slot(node, &area)?),
        other => KeyslotKind::Other(other.to_owned()),
    };
    if matches!(kind, KeyslotKind::Passphrase(_)) {
        let need = af::material_len(key_size as usize) as u64;
        if end - offset < need {
            return Err(size.fault(Problem::AreaTooSmall { need }));
        }
    }
    let priority = match node.find("priority")? {
        None => Priority::Normal,
        Some(priority) => match priority.number(0..=2)? {
            0 => Priority::Ignore,
            1 => Priority::Normal,
            _ => Priority::Prefer,
        },
    };
    Ok(Keyslot {
        id,
        key_size,
        priority,
        area: offset..end,
        kind,
    })
}

fn parse_passphrase_slot(node: &Node<'_>, area: &Node<'_>) -> Result<PassphraseSlot, JsonFault> {
    expect_type(area, "raw")?;
    let af = node.get("af")?;
    expect_type(&af, "luks1")?;
    let kdf = node.get("kdf")?;
    Ok(PassphraseSlot {
        cipher: area.get("encryption")?.text()?.to_owned(),
        cipher_key_size: area.get("key_size")?.number(1..=MAX_KEY_SIZE)?,
        kdf: parse_kdf(&kdf)?,
        salt: kdf.get("salt")?.bytes(SALT)?,
        af_stripes: af.get("stripes")?.number(STRIPES..=STRIPES)?,
        af_hash: af.get("hash")?.text()?.to_owned(),
    })
}

fn parse_kdf(kdf: &Node<'_>) -> Result<KdfParameters, JsonFault> {
    let count = |name: &str| kdf.get(name)?.number(1..=u32::MAX);
    let argon2 = || {
        Ok(Argon2Cost {
            time: count("time")?,
            memory_kib: count("memory")?,
            lanes: count("cpus")?,
        })
    };
    let kind = kdf.get("type")?;
    match kind.text()? {
        "pbkdf2" => Ok(KdfParameters::Pbkdf2 {
            hash: kdf.get("hash")?.text()?.to_owned(),
            iterations: count("iterations")?,
        }),
        "argon2i" => argon2().map(KdfParameters::Argon2i),
        "argon2id" => argon2().map(KdfParameters::Argon2id),
        // A later version may know it: the header and its other key slots are sound.
        other => Ok(KdfParameters::Other(other.to_owned())),
    }
}

/// LUKS2 specification, section 3.4.
fn parse_digest(id: u8, node: &Node<'_>) -> Result<Digest, JsonFault> {
    expect_type(node, "pbkdf2")?;
    Ok(Digest {
        id,
        hash: node.get("hash")?.text()?.to_owned(),
        iterations: node.get("iterations")?.number(1..=u32::MAX)?,
        salt: node.get("salt")?.bytes(SALT)?,
        value: node.get("digest")?.bytes(DIGEST)?,
        keyslots: node.get("keyslots")?.ids(MAX_KEYSLOTS)?,
        segments: node.get("segments")?.ids(MAX_SEGMENTS)?,
    })
}

/// LUKS2 specification, section 3.3.
fn parse_segment(id: u8, node: &Node<'_>) -> Result<Segment, JsonFault> {
    let offset = node.get("offset")?;
    let size = node.get("size")?;
    let length = match size.value().as_str() {
        Some("dynamic") => SegmentLength::Dynamic,
        _ => SegmentLength::Fixed(size.decimal()?),
    };
    let mut segment = Segment {
        id,
        offset: multiple_of_512(&offset, offset.decimal()?)?,
        length,
        flags: words(node.find("flags")?)?,
        kind: SegmentKind::Other(String::new()),
    };
    segment.kind = match node.get("type")?.text()? {
        "crypt" => SegmentKind::Crypt(parse_crypt(node)?),
        other => SegmentKind::Other(other.to_owned()),
    };
    if let SegmentLength::Fixed(length) = length {
        multiple_of_512(&size, length)?;
        // One that no device can have is found when the device is compared with it, as in cryptsetup.
        if length == 0 {
            return Err(size.fault(Problem::Expected("a size that a device can have")));
        }
    }
    Ok(segment)
}

fn parse_crypt(node: &Node<'_>) -> Result<CryptSegment, JsonFault> {
    let sector_size = node.get("sector_size")?;
    let bytes = sector_size.number(512..=4096)?;
    if !bytes.is_power_of_two() {
        return Err(sector_size.fault(Problem::Expected("512, 1024, 2048 or 4096")));
    }
    let integrity = match node.find("integrity")? {
        Some(integrity) => Some(integrity.get("type")?.text()?.to_owned()),
        None => None,
    };
    Ok(CryptSegment {
        cipher: node.get("encryption")?.text()?.to_owned(),
        iv_tweak: node.get("iv_tweak")?.decimal()?,
        sector_size: bytes,
        integrity,
    })
}

fn multiple_of_512(node: &Node<'_>, value: u64) -> Result<u64, JsonFault> {
    if value.is_multiple_of(512) {
        Ok(value)
    } else {
        Err(node.fault(Problem::Expected("a multiple of 512")))
    }
}

/// LUKS2 specification, section 3.5.
fn parse_token(id: u8, node: &Node<'_>) -> Result<Token, JsonFault> {
    Ok(Token {
        id,
        kind: Foreign::new(node.get("type")?.string()?.to_owned()),
        keyslots: node.get("keyslots")?.ids(MAX_KEYSLOTS)?,
        json: Foreign::new(node.value().clone()),
    })
}

/// Checks a token that is in no header yet.
pub(super) fn check_token(token: &Value) -> Result<(), JsonFault> {
    parse_token(0, &Node::of_value("token", token)).map(|_| ())
}

/// Checks a token from a file beyond that, as cryptsetup does: types that begin with `luks2-` are its
/// own, and of these there is one.
pub(super) fn check_new_token(token: &Value) -> Result<(), JsonFault> {
    let node = Node::of_value("token", token);
    let kind = node.get("type")?;
    match kind.string()? {
        "" => Err(kind.fault(Problem::Expected("a name"))),
        KEYRING => {
            node.get("key_description")?.string()?;
            let limit = 3;
            match node.object()?.len() {
                3 => Ok(()),
                _ => Err(node.fault(Problem::TooMany { limit })),
            }
        }
        other if other.starts_with("luks2-") => Err(kind.fault(Problem::Unknown(other.to_owned()))),
        _ => Ok(()),
    }
}

fn expect_type(node: &Node<'_>, expected: &str) -> Result<(), JsonFault> {
    let kind = node.get("type")?;
    match kind.text()? {
        kind if kind == expected => Ok(()),
        other => Err(kind.fault(Problem::Unknown(other.to_owned()))),
    }
}

/// Whatever names a key slot or a segment names one that exists, and a key slot holds one key, which a
/// digest knows.
fn check_references(metadata: &Metadata) -> Result<(), JsonFault> {
    let keyslot = |id: &u8| metadata.keyslots.iter().any(|slot| slot.id == *id);
    let segment = |id: &u8| metadata.segments.iter().any(|segment| segment.id == *id);
    let dangling = |path: String, to: String| JsonFault {
        path,
        problem: Problem::Dangling { to },
    };
    for token in &metadata.tokens {
        if let Some(id) = token.keyslots.iter().find(|id| !keyslot(id)) {
            let path = format!("tokens.{}.keyslots", token.id);
            return Err(dangling(path, format!("keyslots.{id}")));
        }
    }
    for digest in &metadata.digests {
        let keyslots = format!("digests.{}.keyslots", digest.id);
        if let Some(id) = digest.keyslots.iter().find(|id| !keyslot(id)) {
            return Err(dangling(keyslots, format!("keyslots.{id}")));
        }
        if let Some(id) = digest.segments.iter().find(|id| !segment(id)) {
            let path = format!("digests.{}.segments", digest.id);
            return Err(dangling(path, format!("segments.{id}")));
        }
        let earlier = metadata
            .digests
            .iter()
            .take_while(|other| other.id != digest.id);
        for other in earlier {
            if digest.keyslots.iter().any(|id| other.keyslots.contains(id)) {
                let other = format!("digests.{}", other.id);
                return Err(JsonFault {
                    path: keyslots,
                    problem: Problem::Twice { other },
                });
            }
        }
    }
    for slot in &metadata.keyslots {
        let mut digests = metadata.digests.iter();
        if matches!(slot.kind, KeyslotKind::Passphrase(_))
            && !digests.any(|digest| digest.keyslots.contains(&slot.id))
        {
            return Err(JsonFault {
                path: format!("keyslots.{}", slot.id),
                problem: Problem::Expected("named by a digest"),
            });
        }
    }
    Ok(())
}

/// Key slot areas lie in the area for them and share no byte.
fn check_keyslot_areas(metadata: &Metadata, areas: Areas) -> Result<(), JsonFault> {
    let bounds = areas.keyslots();
    let path = |slot: &Keyslot| format!("keyslots.{}.area", slot.id);
    for slot in &metadata.keyslots {
        if slot.area.start < bounds.start || slot.area.end > bounds.end {
            return Err(JsonFault {
                path: path(slot),
                problem: Problem::Outside {
                    range: (slot.area.start, slot.area.end),
                    bounds: (bounds.start, bounds.end),
                },
            });
        }
    }
    let mut by_start: Vec<&Keyslot> = metadata.keyslots.iter().collect();
    by_start.sort_by_key(|slot| (slot.area.start, slot.area.end));
    for pair in by_start.windows(2) {
        if let [first, second] = pair
            && first.area.end > second.area.start
        {
            return Err(JsonFault {
                path: path(second),
                problem: Problem::Overlaps { other: path(first) },
            });
        }
    }
    Ok(())
}

/// The area for key slots ends before the data, as cryptsetup demands even of a detached header:
/// what is between the key slots may be overwritten. Data from byte 0 has a device of its own, which
/// [`DataSegment::extent`](crate::DataSegment::extent) sees to.
fn check_data_offset(metadata: &Metadata, areas: Areas) -> Result<(), JsonFault> {
    let keyslots = areas.keyslots();
    let offsets = metadata.segments_in_use().map(|segment| segment.offset);
    match offsets.min() {
        Some(data) if data > 0 && data < keyslots.end => Err(JsonFault {
            path: "config.keyslots_size".to_owned(),
            problem: Problem::Outside {
                range: (keyslots.start, keyslots.end),
                bounds: (keyslots.start, data),
            },
        }),
        _ => Ok(()),
    }
}

/// Segments are numbered from 0 on, and those in use share no byte.
fn check_segments(metadata: &Metadata) -> Result<(), JsonFault> {
    let path = |segment: &Segment| format!("segments.{}", segment.id);
    let mut numbered = (0..).zip(&metadata.segments);
    if let Some((_, segment)) = numbered.find(|(number, segment)| *number != segment.id) {
        return Err(JsonFault {
            path: path(segment),
            problem: Problem::Expected("numbered without a gap from 0 on"),
        });
    }
    let end = |segment: &Segment| match segment.length {
        SegmentLength::Dynamic => u64::MAX,
        SegmentLength::Fixed(length) => segment.offset.saturating_add(length),
    };
    let mut by_start: Vec<&Segment> = metadata.segments_in_use().collect();
    by_start.sort_by_key(|segment| (segment.offset, end(segment)));
    for pair in by_start.windows(2) {
        if let [first, second] = pair
            && end(first) > second.offset
        {
            return Err(JsonFault {
                path: path(second),
                problem: Problem::Overlaps { other: path(first) },
            });
        }
    }
    Ok(())
}
