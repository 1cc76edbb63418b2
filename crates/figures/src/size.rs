//! Numbers of bytes as people say them.

use std::fmt;

/// A number of bytes, shown in the largest binary unit of which there is at least one, rounded down, with one decimal
/// below 10.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    bytes: u64,
}

impl Size {
    /// The size of memory or storage, counted in bytes.
    #[must_use]
    pub const fn of_bytes(bytes: u64) -> Self {
        Self { bytes }
    }

    /// The size of memory that Argon2 counts in KiB.
    #[must_use]
    pub const fn of_kib(kib: u32) -> Self {
        Self {
            bytes: (kib as u64) << 10,
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        if self.bytes < 1024 {
            return write!(f, "{} B", self.bytes);
        }
        let mut tenths = u128::from(self.bytes) * 10 / 1024;
        let mut unit = 0;
        while tenths >= 10_240 {
            tenths /= 1024;
            unit += 1;
        }
        match tenths {
            100.. => write!(f, "{} {}", tenths / 10, UNITS[unit]),
            _ => write!(f, "{}.{} {}", tenths / 10, tenths % 10, UNITS[unit]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_in_the_largest_unit_that_fits() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (10_239, "9.9 KiB"),
            (10_240, "10 KiB"),
            (65_536, "64 KiB"),
            (1_048_575, "1023 KiB"),
            (1_048_576, "1.0 MiB"),
            (8 << 20, "8.0 MiB"),
            (1 << 30, "1.0 GiB"),
            (1_610_612_736, "1.5 GiB"),
            (15 << 30, "15 GiB"),
            (u64::MAX, "15 EiB"),
        ] {
            assert_eq!(Size::of_bytes(bytes).to_string(), text);
        }
        assert_eq!(Size::of_kib(u32::MAX).to_string(), "3.9 TiB");
    }
}
