//! The two copies of a LUKS2 header.

use std::fmt;

/// The sizes that a copy with its JSON area may have, and so the offsets at which a secondary may lie.
pub(crate) const LUKS2_COPY_SIZES: [u64; 9] = [
    0x4000, 0x8000, 0x1_0000, 0x2_0000, 0x4_0000, 0x8_0000, 0x10_0000, 0x20_0000, 0x40_0000,
];

/// One of the two copies of a LUKS2 header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderCopy {
    /// At the start of the device.
    Primary,
    /// Behind the primary, at a multiple of 16 KiB.
    Secondary,
}

impl fmt::Display for HeaderCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Primary => "primary",
            Self::Secondary => "secondary",
        })
    }
}
