//! The table of signatures.

use super::kinds::Signature;
use super::sample::Sample;
use super::{boot_sector, raid};
use crate::header_copy::LUKS2_COPY_SIZES;

/// Bytes that tell a use.
enum Sign {
    /// One of these offsets has these bytes.
    Magic(&'static [(u64, &'static [u8])]),
    /// A check of several fields passes.
    Check(fn(&Sample<'_>) -> bool),
}

use Sign::{Check, Magic};
use Signature::Other;

/// Every signature, the surer ones first. As in libblkid, RAID comes before what a member of a mirror may hold, which
/// may be LUKS, and LUKS before all else; last come those of two bytes, which may be a part of anything else.
const KNOWN: &[(Signature, Sign)] = &[
    (Signature::Raid, Check(raid::is_member)),
    (Signature::Luks1, Magic(&[(0, b"LUKS\xba\xbe\0\x01")])),
    (Signature::Luks2, Magic(&[(0, b"LUKS\xba\xbe\0\x02")])),
    (Signature::Luks, Check(is_luks_of_other_version)),
    (Signature::Luks2Secondary, Check(is_luks2_secondary)),
    (Signature::Gpt, Check(is_gpt)),
    (Signature::Xfs, Magic(&[(0, b"XFSB")])),
    (Signature::Qcow2, Magic(&[(0, b"QFI\xfb")])),
    (Signature::BitLocker, Check(boot_sector::is_bitlocker)),
    (Signature::Ntfs, Check(boot_sector::is_ntfs)),
    (Signature::ExFat, Check(boot_sector::is_exfat)),
    (Signature::Fat, Check(boot_sector::is_fat)),
    (Signature::Btrfs, Magic(&[(0x1_0040, b"_BHRfS_M")])),
    (Signature::Swap, Check(is_swap)),
    (
        Signature::Lvm,
        Magic(&[
            (0, b"LABELONE"),
            (512, b"LABELONE"),
            (1024, b"LABELONE"),
            (1536, b"LABELONE"),
        ]),
    ),
    (Other("a bcache device"), Magic(&[(4120, &BCACHE)])),
    (
        Other("a Stratis pool"),
        Magic(&[(512 + 4, STRATIS), (4608 + 4, STRATIS)]),
    ),
    (Other("a VDO volume"), Magic(&[(0, b"dmvdo001")])),
    (Other("a dm-integrity volume"), Magic(&[(0, b"integrt\0")])),
    (Other("a dm-verity hash tree"), Magic(&[(0, b"verity\0\0")])),
    (
        Other("a Ceph BlueStore device"),
        Magic(&[(0, b"bluestore block device")]),
    ),
    (Signature::F2fs, Magic(&[(1024, b"\x10\x20\xf5\xf2")])),
    (
        Other("an EROFS file system"),
        Magic(&[(1024, b"\xe2\xe1\xf5\xe0")]),
    ),
    (
        Other("an OCFS2 file system"),
        Magic(&[(1024, b"OCFSV2"), (2048, b"OCFSV2"), (4096, b"OCFSV2")]),
    ),
    (
        Other("an HFS+ file system"),
        Magic(&[(1024, b"H+\0\x04"), (1024, b"HX\0\x05")]),
    ),
    (Other("an APFS container"), Magic(&[(32, b"NXSB")])),
    (Other("a JFS file system"), Magic(&[(0x8000, b"JFS1")])),
    (
        Other("a GFS2 file system"),
        Magic(&[(0x1_0000, b"\x01\x16\x19\x70")]),
    ),
    (
        Other("a ReiserFS file system"),
        Magic(&[(0x1_0034, b"ReIsEr")]),
    ),
    (
        Other("a Reiser4 file system"),
        Magic(&[(0x1_0000, b"ReIsEr4")]),
    ),
    (
        Other("a UBIFS file system"),
        Magic(&[(0, b"\x31\x18\x10\x06")]),
    ),
    (Other("a UBI device"), Magic(&[(0, b"UBI#")])),
    (Signature::SquashFs, Magic(&[(0, b"hsqs"), (0, b"sqsh")])),
    (
        Other("a cramfs file system"),
        Magic(&[(0, b"\x45\x3d\xcd\x28")]),
    ),
    (Other("a romfs file system"), Magic(&[(0, b"-rom1fs-")])),
    (
        Other("a VMFS volume"),
        Magic(&[(0x10_0000, b"\x0d\xd0\x01\xc0")]),
    ),
    (
        Other("a VMFS file system"),
        Magic(&[(0x20_0000, b"\x5e\xf1\xab\x2f")]),
    ),
    (Signature::Iso9660, Magic(&[(0x8001, b"CD001")])),
    (Other("a UDF file system"), Magic(&[(0x8001, b"BEA01")])),
    (Other("an Apple partition map"), Magic(&[(512, b"PM\0\0")])),
    (Signature::Ext, Magic(&[(1080, b"\x53\xef")])),
    (Signature::Mbr, Check(is_mbr)),
    (Signature::BootSector, Check(is_boot_sector_alone)),
];

const BCACHE: [u8; 16] = [
    0xc6, 0x85, 0x73, 0xf6, 0x4e, 0x1a, 0x45, 0xca, 0x82, 0x65, 0xf5, 0x7f, 0x48, 0xba, 0x6d, 0x81,
];
const STRATIS: &[u8] = b"!Stra0tis\x86\xff\x02^\x41rh";

const LUKS_MAGIC: &[u8] = b"LUKS\xba\xbe";
const LUKS2_SECONDARY_MAGIC: &[u8] = b"SKUL\xba\xbe";

/// Ends of the first page of swap space, by the size of pages, less the ten bytes of the magic.
const SWAP: [u64; 5] = [0xff6, 0x1ff6, 0x3ff6, 0x7ff6, 0xfff6];
const SWAP_MAGIC: &[u8] = b"SWAPSPACE2";
/// Magic of the old version, which has no header, and of hibernated systems.
const SWAP_OTHER_MAGIC: [&[u8]; 5] = [
    b"SWAP-SPACE",
    b"S1SUSPEND",
    b"S2SUSPEND",
    b"ULSUSPEND",
    b"LINHIB0001",
];

/// The uses that the sample tells, in the order of the table.
pub(super) fn found(sample: &Sample<'_>) -> impl Iterator<Item = Signature> {
    let is_there = move |(offset, magic): &(u64, &[u8])| {
        !sample.is_in_label(*offset) && sample.starts_with(*offset, magic)
    };
    KNOWN
        .iter()
        .filter(move |(_, sign)| match sign {
            Magic(places) => places.iter().any(is_there),
            Check(passes) => passes(sample),
        })
        .map(|(signature, _)| *signature)
}

/// Neither version 1 nor 2.
fn is_luks_of_other_version(sample: &Sample<'_>) -> bool {
    let is_known = |version: [u8; 2]| sample.starts_with(6, &version);
    sample.starts_with(0, LUKS_MAGIC) && !is_known([0, 1]) && !is_known([0, 2])
}

/// A second copy that says that it belongs where it is.
fn is_luks2_secondary(sample: &Sample<'_>) -> bool {
    let is_there = |offset: u64| {
        sample.starts_with(offset, LUKS2_SECONDARY_MAGIC)
            && sample.starts_with(offset + 256, &offset.to_be_bytes())
    };
    !sample.starts_with(0, LUKS_MAGIC) && LUKS2_COPY_SIZES.into_iter().any(is_there)
}

/// A header in the second sector, of 512 or 4096 bytes; or else a backup in the last one, if the first sector protects
/// it.
fn is_gpt(sample: &Sample<'_>) -> bool {
    let is_header = |offset: u64| sample.starts_with(offset, b"EFI PART");
    let is_backup = |len: u64| {
        let mut sizes = [512, 4096].into_iter();
        sizes.any(|size| len.checked_sub(size).is_some_and(is_header))
    };
    is_header(512)
        || is_header(4096)
        || boot_sector::is_protective_mbr(sample) && sample.device_len().is_some_and(is_backup)
}

/// Swap space in use as such says its version and its last page; a hibernated system is known by its magic alone.
fn is_swap(sample: &Sample<'_>) -> bool {
    let has_header = matches!(sample.le32(1024), Some(1 | 0x0100_0000))
        && sample.le32(1028).is_some_and(|last_page| last_page != 0);
    SWAP.iter().any(|&offset| {
        let mut others = SWAP_OTHER_MAGIC.iter();
        has_header && sample.starts_with(offset, SWAP_MAGIC)
            || others.any(|magic| sample.starts_with(offset, magic))
    })
}

fn is_mbr(sample: &Sample<'_>) -> bool {
    boot_sector::is_mbr(sample) && !boot_sector::is_of_file_system(sample)
}

/// A boot sector, or an MBR without partitions, that belongs to nothing else that is known.
fn is_boot_sector_alone(sample: &Sample<'_>) -> bool {
    boot_sector::is_boot_sector(sample)
        && !boot_sector::is_mbr(sample)
        && !boot_sector::is_of_file_system(sample)
        && !is_gpt(sample)
}
