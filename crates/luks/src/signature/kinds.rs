//! The uses that are known, with their names.

use std::fmt;

/// A use of a device that its bytes tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signature {
    Luks1,
    Luks2,
    /// LUKS of a version other than 1 and 2.
    Luks,
    /// The second copy of a LUKS2 header whose first copy is gone.
    Luks2Secondary,
    /// A GUID partition table.
    Gpt,
    /// An MBR with partitions other than the one that protects a GPT.
    Mbr,
    /// An MBR without partitions, or a boot sector: nothing but two bytes tell.
    BootSector,
    /// An ext2, ext3 or ext4 file system.
    Ext,
    Xfs,
    Btrfs,
    F2fs,
    Ntfs,
    ExFat,
    /// A FAT12, FAT16 or FAT32 file system.
    Fat,
    /// A volume of BitLocker, also of its variant for removable disks.
    BitLocker,
    Iso9660,
    SquashFs,
    /// Linux swap space, or a hibernated system in it.
    Swap,
    /// A physical volume of LVM2.
    Lvm,
    /// A member of a Linux software RAID, with metadata of any version.
    Raid,
    /// A qcow2 disk image.
    Qcow2,
    /// Something else, by its name with an article.
    Other(&'static str),
    /// Nothing but zeros in the first 4096 bytes.
    Zeros,
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Luks1 => "a LUKS1 volume",
            Self::Luks2 => "a LUKS2 volume",
            Self::Luks => "a LUKS volume",
            Self::Luks2Secondary => "a LUKS2 secondary header",
            Self::Gpt => "a GPT partition table",
            Self::Mbr => "an MBR partition table",
            Self::BootSector => "an MBR partition table or a boot sector",
            Self::Ext => "an ext2, ext3 or ext4 file system",
            Self::Xfs => "an XFS file system",
            Self::Btrfs => "a Btrfs file system",
            Self::F2fs => "an F2FS file system",
            Self::Ntfs => "an NTFS file system",
            Self::ExFat => "an exFAT file system",
            Self::Fat => "a FAT file system",
            Self::BitLocker => "a BitLocker volume",
            Self::Iso9660 => "an ISO 9660 file system",
            Self::SquashFs => "a SquashFS file system",
            Self::Swap => "a swap space",
            Self::Lvm => "an LVM2 physical volume",
            Self::Raid => "a member of a Linux software RAID",
            Self::Qcow2 => "a qcow2 image",
            Self::Other(name) => name,
            Self::Zeros => "nothing but zeros",
        })
    }
}
