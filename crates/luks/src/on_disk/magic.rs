//! The magic that starts a header, and the version behind it.

pub(crate) const MAGIC: [u8; 6] = *b"LUKS\xba\xbe";

/// The version in the header at the start of `area`, if the magic is there.
pub(crate) fn version_at_start(area: &[u8]) -> Option<u16> {
    let rest = area.strip_prefix(&MAGIC)?;
    let version = rest.first_chunk()?;
    Some(u16::from_be_bytes(*version))
}
