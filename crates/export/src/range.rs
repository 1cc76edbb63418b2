//! Ranges of an export, and how long ones are cut.

/// Pieces of a long write end at multiples of this offset: a page, and whole encryption sectors.
const ALIGN: u64 = 4096;

/// A range that lies within an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) offset: u64,
    pub(crate) len: u32,
}

/// A piece of a long write that is not its last has at least this many bytes, unless it is cut at a
/// multiple of [`ALIGN`].
pub(crate) const MIN_PIECE: u32 = 32 << 10;

/// Length of the part of a payload that is written now, when `left` bytes are still to be written
/// at `offset` and `received` of them have arrived: all of these, or up to a multiple of [`ALIGN`].
pub(crate) fn aligned_part(offset: u64, left: u32, received: usize) -> u32 {
    let here = u32::try_from(received).map_or(left, |received| received.min(left));
    if here == left {
        return left;
    }
    let end = offset + u64::from(here);
    let beyond = u32::try_from(end % ALIGN).unwrap_or(0);
    if beyond < here { here - beyond } else { here }
}

/// Number of bytes that complete the last block of [`ALIGN`] bytes, or the range, when the first `received` bytes of it
/// have arrived.
pub(crate) fn missing_of_block(range: Range, received: usize) -> usize {
    let left = (range.len as usize).saturating_sub(received);
    let end = range.offset + received as u64;
    let missing = end.next_multiple_of(ALIGN) - end;
    usize::try_from(missing).map_or(left, |missing| missing.min(left))
}

/// Cuts a range of more than `size` bytes into [`pieces`]; what is no longer than that stays whole.
pub(crate) fn parts(range: Range, size: usize) -> impl Iterator<Item = Range> {
    let whole = range.len as usize <= size;
    pieces(range, if whole { usize::MAX } else { size })
}

/// Returns the first of the [`pieces`] of a range.
pub(crate) fn first_piece(range: Range, size: usize) -> Range {
    pieces(range, size).next().unwrap_or(range)
}

/// Cuts a range into pieces that end at multiples of `size` (a power of two), the last excepted.
pub(crate) fn pieces(range: Range, size: usize) -> impl Iterator<Item = Range> {
    let size = size as u64;
    let end = range.offset + u64::from(range.len);
    let mut offset = range.offset;
    std::iter::from_fn(move || {
        if offset == end {
            return None;
        }
        let piece_end = end.min((offset / size + 1).saturating_mul(size));
        let piece = Range {
            offset,
            len: u32::try_from(piece_end - offset).ok()?,
        };
        offset = piece_end;
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits;

    #[test]
    fn pieces_cover_the_range_and_end_at_multiples() {
        let cut = |offset, len| -> Vec<(u64, u32)> {
            pieces(Range { offset, len }, 4096)
                .map(|piece| (piece.offset, piece.len))
                .collect()
        };
        assert_eq!(cut(100, 0), []);
        assert_eq!(cut(0, 4096), [(0, 4096)]);
        assert_eq!(cut(4095, 4098), [(4095, 1), (4096, 4096), (8192, 1)]);
        assert_eq!(cut(u64::MAX - 2, 2), [(u64::MAX - 2, 2)]);
        let all = pieces(
            Range {
                offset: 5,
                len: u32::MAX,
            },
            limits::STEP,
        );
        assert_eq!(
            all.map(|piece| u64::from(piece.len)).sum::<u64>(),
            u64::from(u32::MAX)
        );
    }

    #[test]
    fn what_fits_stays_whole() {
        let cut = |offset, len| -> Vec<u32> {
            let all = parts(Range { offset, len }, 4096);
            all.map(|part| part.len).collect()
        };
        assert_eq!(cut(4000, 4096), [4096]);
        assert_eq!(cut(4000, 4097), [96, 4001]);
    }

    #[test]
    fn parts_of_a_long_write_end_at_whole_sectors() {
        assert_eq!(aligned_part(0, 100_000, 50_000), 49_152);
        assert_eq!(aligned_part(512, 100_000, 50_000), 48_640);
        assert_eq!(aligned_part(0, 100_000, 100_000), 100_000);
        assert_eq!(aligned_part(0, 100_000, 200_000), 100_000);
        assert_eq!(aligned_part(100, 100_000, 50), 50);
        for received in 1..9000 {
            let part = aligned_part(3, 100_000, received);
            assert!(part > 0 && part as usize <= received);
        }
    }

    #[test]
    fn a_block_is_completed_within_its_range() {
        let range = |offset, len| Range { offset, len };
        assert_eq!(missing_of_block(range(0, 100_000), 0), 0);
        assert_eq!(missing_of_block(range(0, 100_000), 4096), 0);
        assert_eq!(missing_of_block(range(0, 100_000), 4097), 4095);
        assert_eq!(missing_of_block(range(300, 100_000), 4097), 3795);
        assert_eq!(missing_of_block(range(0, 100_000), 99_000), 1000);
        assert_eq!(missing_of_block(range(0, 100_000), 100_000), 0);
    }
}
