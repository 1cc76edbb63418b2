//! The bytes of a device at which signatures lie.

use std::borrow::Cow;
use std::ops::Range;

use super::places;
use crate::header_copy::LUKS2_COPY_SIZES;

/// Length of the start that is looked at as a whole: the superblock of Btrfs lies at 64 KiB.
const START: u64 = 0x1_1000;

/// Length of each piece behind the start, and the unit to which the pieces are aligned.
const PIECE: u64 = 4096;

const LUKS2_MAGIC: &[u8] = b"LUKS\xba\xbe\0\x02";
/// Range of the label in a LUKS2 header.
const LUKS2_LABEL: Range<u64> = 24..72;

/// Offsets behind the start at which VMFS has its signatures.
const VMFS: [u64; 2] = [0x10_0000, 0x20_0000];

/// Bytes of a device with their offset.
type Piece<'a> = (u64, Cow<'a, [u8]>);

/// Bytes of a device by which [`Signature::all`](super::Signature::all) recognises its use.
#[derive(Debug)]
pub struct Sample<'a> {
    /// The start of the device first, and then others in order.
    pieces: Vec<Piece<'a>>,
    /// Length of the device; `None` if only its start is known.
    device_len: Option<u64>,
    /// No piece was left out because it could not be read.
    is_whole: bool,
}

/// A range of a device that is read at once.
#[derive(Debug)]
struct ReadRange {
    whole: Range<u64>,
    /// The pieces that are read alone if the range cannot be read.
    parts: Vec<Range<u64>>,
}

impl Sample<'static> {
    /// Takes a sample of a device of `device_len` bytes by `read`, which fills a buffer from an offset. No read goes
    /// beyond the end of the device. What cannot be read behind the start is left out.
    ///
    /// # Errors
    /// The error of `read` for the start of the device.
    pub fn read<E>(
        device_len: u64,
        mut read: impl FnMut(u64, &mut [u8]) -> Result<(), E>,
    ) -> Result<Self, E> {
        let mut piece_at = |range: &Range<u64>| -> Result<Piece<'static>, E> {
            // Few KiB, as the constants above are.
            let mut bytes = vec![0; usize::try_from(range.end - range.start).unwrap_or_default()];
            read(range.start, &mut bytes)?;
            Ok((range.start, Cow::Owned(bytes)))
        };
        let mut pieces = vec![piece_at(&(0..device_len.min(START)))?];
        let mut is_whole = true;
        for range in ranges_behind_start(device_len) {
            if let Ok(piece) = piece_at(&range.whole) {
                pieces.push(piece);
                continue;
            }
            is_whole = false;
            if range.parts.len() > 1 {
                pieces.extend(range.parts.iter().filter_map(|part| piece_at(part).ok()));
            }
        }
        Ok(Self {
            pieces,
            device_len: Some(device_len),
            is_whole,
        })
    }
}

impl<'a> Sample<'a> {
    /// A sample that has only the start of a device, so that no signature at the device's end is found.
    #[must_use]
    pub fn of_start(start: &'a [u8]) -> Self {
        Self {
            pieces: vec![(0, Cow::Borrowed(start))],
            device_len: None,
            is_whole: true,
        }
    }

    /// The start of the device: 68 KiB, unless the device is shorter.
    #[must_use]
    pub fn start(&self) -> &[u8] {
        self.pieces.first().map_or(&[], |(_, start)| start)
    }

    /// Returns whether all bytes where signatures lie could be read and are zero.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        let mut bytes = self.pieces.iter().flat_map(|(_, bytes)| bytes.iter());
        self.is_whole && bytes.all(|&byte| byte == 0)
    }

    /// Returns whether `offset` lies in the label of a LUKS2 header, whose text the user chooses.
    pub(super) fn is_in_label(&self, offset: u64) -> bool {
        LUKS2_LABEL.contains(&offset) && self.starts_with(0, LUKS2_MAGIC)
    }

    /// The bytes from `offset` on, as far as they are in the sample; empty if none of them is.
    pub(super) fn from(&self, offset: u64) -> &[u8] {
        let mut pieces = self.pieces.iter();
        let bytes = pieces.find_map(|(start, bytes)| {
            let within = usize::try_from(offset.checked_sub(*start)?).ok()?;
            bytes.get(within..).filter(|rest| !rest.is_empty())
        });
        bytes.unwrap_or_default()
    }

    pub(super) fn starts_with(&self, offset: u64, magic: &[u8]) -> bool {
        self.from(offset).starts_with(magic)
    }

    pub(super) fn byte(&self, offset: u64) -> Option<u8> {
        self.from(offset).first().copied()
    }

    pub(super) fn le16(&self, offset: u64) -> Option<u16> {
        self.from(offset)
            .first_chunk()
            .copied()
            .map(u16::from_le_bytes)
    }

    pub(super) fn le32(&self, offset: u64) -> Option<u32> {
        self.from(offset)
            .first_chunk()
            .copied()
            .map(u32::from_le_bytes)
    }

    pub(super) fn le64(&self, offset: u64) -> Option<u64> {
        self.from(offset)
            .first_chunk()
            .copied()
            .map(u64::from_le_bytes)
    }

    pub(super) fn device_len(&self) -> Option<u64> {
        self.device_len
    }
}

