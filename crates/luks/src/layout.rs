//! Layout of a new header and its data, and the bytes that are overwritten for it.

use std::ops::Range;

use crate::error::FormatError;
use crate::header_copy::LUKS2_COPY_SIZES;
use crate::plan::Step;
use crate::segment::Placement;

/// The largest logical block of a disk, to which areas are aligned.
pub(crate) const BLOCK: u64 = 4096;
/// The smallest piece that a disk writes whole.
const SECTOR: u64 = 512;
/// The end of a LUKS2 header that was made with the defaults, and the largest LUKS1 header.
pub(crate) const DEFAULT_HEADER_END: u64 = 16 << 20;
const MIB: u64 = 1 << 20;

/// Placement of a new header and its data.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    /// Location of the header: before the data on the same device, or elsewhere.
    pub placement: Placement,
    /// Length of the header's device, or of its file as it is now, in bytes.
    pub device_len: u64,
    /// True if the device can grow, as a regular file does.
    pub grows: bool,
    /// Start of the data on its device, in bytes: a multiple of 512. `None` is cryptsetup's
    /// default: 16 MiB for LUKS2, 2 MiB for LUKS1 with AES, 0 where the header is detached.
    pub data_offset: Option<u64>,
}

impl Layout {
    /// The data offset, where `header_end` is the least that the header takes on the same device.
    pub(crate) fn data_offset(
        &self,
        header_end: u64,
        default: u64,
        sector_size: u64,
    ) -> Result<u64, FormatError> {
        let detached = self.placement == Placement::Detached;
        let offset = self
            .data_offset
            .unwrap_or(if detached { 0 } else { default });
        if !offset.is_multiple_of(SECTOR) {
            return Err(FormatError::Unaligned { offset });
        }
        if offset < header_end && !(detached && offset == 0) {
            return Err(FormatError::DataOffset { offset, header_end });
        }
        if detached {
            let enough = self.grows || header_end <= self.device_len;
            return enough.then_some(offset).ok_or(FormatError::NoRoom {
                need: header_end,
                have: self.device_len,
            });
        }
        let have = self.device_len - self.device_len % SECTOR;
        match have.checked_sub(offset) {
            Some(length) if length >= sector_size && length.is_multiple_of(sector_size) => {
                Ok(offset)
            }
            Some(length) if length > sector_size => Err(FormatError::PartialSector {
                length,
                sector_size,
            }),
            _ => Err(FormatError::NoRoom {
                need: offset.saturating_add(sector_size),
                have: self.device_len,
            }),
        }
    }

    /// The first byte behind what a new header may overwrite. Up to here no key material of an
    /// earlier header survives. On the same device the data follows, which is never touched: the user may be
    /// making a new header for it. On a device of its own, bytes follow that no header with default sizes
    /// reached.
    pub(crate) fn wipe_end(&self, header_end: u64, data_offset: u64) -> u64 {
        match self.placement {
            Placement::Attached => data_offset,
            Placement::Detached => header_end.max(self.device_len.min(DEFAULT_HEADER_END)),
        }
    }

    /// Takes every earlier header away: the start of the device, then each place of a secondary
    /// LUKS2 header before `wipe_end`, in rising order, with a sync after each.
    ///
    /// The earlier header is whole until a crash finds none of it. Its first sector holds the magic
    /// of a primary, or of LUKS1, and goes at once. A LUKS2 secondary that is still there lies at or
    /// behind the place that is overwritten next, and its key material behind that again.
    ///
    /// Nothing is written behind the end of a file, where there are no bytes.
    pub(crate) fn forget_old_header(&self, wipe_end: u64) -> Vec<Step> {
        let end = wipe_end.min(self.device_len);
        let blocks = LUKS2_COPY_SIZES.map(|offset| (offset, BLOCK));
        [(0, SECTOR), (0, BLOCK)]
            .into_iter()
            .chain(blocks)
            .filter(|(offset, _)| *offset < end)
            .flat_map(|(offset, len)| {
                let len = usize::try_from(len.min(end - offset)).unwrap_or_default();
                let bytes = vec![0; len];
                [Step::Write { offset, bytes }, Step::Sync]
            })
            .collect()
    }
}

/// The parts of `whole` that no used area touches, in order, each from one block to the next.
pub(crate) fn gaps(whole: Range<u64>, used: impl Iterator<Item = Range<u64>>) -> Vec<Range<u64>> {
    let mut used: Vec<_> = used.collect();
    used.sort_by_key(|area| area.start);
    used.push(whole.end..whole.end);
    let mut gaps = Vec::new();
    let mut start = align_up(whole.start, BLOCK);
    for area in used {
        let end = area.start.min(whole.end);
        let end = end - end % BLOCK;
        if start < end {
            gaps.push(start..end);
        }
        start = start.max(align_up(area.end, BLOCK));
    }
    gaps
}

