//! What else may lie at the start of a device.

use std::fmt;

/// Something that is known by bytes at a fixed place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signature {
    /// A GUID partition table.
    Gpt,
    /// An MBR partition table, or a boot sector.
    BootSector,
    /// ext2, ext3 or ext4.
    Ext,
    /// XFS.
    Xfs,
    /// Btrfs.
    Btrfs,
    /// NTFS.
    Ntfs,
    /// exFAT.
    ExFat,
    /// FAT.
    Fat,
    /// Linux swap space.
    Swap,
    /// A physical volume of LVM2.
    Lvm,
    /// A member of a Linux software RAID.
    Raid,
    /// A qcow2 image.
    Qcow2,
    /// Nothing but zeros in the first 4096 bytes.
    Zeros,
}

/// Where each is known by which bytes, the surer ones first.
const KNOWN: [(Signature, usize, &[u8]); 14] = [
    (Signature::Gpt, 512, b"EFI PART"),
    (Signature::Gpt, 4096, b"EFI PART"),
    (Signature::Xfs, 0, b"XFSB"),
    (Signature::Qcow2, 0, b"QFI\xfb"),
    (Signature::Ntfs, 3, b"NTFS    "),
    (Signature::ExFat, 3, b"EXFAT   "),
    (Signature::Fat, 54, b"FAT1"),
    (Signature::Fat, 82, b"FAT32   "),
    (Signature::Btrfs, 0x1_0040, b"_BHRfS_M"),
    (Signature::Swap, 4086, b"SWAPSPACE2"),
    (Signature::Lvm, 512, b"LABELONE"),
    (Signature::Raid, 4096, b"\xfc\x4e\x2b\xa9"),
    (Signature::Ext, 1080, b"\x53\xef"),
    (Signature::BootSector, 510, b"\x55\xaa"),
];

impl Signature {
    /// What lies at the start of `area`.
    pub(crate) fn find(area: &[u8]) -> Option<Self> {
        let there = |offset: usize, bytes: &[u8]| {
            area.get(offset..)
                .is_some_and(|area| area.starts_with(bytes))
        };
        let known = KNOWN
            .into_iter()
            .find(|(_, offset, bytes)| there(*offset, bytes))
            .map(|(signature, _, _)| signature);
        let start = area.get(..area.len().min(4096)).unwrap_or_default();
        let zeros = !start.is_empty() && start.iter().all(|&byte| byte == 0);
        known.or(zeros.then_some(Self::Zeros))
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gpt => "a GPT partition table",
            Self::BootSector => "an MBR partition table or a boot sector",
            Self::Ext => "an ext2, ext3 or ext4 filesystem",
            Self::Xfs => "an XFS filesystem",
            Self::Btrfs => "a Btrfs filesystem",
            Self::Ntfs => "an NTFS filesystem",
            Self::ExFat => "an exFAT filesystem",
            Self::Fat => "a FAT filesystem",
            Self::Swap => "a swap space",
            Self::Lvm => "an LVM2 physical volume",
            Self::Raid => "a member of a Linux software RAID",
            Self::Qcow2 => "a qcow2 image",
            Self::Zeros => "nothing but zeros",
        })
    }
}
