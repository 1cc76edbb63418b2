//! Contents of a device, so that no user overwrites data by mistake.

use scrim_backend::Backend;
use scrim_luks::{Sample, Signature};
use scrim_volume::Volume;

use crate::blocks::Blocks;

/// Contents of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Contents {
    /// Nothing but zeros in all places where signatures lie.
    Blank,
    /// Something known by its signature.
    Known(Signature),
    /// Bytes that are not zero.
    Unknown,
}

/// Contents of a device, and the blocks in which they are written.
#[derive(Debug)]
pub(crate) struct Survey {
    pub(crate) contents: Contents,
    /// Signatures of the data, each with the blocks that it tells.
    told: Vec<(Signature, Blocks)>,
}

impl Survey {
    /// Reads the places of a backend where signatures lie.
    pub(crate) fn of(backend: &dyn Backend) -> Self {
        Self::by(backend.info().size, |offset, piece| {
            backend.read_at(offset, piece)
        })
    }

    /// Reads the places of a volume's plaintext where signatures lie.
    pub(crate) fn of_volume(volume: &Volume) -> Self {
        Self::by(volume.size(), |offset, piece| volume.read(offset, piece))
    }

    /// Reads the places of a device of `device_len` bytes where signatures lie.
    fn by<E>(device_len: u64, read: impl FnMut(u64, &mut [u8]) -> Result<(), E>) -> Self {
        let Ok(sample) = Sample::read(device_len, read) else {
            return Self {
                contents: Contents::Unknown,
                told: Vec::new(),
            };
        };
        let found = Signature::all(&sample);
        let contents = match found.first() {
            Some(first) => Contents::Known(*first),
            None if sample.is_zero() => Contents::Blank,
            None => Contents::Unknown,
        };
        let told = Blocks::of(&found, &sample);
        Self { contents, told }
    }

    /// The blocks of all the data; not known if one of its signatures does not tell.
    pub(crate) fn blocks(&self) -> Blocks {
        Blocks::of_all(self.told.iter().map(|(_, blocks)| *blocks))
    }

    /// The blocks that signatures tell, whatever other data there is, and the signature that decided.
    pub(crate) fn known_blocks(&self) -> Option<(Signature, Blocks)> {
        let known = self.told.iter();
        let known = known.filter(|(_, blocks)| *blocks != Blocks::Unknown);
        let decided = Blocks::of_all(known.clone().map(|(_, blocks)| *blocks));
        let mut known = known.copied();
        known.find(|(_, blocks)| *blocks == decided)
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

    fn survey(bytes: &[u8]) -> Survey {
        Survey::of(&MemoryBackend::new(bytes.to_vec()))
    }

    #[test]
    fn known_things_are_named_and_zeros_are_blank() {
        assert_eq!(survey(&[]).contents, Contents::Blank);
        let mut bytes = vec![0; 100 << 10];
        assert_eq!(survey(&bytes).contents, Contents::Blank);
        bytes[0x438..0x43a].copy_from_slice(b"\x53\xef");
        assert!(survey(&bytes).contents.to_string().contains("ext4"));
        bytes[0x438] = 1;
        assert_eq!(survey(&bytes).contents, Contents::Unknown);
    }

    #[test]
    fn a_device_with_bytes_at_its_end_is_not_blank() {
        let mut bytes = vec![0; 8 << 20];
        // As libblkid, without the MBR that protects it a backup header is not a partition table.
        let backup = bytes.len() - 512;
        bytes[backup..backup + 8].copy_from_slice(b"EFI PART");
        assert_eq!(survey(&bytes).contents, Contents::Unknown);
    }

    #[test]
    fn a_bad_sector_behind_the_start_hides_nothing_at_the_start() {
        let mut bytes = vec![0; 8 << 20];
        let survey = |bytes: &[u8]| {
            let device = MemoryBackend::new(bytes.to_vec());
            Survey::by(bytes.len() as u64, |offset, piece| {
                match offset + piece.len() as u64 > 68 << 10 {
                    true => Err(()),
                    false => device.read_at(offset, piece).map_err(|_| ()),
                }
            })
        };
        assert_eq!(survey(&bytes).contents, Contents::Unknown, "zeros");
        bytes[0x438..0x43a].copy_from_slice(b"\x53\xef");
        assert_eq!(survey(&bytes).contents, Contents::Known(Signature::Ext));
        assert_eq!(survey(&bytes).blocks(), Blocks::Multiples(1024));
    }

    /// A member of a RAID with metadata of version 1.0, which leaves the start to the data.
    fn with_raid(bytes: &mut [u8]) {
        let at = bytes.len() - 0x2000;
        bytes[at..at + 8].copy_from_slice(b"\xfc\x4e\x2b\xa9\x01\0\0\0");
        let sector = at as u64 / 512;
        bytes[at + 144..at + 152].copy_from_slice(&sector.to_le_bytes());
    }

    #[test]
    fn remains_of_another_use_do_not_hide_the_blocks_of_a_file_system() {
        let mut bytes = vec![0; 8 << 20];
        bytes[0x438..0x43a].copy_from_slice(b"\x53\xef");
        bytes[1048] = 2;
        let mut member = bytes.clone();
        with_raid(&mut member);
        assert_eq!(survey(&member).contents, Contents::Known(Signature::Raid));
        assert_eq!(survey(&member).blocks(), Blocks::Multiples(4096));
        // The secondary header of a volume that was there before.
        bytes[0x8000..0x8008].copy_from_slice(b"SKUL\xba\xbe\0\x02");
        bytes[0x8100..0x8108].copy_from_slice(&0x8000_u64.to_be_bytes());
        let found = survey(&bytes);
        assert_eq!(found.contents, Contents::Known(Signature::Luks2Secondary));
        assert_eq!(found.blocks(), Blocks::Multiples(4096));
    }

    #[test]
    fn what_is_known_is_told_beside_what_is_not() {
        let mut bytes = vec![0; 100 << 10];
        assert_eq!(survey(&bytes).known_blocks(), None);
        bytes[512..520].copy_from_slice(b"LABELONE");
        assert_eq!(survey(&bytes).known_blocks(), None);
        bytes[0x438..0x43a].copy_from_slice(b"\x53\xef");
        let ext = Some((Signature::Ext, Blocks::Multiples(1024)));
        assert_eq!(survey(&bytes).known_blocks(), ext);
        assert_eq!(survey(&bytes).blocks(), Blocks::Unknown);
        bytes[510..512].copy_from_slice(b"\x55\xaa");
        (bytes[450], bytes[458]) = (0x83, 1);
        let table = Some((Signature::Mbr, Blocks::Sectors(512)));
        assert_eq!(survey(&bytes).known_blocks(), table);
    }

    #[test]
    fn of_several_things_the_smallest_blocks_are_told() {
        let mut bytes = vec![0; 100 << 10];
        // ext4 with blocks of 4096 bytes.
        bytes[0x438..0x43a].copy_from_slice(b"\x53\xef");
        bytes[1048] = 2;
        let blocks = |bytes: &[u8]| survey(bytes).blocks();
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
