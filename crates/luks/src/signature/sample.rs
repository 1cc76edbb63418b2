//! The bytes of a device at which signatures lie.

use std::borrow::Cow;
use std::ops::Range;

use super::places;
use crate::header_copy::LUKS2_COPY_SIZES;

/// Length of the start that is looked at as a whole: the superblock of Btrfs lies at 64 KiB.
const START: u64 = 0x1_1000;

/// Length of each piece behind the start, and the unit to which the pieces are aligned.
const PIECE: u64 = 4096;

/// Offsets behind the start at which VMFS has its signatures.
const VMFS: [u64; 2] = [0x10_0000, 0x20_0000];

/// Bytes of a device by which [`Signature::all`](super::Signature::all) recognises its use.
#[derive(Debug)]
pub struct Sample<'a> {
    pieces: Vec<(u64, Cow<'a, [u8]>)>,
    /// Length of the device; `None` if only its start is known.
    device_len: Option<u64>,
}

impl Sample<'static> {
    /// Takes a sample of a device of `device_len` bytes by `read`, which fills a buffer from an offset. No read passes
    /// the end of the device.
    ///
    /// # Errors
    /// The first error of `read`.
    pub fn read<E>(
        device_len: u64,
        mut read: impl FnMut(u64, &mut [u8]) -> Result<(), E>,
    ) -> Result<Self, E> {
        let mut pieces = Vec::new();
        for Range { start, end } in ranges(device_len) {
            // Few KiB, as the constants above are.
            let mut piece = vec![0; usize::try_from(end - start).unwrap_or_default()];
            read(start, &mut piece)?;
            pieces.push((start, Cow::Owned(piece)));
        }
        Ok(Self {
            pieces,
            device_len: Some(device_len),
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
        }
    }

    /// The start of the device: 68 KiB, unless the device is shorter.
    #[must_use]
    pub fn start(&self) -> &[u8] {
        self.pieces.first().map_or(&[], |(_, start)| start)
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

/// The ranges of a device of `device_len` bytes that a sample has.
fn ranges(device_len: u64) -> Vec<Range<u64>> {
    let at_end = [
        places::raid_0_90(device_len),
        places::raid_1_0(device_len),
        Some((device_len.saturating_sub(PIECE)) & !(PIECE - 1)),
        Some(device_len & !(PIECE - 1)),
    ];
    let mut offsets: Vec<u64> = LUKS2_COPY_SIZES.into_iter().chain(VMFS).collect();
    offsets.extend(at_end.into_iter().flatten());
    offsets.retain(|offset| (START..device_len).contains(offset));
    offsets.sort_unstable();
    offsets.dedup();
    let behind = offsets
        .into_iter()
        .map(|offset| offset..device_len.min(offset + PIECE));
    std::iter::once(0..device_len.min(START))
        .chain(behind)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_range_passes_the_end_or_overlaps_another() {
        let lens = [0, 1, 511, 4096, START, START + 1, 0x10_0000, 0x20_0001];
        for len in lens.into_iter().chain([1 << 20, (64 << 20) + 512, 1 << 40]) {
            let ranges = ranges(len);
            let total: u64 = ranges.iter().map(|range| range.end - range.start).sum();
            assert!(total <= 0x2_0000, "{len}: {total}");
            for pair in ranges.windows(2) {
                assert!(pair[0].end <= pair[1].start, "{len}: {ranges:?}");
            }
            assert!(ranges.iter().all(|range| range.end <= len), "{len}");
        }
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
