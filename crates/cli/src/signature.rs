//! What a device holds, as far as its first bytes tell: so that nobody overwrites what he did not
//! mean to.

use scrim_backend::Backend;

/// How much is looked at, in bytes: the last signature below lies at 64 KiB.
const LOOK: usize = (64 << 10) + 512;

/// A signature: what it says, where it lies, its bytes.
const SIGNATURES: [(&str, usize, &[u8]); 16] = [
    ("a LUKS volume", 0, b"LUKS\xba\xbe"),
    ("a LUKS2 secondary header", 0x4000, b"SKUL\xba\xbe"),
    ("a GPT partition table", 512, b"EFI PART"),
    ("an ext2, ext3 or ext4 file system", 0x438, b"\x53\xef"),
    ("an XFS file system", 0, b"XFSB"),
    ("a Btrfs file system", 0x1_0040, b"_BHRfS_M"),
    ("an F2FS file system", 0x400, b"\x10\x20\xf5\xf2"),
    ("an NTFS file system", 3, b"NTFS    "),
    ("a FAT file system", 82, b"FAT32"),
    ("an exFAT file system", 3, b"EXFAT   "),
    ("an ISO 9660 file system", 0x8001, b"CD001"),
    ("a SquashFS file system", 0, b"hsqs"),
    ("swap space", 4086, b"SWAPSPACE2"),
    ("an LVM physical volume", 512 + 24, b"LVM2 001"),
    ("a qcow2 image", 0, b"QFI\xfb"),
    ("a partition table", 510, b"\x55\xaa"),
];

/// What was found.
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
        let size = usize::try_from(backend.info().size).unwrap_or(LOOK);
        let mut start = vec![0; size.min(LOOK)];
        if backend.read_at(0, &mut start).is_err() {
            return Self::Unknown;
        }
        let found = SIGNATURES.iter().find(|(_, at, magic)| {
            start
                .get(*at..*at + magic.len())
                .is_some_and(|bytes| bytes == *magic)
        });
        match found {
            Some((name, _, _)) => Self::Known(name),
            None if start.iter().all(|&byte| byte == 0) => Self::Blank,
            None => Self::Unknown,
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
}
