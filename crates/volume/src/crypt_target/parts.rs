//! Ranges, cut to what is carried out at once.

use crate::range_lock::STRIPE;

/// A range cut into runs of whole sectors, which end at multiples of `most` bytes and so lie within
/// one [`STRIPE`], and parts of sectors at its ends.
#[derive(Clone)]
pub(crate) struct Parts {
    /// Offset from the target's start, in bytes.
    pub(crate) offset: u64,
    /// Number of bytes left.
    pub(crate) left: usize,
    /// Size of a sector in bytes, a power of two.
    pub(crate) sector_size: usize,
    /// Most bytes of a part, a power of two that divides [`STRIPE`].
    pub(crate) most: usize,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Offset from the target's start, in bytes.
    pub(crate) offset: u64,
    pub(crate) len: usize,
    /// True if it is a run of whole sectors, and not a part of one.
    pub(crate) whole: bool,
}

impl Iterator for Parts {
    type Item = Part;

    fn next(&mut self) -> Option<Part> {
        debug_assert!(STRIPE.is_multiple_of(self.most as u64));
        if self.left == 0 {
            return None;
        }
        // Masks: divisions would cost a short request more than all else that is done for it here.
        let (sector, most) = (self.sector_size - 1, self.most - 1);
        #[allow(clippy::cast_possible_truncation, reason = "below `most`")]
        let (in_sector, in_run) = (
            (self.offset & sector as u64) as usize,
            (self.offset & most as u64) as usize,
        );
        let whole = in_sector == 0 && self.left >= self.sector_size;
        let len = if whole {
            self.left.min(self.most - in_run) & !sector
        } else {
            self.left.min(self.sector_size - in_sector)
        };
        let part = Part {
            offset: self.offset,
            len,
            whole,
        };
        self.offset += len as u64;
        self.left -= len;
        Some(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = 32 << 10;

    fn parts(offset: u64, left: usize, sector_size: usize) -> Vec<(u64, usize, bool)> {
        let parts = Parts {
            offset,
            left,
            sector_size,
            most: MOST,
        };
        parts.map(|p| (p.offset, p.len, p.whole)).collect()
    }

    #[test]
    fn aligned_ranges_become_whole_pieces() {
        assert_eq!(parts(0, 0, 512), []);
        assert_eq!(parts(512, 4096, 512), [(512, 4096, true)]);
        assert_eq!(
            parts(4096, MOST, 4096),
            [(4096, MOST - 4096, true), (MOST as u64, 4096, true)]
        );
    }

    #[test]
    fn edges_become_parts_of_sectors() {
        assert_eq!(parts(5, 3, 512), [(5, 3, false)]);
        assert_eq!(
            parts(100, 1500, 512),
            [(100, 412, false), (512, 1024, true), (1536, 64, false)]
        );
        assert_eq!(
            parts(4000, 200, 4096),
            [(4000, 96, false), (4096, 104, false)]
        );
    }
}
