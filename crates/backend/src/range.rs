//! Ranges cut into what a server, or a device past the page cache, takes.

use std::ops::Range;

/// Part of a range, and the blocks that it lies in, all in bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) offset: u64,
    pub(crate) len: usize,
    /// Range of the blocks that the part lies in.
    pub(crate) whole: Range<u64>,
}

impl Piece {
    /// Returns whether it is whole blocks.
    pub(crate) fn is_aligned(&self) -> bool {
        self.whole.start == self.offset && self.whole_len() == self.len
    }

    /// The length of its blocks, in bytes.
    pub(crate) fn whole_len(&self) -> usize {
        to_len(self.whole.end - self.whole.start)
    }

    /// Returns the place of the range in its blocks.
    pub(crate) fn within(&self) -> Range<usize> {
        let start = to_len(self.offset - self.whole.start);
        start..start + self.len
    }
}

/// No piece is longer than 4 GiB.
fn to_len(len: u64) -> usize {
    usize::try_from(len).unwrap_or(usize::MAX)
}

/// Cuts a range where multiples of `most` are; `most` is a multiple of `align`. Only the first and the
/// last piece can be other than whole blocks.
pub(crate) fn pieces(offset: u64, len: u64, align: u32, most: u32) -> impl Iterator<Item = Piece> {
    let (align, most) = (u64::from(align), u64::from(most));
    let end = offset + len;
    let mut at = offset;
    std::iter::from_fn(move || {
        if at >= end {
            return None;
        }
        let next = end.min((at / most + 1) * most);
        let piece = Piece {
            offset: at,
            len: to_len(next - at),
            whole: at / align * align..next.next_multiple_of(align),
        };
        at = next;
        Some(piece)
    })
}

/// The whole blocks within a range.
pub(crate) fn inner(range: &Range<u64>, align: u32) -> Range<u64> {
    let align = u64::from(align);
    let start = range.start.next_multiple_of(align);
    let end = range.end / align * align;
    start..end.max(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(offset: u64, len: u64) -> Vec<(u64, usize, bool)> {
        let pieces = pieces(offset, len, 512, 2048);
        pieces.map(|p| (p.offset, p.len, p.is_aligned())).collect()
    }

    #[test]
    fn whole_blocks_are_cut_at_the_largest_request() {
        assert_eq!(cut(512, 0), []);
        assert_eq!(cut(0, 2048), [(0, 2048, true)]);
        assert_eq!(
            cut(512, 4096),
            [(512, 1536, true), (2048, 2048, true), (4096, 512, true)]
        );
    }

    #[test]
    fn edges_lie_in_the_blocks_around_them() {
        assert_eq!(cut(100, 2000), [(100, 1948, false), (2048, 52, false)]);
        let piece = pieces(700, 10, 512, 2048).next().unwrap();
        assert_eq!((piece.whole.clone(), piece.within()), (512..1024, 188..198));
    }

    #[test]
    fn whole_blocks_within_a_range_may_be_none() {
        assert_eq!(inner(&(0..1024), 512), 0..1024);
        assert_eq!(inner(&(1..1535), 512), 512..1024);
        assert!(inner(&(513..1023), 512).is_empty());
    }
}
