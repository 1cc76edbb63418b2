//! Superblocks of Linux software RAID (md), at the start or the end of a member.

use super::boot_sector;
use super::places::{RAID_RESERVED, raid_0_90, raid_1_0};
use super::sample::Sample;

const MAGIC: u32 = 0xa92b_4efc;
const SECTOR: u64 = 512;

/// Returns whether a superblock of any version is there. Versions 1.1 and 1.2 have it at 0 and 4096.
pub(super) fn is_member(sample: &Sample<'_>) -> bool {
    let at_end = sample.device_len().and_then(raid_1_0);
    let mut offsets = [0, 4096].into_iter().chain(at_end);
    offsets.any(|offset| is_version_1(sample, offset)) || is_version_0_90(sample)
}

/// `struct mdp_superblock_1`, which says where it lies.
fn is_version_1(sample: &Sample<'_>, offset: u64) -> bool {
    let field = |at| sample.le32(offset + at);
    field(0) == Some(MAGIC)
        && field(4) == Some(1)
        && sample.le64(offset + 144) == Some(offset / SECTOR)
}

/// `struct mdp_superblock_s`, in the byte order of the machine that wrote it. A superblock within a partition makes
/// that partition a member, not the whole device.
fn is_version_0_90(sample: &Sample<'_>) -> bool {
    let Some((len, offset)) = sample
        .device_len()
        .and_then(|len| Some((len, raid_0_90(len)?)))
    else {
        return false;
    };
    let field = |at| sample.le32(offset + at);
    let swap = match field(0) {
        Some(MAGIC) => false,
        Some(other) if other == MAGIC.swap_bytes() => true,
        _ => return false,
    };
    let field = |at| field(at).map(|field| if swap { field.swap_bytes() } else { field });
    let size_kib = field(32).map(u64::from);
    let fits = size_kib.is_some_and(|size| size > 0 && (size << 10) + RAID_RESERVED <= len);
    field(4) == Some(0)
        && field(8) == Some(90)
        && fits
        && !boot_sector::is_in_partition(sample, offset / SECTOR)
}
