//! Contents of a device, so that no user overwrites data by mistake.

use scrim_backend::Backend;
use scrim_luks::{Sample, Signature};

use crate::blocks::Blocks;

/// Contents of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Contents {
    /// Nothing but zeros, as far as was looked.
    Blank,
    /// Something known by its signature.
    Known(Signature),
    /// Bytes that are not zero.
    Unknown,
}

impl Contents {
    /// Looks where signatures lie on a backend.
    pub(crate) fn of(backend: &dyn Backend) -> Self {
        Self::with_blocks(backend).0
    }

    /// Looks where signatures lie on a backend, and in which blocks what is there is written.
    pub(crate) fn with_blocks(backend: &dyn Backend) -> (Self, Blocks) {
        let read = |offset, piece: &mut [u8]| backend.read_at(offset, piece);
        let Ok(sample) = Sample::read(backend.info().size, read) else {
            return (Self::Unknown, Blocks::Unknown);
        };
        let found = Signature::all(&sample);
        match found.first() {
            Some(first) => (Self::Known(*first), Blocks::of(&found, &sample)),
            None if sample.start().iter().all(|&byte| byte == 0) => (Self::Blank, Blocks::Unknown),
            None => (Self::Unknown, Blocks::Unknown),
        }
    }
}

impl std::fmt::Display for Contents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Blank => f.write_str("nothing but zeros at its start"),
            Self::Known(signature) => signature.fmt(f),
            Self::Unknown => f.write_str("data of an unknown kind"),
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
        assert!(found.to_string().contains("ext4"));
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
        bytes[512..520].copy_from_slice(b"LABELONE");
        assert_eq!(blocks(&bytes), Blocks::Unknown);
        // A protective MBR lies before each GPT.
        let mut gpt = vec![0; 100 << 10];
        gpt[510..512].copy_from_slice(b"\x55\xaa");
        (gpt[450], gpt[458]) = (0xee, 1);
        gpt[4096..4104].copy_from_slice(b"EFI PART");
        assert_eq!(blocks(&gpt), Blocks::Sectors(4096));
        gpt[512..520].copy_from_slice(b"EFI PART");
        assert_eq!(blocks(&gpt), Blocks::Sectors(512));
        // Another partition beside the protective one counts in sectors of 512 bytes.
        gpt[512..520].fill(0);
        (gpt[466], gpt[474]) = (0x83, 1);
        assert_eq!(blocks(&gpt), Blocks::Sectors(512));
        // FAT ends its boot sector as an MBR does.
        let mut fat = vec![0; 100 << 10];
        fat[82..90].copy_from_slice(b"FAT32   ");
        fat[11..13].copy_from_slice(&4096_u16.to_le_bytes());
        // One sector to a cluster, one reserved sector, one table, 24 sectors, a hard disk.
        (fat[13], fat[14], fat[16], fat[19], fat[21]) = (1, 1, 1, 24, 0xf8);
        fat[510..512].copy_from_slice(b"\x55\xaa");
        assert_eq!(blocks(&fat), Blocks::Multiples(4096));
    }
}