/// The ranges behind the start of a device of `device_len` bytes that a sample has, in order. The pieces near the end
/// are one range, so that a remote disk is asked once.
fn ranges_behind_start(device_len: u64) -> Vec<ReadRange> {
    let at_end = [
        places::raid_0_90(device_len),
        places::raid_1_0(device_len),
        Some((device_len.saturating_sub(PIECE)) & !(PIECE - 1)),
        Some(device_len & !(PIECE - 1)),
    ];
    let at_end = at_end.into_iter().flatten();
    let end_from = at_end.clone().min().unwrap_or(device_len).max(START);
    let mut offsets: Vec<u64> = LUKS2_COPY_SIZES.into_iter().chain(VMFS).collect();
    offsets.extend(at_end);
    offsets.retain(|offset| (START..device_len).contains(offset));
    offsets.sort_unstable();
    offsets.dedup();
    let piece = |offset: &u64| *offset..device_len.min(offset + PIECE);
    let (before, end) = offsets.split_at(offsets.partition_point(|offset| *offset < end_from));
    let mut ranges: Vec<ReadRange> = before
        .iter()
        .map(|offset| ReadRange {
            whole: piece(offset),
            parts: Vec::new(),
        })
        .collect();
    if let Some(first) = end.first() {
        ranges.push(ReadRange {
            whole: *first..device_len,
            parts: end.iter().map(piece).collect(),
        });
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_range_passes_the_end_or_overlaps_another() {
        let lens = [0, 1, 511, 4096, START, START + 1, 0x10_0000, 0x20_0001];
        for len in lens.into_iter().chain([1 << 20, (64 << 20) + 512, 1 << 40]) {
            let ranges = ranges_behind_start(len);
            let whole: Vec<Range<u64>> = std::iter::once(0..len.min(START))
                .chain(ranges.iter().map(|range| range.whole.clone()))
                .collect();
            let total: u64 = whole.iter().map(|range| range.end - range.start).sum();
            assert!(total <= 0x4_0000, "{len}: {total}");
            for pair in whole.windows(2) {
                assert!(pair[0].end <= pair[1].start, "{len}: {ranges:?}");
            }
            assert!(whole.iter().all(|range| range.end <= len), "{len}");
            for range in ranges {
                for part in range.parts {
                    let within = range.whole.start <= part.start && part.end <= range.whole.end;
                    assert!(within && part.start < part.end, "{len}: {part:?}");
                }
            }
        }
    }

    #[test]
    fn the_end_of_a_device_is_read_at_once() {
        let len = (64 << 20) + (8 << 10) + 512;
        let mut last_reads = 0;
        let sample = Sample::read(len, |offset, _: &mut [u8]| {
            last_reads += u64::from(offset > len - 0x2_1000);
            Ok::<_, ()>(())
        });
        assert!(sample.unwrap().is_zero());
        assert_eq!(last_reads, 1);
    }

    #[test]
    fn what_cannot_be_read_is_left_out() {
        let len = 8 << 20;
        for bad in [START, len - 1] {
            let sample = Sample::read(len, |offset, piece: &mut [u8]| {
                piece.fill(0);
                let fails = bad == START && offset > 0
                    || (offset..offset + piece.len() as u64).contains(&bad);
                if fails { Err(()) } else { Ok(()) }
            });
            let sample = sample.unwrap();
            assert_eq!(sample.start().len() as u64, START);
            assert!(!sample.is_zero());
            // With only the last sector bad, the other pieces near the end are there.
            let member = places::raid_1_0(len).unwrap();
            assert_eq!(sample.from(member).is_empty(), bad == START);
            assert!(sample.from(len - 512).is_empty());
        }
        assert_eq!(Sample::read(len, |_, _| Err(7)).unwrap_err(), 7);
    }

    #[test]
    fn bytes_are_found_in_the_piece_that_has_them() {
        let len = 8 << 20;
        let sample = Sample::read(len, |offset, piece: &mut [u8]| {
            piece.fill(u8::try_from(offset >> 20).unwrap());
            Ok::<_, ()>(())
        });
        let sample = sample.unwrap();
        assert_eq!(sample.from(0x10_0000)[0], 1);
        assert_eq!(sample.from(0x20_0fff), [2]);
        assert!(sample.from(0x20_1000).is_empty());
        assert!(sample.from(len).is_empty());
        assert_eq!(sample.start().len() as u64, START);
    }
}
