//! Places of superblocks at the end of a device.

/// Unit of md's superblock of version 0.90, which lies at the start of the last whole one.
pub(super) const RAID_RESERVED: u64 = 64 << 10;

/// Offset of md's superblock of version 0.90 on a device of `device_len` bytes.
pub(super) fn raid_0_90(device_len: u64) -> Option<u64> {
    (device_len & !(RAID_RESERVED - 1)).checked_sub(RAID_RESERVED)
}

/// Offset of md's superblock of version 1.0: 8 KiB before the end, on a multiple of 4 KiB.
pub(super) fn raid_1_0(device_len: u64) -> Option<u64> {
    (device_len & !0xfff).checked_sub(0x2000)
}
