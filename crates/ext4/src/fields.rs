//! Numbers in bytes: all of ext4's are little-endian.

/// The two bytes at `at`; zero past the end of `bytes`.
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    let field = bytes.get(at..).and_then(<[u8]>::first_chunk);
    field.map_or(0, |field| u16::from_le_bytes(*field))
}

/// The four bytes at `at`; zero past the end of `bytes`.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let field = bytes.get(at..).and_then(<[u8]>::first_chunk);
    field.map_or(0, |field| u32::from_le_bytes(*field))
}

/// Joins the halves of a number that stand apart.
pub(crate) fn join(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

/// A number below a block's length, as an index.
pub(crate) fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
