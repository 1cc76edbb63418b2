//! Detection of the contents of a device by its first bytes, so that no user overwrites data by mistake.

use scrim_backend::Backend;

use crate::blocks::Blocks;

/// Bytes that are looked at: the last signature below lies at 64 KiB.
const LOOK: usize = (64 << 10) + 512;

/// Offset of the signature of an MBR, in bytes.
const MBR: usize = 510;

/// Something that is known by bytes at a fixed place.
struct Signature {
    name: &'static str,
    at: usize,
    magic: &'static [u8],
    /// Reads from the first bytes of the data in which blocks it is written.
    blocks: fn(&[u8]) -> Blocks,
}

const fn known(
    name: &'static str,
    at: usize,
    magic: &'static [u8],
    blocks: fn(&[u8]) -> Blocks,
) -> Signature {
    Signature {
        name,
        at,
        magic,
        blocks,
    }
}

const SIGNATURES: [Signature; 17] = [
    known("a LUKS volume", 0, b"LUKS\xba\xbe", Blocks::unknown),
    known(
        "a LUKS2 secondary header",
        0x4000,
        b"SKUL\xba\xbe",
        Blocks::unknown,
    ),
    known(
        "a GPT partition table",
        512,
        b"EFI PART",
        Blocks::sectors_of_512,
    ),
    known(
        "a GPT partition table",
        4096,
        b"EFI PART",
        Blocks::sectors_of_4096,
    ),
    known(
        "an ext2, ext3 or ext4 file system",
        0x438,
        b"\x53\xef",
        Blocks::ext,
    ),
    known("an XFS file system", 0, b"XFSB", Blocks::xfs),
    known("a Btrfs file system", 0x1_0040, b"_BHRfS_M", Blocks::btrfs),
    known(
        "an F2FS file system",
        0x400,
        b"\x10\x20\xf5\xf2",
        Blocks::f2fs,
    ),
    known("an NTFS file system", 3, b"NTFS    ", Blocks::fat),
    known("a FAT file system", 82, b"FAT32", Blocks::fat),
    known("an exFAT file system", 3, b"EXFAT   ", Blocks::exfat),
    known("an ISO 9660 file system", 0x8001, b"CD001", Blocks::iso),
    known("a SquashFS file system", 0, b"hsqs", Blocks::pages),
    known("swap space", 4086, b"SWAPSPACE2", Blocks::pages),
    known(
        "an LVM physical volume",
        512 + 24,
        b"LVM2 001",
        Blocks::unknown,
    ),
    known("a qcow2 image", 0, b"QFI\xfb", Blocks::unknown),
    known("a partition table", MBR, b"\x55\xaa", Blocks::mbr),
];

/// Contents of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Contents {
    /// Nothing but zeros, as far as was looked.
    Blank,
    /// Something known by its signature.
    Known(&'static str),
    /// Bytes that are not zero.
    Unknown,
}

impl Contents {
    /// Looks at the start of a backend.
    pub(crate) fn of(backend: &dyn Backend) -> Self {
        Self::with_blocks(backend).0
    }

    /// Looks at the start of a backend, and in which blocks what is there is written.
    pub(crate) fn with_blocks(backend: &dyn Backend) -> (Self, Blocks) {
        let size = usize::try_from(backend.info().size).unwrap_or(LOOK);
        let mut start = vec![0; size.min(LOOK)];
        if backend.read_at(0, &mut start).is_err() {
            return (Self::Unknown, Blocks::Unknown);
        }
        let there = |signature: &&Signature| {
            let bytes = start.get(signature.at..);
            bytes.is_some_and(|bytes| bytes.starts_with(signature.magic))
        };
        let found = SIGNATURES.iter().filter(there);
        let blocks = found
            .clone()
            .map(|found| (found.at, (found.blocks)(&start)));
        // Boot sectors of file systems, and the one before a GPT, end as an MBR does.
        let blocks = blocks.filter(|(at, blocks)| *at != MBR || *blocks != Blocks::Unknown);
        match found.clone().next() {
            Some(first) => {
                let blocks = blocks.map(|(_, blocks)| blocks).collect::<Vec<_>>();
                (Self::Known(first.name), Blocks::of_all(&blocks))
            }
            None if start.iter().all(|&byte| byte == 0) => (Self::Blank, Blocks::Unknown),
            None => (Self::Unknown, Blocks::Unknown),
        }
    }

    pub(crate) fn describe(self) -> &'static str {
        match self {
            Self::Blank => "nothing but zeros at its start",
            Self::Known(name) => name,
            Self::Unknown => "data of an unknown kind",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scrim_backend::MemoryBackend;

    #[test]
    fn known_things_are_named_and_zeros_are_blank() {
        assert_eq!(Contents::of(&MemoryBackend::new(vec![])), Contents::Blank);
        let mut bytes = vec![0; 100 << 10];
        assert_eq!(
            Contents::of(&MemoryBackend::new(bytes.clone())),
            Contents::Blank
        );
        bytes[0x438..0x43a].copy_from_slice(b"\x53\xef");
        let found = Contents::of(&MemoryBackend::new(bytes.clone()));
        assert!(found.describe().contains("ext4"));
        bytes[0x438] = 1;
        assert_eq!(Contents::of(&MemoryBackend::new(bytes)), Contents::Unknown);
    }

    #[test]
    fn of_several_things_the_smallest_blocks_are_told() {
        let mut bytes = vec![0; 100 << 10];
        // ext4 with blocks of 4096 bytes.
        bytes[0x438..0x43a].copy_from_slice(b"\x53\xef");
        bytes[1048] = 2;
        let blocks = |bytes: &[u8]| Contents::with_blocks(&MemoryBackend::new(bytes.to_vec())).1;
        assert_eq!(blocks(&bytes), Blocks::Multiples(4096));
        bytes[510..512].copy_from_slice(b"\x55\xaa");
        assert_eq!(blocks(&bytes), Blocks::Multiples(4096), "a boot loader");
        (bytes[450], bytes[458]) = (0x83, 1);
        assert_eq!(blocks(&bytes), Blocks::Sectors(512));
        bytes[450] = 0;
        bytes[512 + 24..512 + 32].copy_from_slice(b"LVM2 001");
        assert_eq!(blocks(&bytes), Blocks::Unknown);
        // A protective MBR lies before each GPT.
        let mut gpt = vec![0; 100 << 10];
        gpt[510..512].copy_from_slice(b"\x55\xaa");
        (gpt[450], gpt[458]) = (0xee, 1);
        gpt[4096..4104].copy_from_slice(b"EFI PART");
        assert_eq!(blocks(&gpt), Blocks::Sectors(4096));
        gpt[512..520].copy_from_slice(b"EFI PART");
        assert_eq!(blocks(&gpt), Blocks::Sectors(512));
        // FAT ends its boot sector as an MBR does.
        let mut fat = vec![0; 100 << 10];
        fat[82..87].copy_from_slice(b"FAT32");
        fat[11..13].copy_from_slice(&4096_u16.to_le_bytes());
        fat[510..512].copy_from_slice(b"\x55\xaa");
        assert_eq!(blocks(&fat), Blocks::Multiples(4096));
    }
}
