//! Size of the largest processor cache: a buffer must be larger to come from memory.

use std::fs;

/// Bytes of the largest cache that the first processor uses, where the machine tells.
pub(crate) fn largest() -> Option<u64> {
    let levels = fs::read_dir("/sys/devices/system/cpu/cpu0/cache").ok()?;
    let sizes = levels.flatten().filter_map(|level| {
        let size = fs::read_to_string(level.path().join("size")).ok()?;
        parse(&size)
    });
    sizes.max()
}

/// `107520K`, or with M or G.
fn parse(size: &str) -> Option<u64> {
    let size = size.trim();
    let shift = match size.chars().next_back()? {
        'K' => 10,
        'M' => 20,
        'G' => 30,
        _ => return None,
    };
    let number: u64 = size[..size.len() - 1].parse().ok()?;
    number.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_a_unit() {
        assert_eq!(parse("48K\n"), Some(48 << 10));
        assert_eq!(parse("36M"), Some(36 << 20));
        for nonsense in ["", "K", "12", "x1K", "9999999999999999999K", "1é"] {
            assert_eq!(parse(nonsense), None, "{nonsense}");
        }
    }
}
