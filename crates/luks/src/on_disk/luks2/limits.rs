//! Limits of LUKS2 that cryptsetup has too.

pub(super) const MAX_KEYSLOTS: u8 = 32;
pub(super) const MAX_TOKENS: u8 = 32;
pub(super) const MAX_DIGESTS: u8 = 8;
pub(super) const MAX_SEGMENTS: u8 = 32;
/// Largest key slots area.
pub(super) const MAX_KEYSLOTS_SIZE: u64 = 128 << 20;
