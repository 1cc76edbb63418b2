//! Other uses of a device, recognised by bytes at a fixed place near its start.

use std::fmt;
use std::ops::Range;

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
    /// Something else, by its name with an article.
    Other(&'static str),
    /// Nothing but zeros in the first 4096 bytes.
    Zeros,
}

/// Offset and bytes of each signature, the surer ones first: those that libblkid looks for, by which
/// cryptsetup tells whether a device has become something else, as far as they lie in the first 8 MiB.
const KNOWN: &[(Signature, usize, &[u8])] = &[
    (Signature::Gpt, 512, b"EFI PART"),
    (Signature::Gpt, 4096, b"EFI PART"),
    (Signature::Xfs, 0, b"XFSB"),
    (Signature::Qcow2, 0, b"QFI\xfb"),
    (Signature::Ntfs, 3, b"NTFS    "),
    (Signature::ExFat, 3, b"EXFAT   "),
    (Signature::Other("a BitLocker volume"), 3, b"-FVE-FS-"),
    (Signature::Fat, 54, b"FAT1"),
    (Signature::Fat, 82, b"FAT32   "),
    (Signature::Btrfs, 0x1_0040, b"_BHRfS_M"),
    (Signature::Swap, 0xff6, b"SWAPSPACE2"),
    (Signature::Swap, 0x1ff6, b"SWAPSPACE2"),
    (Signature::Swap, 0x3ff6, b"SWAPSPACE2"),
    (Signature::Swap, 0x7ff6, b"SWAPSPACE2"),
    (Signature::Swap, 0xfff6, b"SWAPSPACE2"),
    (Signature::Swap, 0xff6, b"SWAP-SPACE"),
    (Signature::Swap, 0xff6, b"S1SUSPEND"),
    (Signature::Lvm, 0, b"LABELONE"),
    (Signature::Lvm, 512, b"LABELONE"),
    (Signature::Lvm, 1024, b"LABELONE"),
    (Signature::Lvm, 1536, b"LABELONE"),
    (Signature::Raid, 0, b"\xfc\x4e\x2b\xa9"),
    (Signature::Raid, 4096, b"\xfc\x4e\x2b\xa9"),
    (Signature::Other("a bcache device"), 4120, &BCACHE),
    (Signature::Other("a Stratis pool"), 512 + 4, STRATIS),
    (Signature::Other("a Stratis pool"), 4608 + 4, STRATIS),
    (Signature::Other("a VDO volume"), 0, b"dmvdo001"),
    (Signature::Other("a dm-integrity volume"), 0, b"integrt\0"),
    (Signature::Other("a dm-verity hash tree"), 0, b"verity\0\0"),
    (
        Signature::Other("a Ceph BlueStore device"),
        0,
        b"bluestore block device",
    ),
    (
        Signature::Other("an F2FS filesystem"),
        1024,
        b"\x10\x20\xf5\xf2",
    ),
    (
        Signature::Other("an EROFS filesystem"),
        1024,
        b"\xe2\xe1\xf5\xe0",
    ),
    (Signature::Other("an OCFS2 filesystem"), 1024, b"OCFSV2"),
    (Signature::Other("an OCFS2 filesystem"), 2048, b"OCFSV2"),
    (Signature::Other("an OCFS2 filesystem"), 4096, b"OCFSV2"),
    (Signature::Other("an HFS+ filesystem"), 1024, b"H+\0\x04"),
    (Signature::Other("an HFS+ filesystem"), 1024, b"HX\0\x05"),
    (Signature::Other("an APFS container"), 32, b"NXSB"),
    (Signature::Other("a JFS filesystem"), 0x8000, b"JFS1"),
    (
        Signature::Other("a GFS2 filesystem"),
        0x1_0000,
        b"\x01\x16\x19\x70",
    ),
    (
        Signature::Other("a ReiserFS filesystem"),
        0x1_0034,
        b"ReIsEr",
    ),
    (
        Signature::Other("a Reiser4 filesystem"),
        0x1_0000,
        b"ReIsEr4",
    ),
    (
        Signature::Other("a UBIFS filesystem"),
        0,
        b"\x31\x18\x10\x06",
    ),
    (Signature::Other("a UBI device"), 0, b"UBI#"),
    (Signature::Other("a SquashFS filesystem"), 0, b"hsqs"),
    (Signature::Other("a SquashFS filesystem"), 0, b"sqsh"),
    (
        Signature::Other("a cramfs filesystem"),
        0,
        b"\x45\x3d\xcd\x28",
    ),
    (Signature::Other("a romfs filesystem"), 0, b"-rom1fs-"),
    (
        Signature::Other("a VMFS volume"),
        0x10_0000,
        b"\x0d\xd0\x01\xc0",
    ),
    (
        Signature::Other("a VMFS filesystem"),
        0x20_0000,
        b"\x5e\xf1\xab\x2f",
    ),
    (Signature::Other("an ISO 9660 filesystem"), 0x8001, b"CD001"),
    (Signature::Other("a UDF filesystem"), 0x8001, b"BEA01"),
    (Signature::Other("an Apple partition map"), 512, b"PM\0\0"),
    (Signature::Ext, 1080, b"\x53\xef"),
    (Signature::BootSector, 510, b"\x55\xaa"),
];

const BCACHE: [u8; 16] = [
    0xc6, 0x85, 0x73, 0xf6, 0x4e, 0x1a, 0x45, 0xca, 0x82, 0x65, 0xf5, 0x7f, 0x48, 0xba, 0x6d, 0x81,
];
const STRATIS: &[u8] = b"!Stra0tis\x86\xff\x02^\x41rh";

/// Where each of the four entries of an MBR says whether its partition can be booted.
const BOOT_FLAGS: [usize; 4] = [446, 462, 478, 494];

impl Signature {
    /// Finds what lies at the start of `area`, or may lie there: the two bytes of a boot sector may be a part
    /// of anything else, such as a checksum.
    pub(crate) fn find(area: &[u8]) -> Option<Self> {
        let start = area.get(..area.len().min(4096)).unwrap_or_default();
        let zeros = !start.is_empty() && start.iter().all(|&byte| byte == 0);
        known(area).or(zeros.then_some(Self::Zeros))
    }

    /// Finds the other use of the device that starts with `area`, by the signatures that cryptsetup goes by.
    /// A device of zeros has no other use.
    pub(crate) fn of_another(area: &[u8]) -> Option<Self> {
        known(area).filter(|found| *found != Self::BootSector || has_boot_flags(area))
    }
}

/// Range of the label in a LUKS2 header, whose text the user chooses.
const LABEL: Range<usize> = 24..72;

fn known(area: &[u8]) -> Option<Signature> {
    let has_label = area.starts_with(b"LUKS\xba\xbe\0\x02");
    let there = |offset: usize, bytes: &[u8]| {
        let is_label = has_label && LABEL.contains(&offset);
        !is_label
            && area
                .get(offset..)
                .is_some_and(|area| area.starts_with(bytes))
    };
    KNOWN
        .iter()
        .find(|(_, offset, bytes)| there(*offset, bytes))
        .map(|(signature, _, _)| *signature)
}

/// Returns whether each entry of an MBR says that it can be booted, or that it cannot.
fn has_boot_flags(area: &[u8]) -> bool {
    let flags = BOOT_FLAGS.map(|offset| area.get(offset).copied());
    flags.iter().all(|flag| matches!(flag, Some(0 | 0x80)))
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
            Self::Other(name) => name,
            Self::Zeros => "nothing but zeros",
        })
    }
}
