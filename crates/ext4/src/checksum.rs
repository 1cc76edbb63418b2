//! CRC-32C as ext4 uses it: begun with a seed, and not inverted at the end.

/// Remainders that are added for each byte (Castagnoli's polynomial, reflected).
const TABLE: [u32; 256] = table();

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        #[allow(clippy::cast_possible_truncation, reason = "below 256")]
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 {
                (crc >> 1) ^ 0x82f6_3b78
            } else {
                crc >> 1
            };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
}

/// Goes on from `crc` over `bytes`.
pub(crate) fn crc32c(crc: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(crc, |crc, &byte| {
        let [low, ..] = (crc ^ u32::from(byte)).to_le_bytes();
        TABLE[usize::from(low)] ^ (crc >> 8)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standards_example_comes_out() {
        assert_eq!(!crc32c(!0, b"123456789"), 0xe306_9283);
    }
}