/// The next multiple of `unit`, a power of two; sizes here are far from overflow.
pub(crate) fn align_up(value: u64, unit: u64) -> u64 {
    value.div_ceil(unit).saturating_mul(unit)
}

/// The next whole MiB, cryptsetup's alignment for data.
pub(crate) fn align_to_mib(value: u64) -> u64 {
    align_up(value, MIB)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(placement: Placement, device_len: u64, data_offset: Option<u64>) -> Layout {
        Layout {
            placement,
            device_len,
            grows: false,
            data_offset,
        }
    }

    #[test]
    fn data_follows_the_header_and_has_at_least_a_sector() {
        let attached = |len, offset| {
            layout(Placement::Attached, len, offset).data_offset(8 << 12, 16 << 20, 4096)
        };
        assert!(matches!(attached(17 << 20, None), Ok(0x100_0000)));
        assert!(matches!(attached((16 << 20) + 4096, None), Ok(0x100_0000)));
        let short = attached((16 << 20) + 4095, None);
        assert!(matches!(short, Err(FormatError::NoRoom { .. })));
        assert!(matches!(attached(17 << 20, Some(8 << 12)), Ok(0x8000)));
        let inside = attached(17 << 20, Some(7 << 12));
        assert!(matches!(inside, Err(FormatError::DataOffset { .. })));
        let odd = attached(17 << 20, Some((8 << 12) + 256));
        assert!(matches!(odd, Err(FormatError::Unaligned { .. })));
        let partial = attached((17 << 20) + 512, None);
        assert!(matches!(partial, Err(FormatError::PartialSector { .. })));
        assert!(matches!(attached((17 << 20) + 511, None), Ok(0x100_0000)));
        let far = attached(17 << 20, Some(u64::MAX - 4095));
        assert!(matches!(far, Err(FormatError::NoRoom { .. })));
    }

    #[test]
    fn a_detached_header_needs_its_own_room_only() {
        let fixed = layout(Placement::Detached, 1 << 20, None);
        assert!(matches!(fixed.data_offset(1 << 20, 0, 512), Ok(0)));
        let short = fixed.data_offset((1 << 20) + 4096, 0, 512);
        assert!(matches!(short, Err(FormatError::NoRoom { .. })));
        let file = Layout {
            grows: true,
            ..fixed
        };
        assert!(matches!(file.data_offset(16 << 20, 0, 512), Ok(0)));
    }

    #[test]
    fn gaps_are_whole_blocks_between_what_is_used() {
        let found = |used: &[(u64, u64)]| -> Vec<(u64, u64)> {
            let used = used.iter().map(|&(start, end)| start..end);
            let gaps = gaps(0x1000..0x9000, used).into_iter();
            gaps.map(|gap| (gap.start, gap.end)).collect()
        };
        assert_eq!(found(&[]), [(0x1000, 0x9000)]);
        let around = [(0x1000, 0x3000), (0x5000, 0x9000)];
        assert_eq!(found(&[(0x3001, 0x4fff)]), around);
        let unordered = [(0x8000, 0x9000), (0x1000, 0x2000)];
        assert_eq!(found(&unordered), [(0x2000, 0x8000)]);
        assert_eq!(found(&[(0, 0x4000), (0x2000, 0x3000)]), [(0x4000, 0x9000)]);
        assert_eq!(found(&[(0x1000, 0xf000)]), []);
        let behind = [(0x3000, 0x5000), (0xa000, 0xb000)];
        assert_eq!(found(&behind), around);
    }

    #[test]
    fn old_headers_are_forgotten_where_they_may_be_overwritten() {
        let writes = |layout: Layout, wipe_end| -> Vec<(u64, usize)> {
            layout
                .forget_old_header(wipe_end)
                .iter()
                .filter_map(|step| match step {
                    Step::Write { offset, bytes } => Some((*offset, bytes.len())),
                    _ => None,
                })
                .collect()
        };
        let attached = layout(Placement::Attached, 64 << 20, None);
        // LUKS1: a secondary at 2 MiB would lie in the data.
        let found = writes(attached, attached.wipe_end(0x1f_9000, 2 << 20));
        assert_eq!(found[..3], [(0, 512), (0, 4096), (0x4000, 4096)]);
        assert_eq!(found.len(), 2 + 7);
        let found = writes(attached, attached.wipe_end(16 << 20, 16 << 20));
        assert_eq!(found.len(), 2 + 9);
        // A file grows only by what is in the header.
        let file = layout(Placement::Detached, 0x4000 + 100, None);
        let found = writes(file, file.wipe_end(2 << 20, 0));
        assert_eq!(found, [(0, 512), (0, 4096), (0x4000, 100)]);
        let new = layout(Placement::Detached, 0, None);
        assert_eq!(writes(new, new.wipe_end(2 << 20, 0)), []);
    }
}
