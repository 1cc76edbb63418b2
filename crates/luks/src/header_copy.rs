//! The two copies of a LUKS2 header.

use std::fmt;

/// One of the two copies of a LUKS2 header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderCopy {
    /// At the start of the device.
    Primary,
    /// Behind the primary.
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
