//! Uses of a device, recognised by signatures: file systems, partition tables, volumes. One table for the whole
//! program.
//!
//! Offsets and magic are those of libblkid, by which cryptsetup tells whether a device has become something else. Of
//! its further conditions there are those without which other data is easily mistaken; checksums are not verified.

mod boot_sector;
mod kinds;
mod places;
mod raid;
mod sample;
mod table;

pub use kinds::Signature;
pub use sample::Sample;

impl Signature {
    /// Finds all uses of a device that its bytes tell, the surer ones first. A boot sector that a file system has
    /// counts as that file system alone, and an MBR that only protects a GPT as that GPT.
    #[must_use]
    pub fn all(sample: &Sample<'_>) -> Vec<Self> {
        table::found(sample).collect()
    }

    /// Finds what lies at the start of `area`, other than a LUKS header, or may lie there: the two bytes of a boot
    /// sector may be a part of anything else, such as a checksum.
    pub(crate) fn find(area: &[u8]) -> Option<Self> {
        let start = area.get(..area.len().min(4096)).unwrap_or_default();
        let zeros = !start.is_empty() && start.iter().all(|&byte| byte == 0);
        let sample = Sample::of_start(area);
        let mut others = table::found(&sample).filter(|found| !found.is_luks());
        others.next().or(zeros.then_some(Self::Zeros))
    }

    /// Finds the other use of the device that starts with `area`, by the signatures that cryptsetup goes by.
    /// A device of zeros has no other use.
    pub(crate) fn of_another(area: &[u8]) -> Option<Self> {
        let found = Self::find(area).filter(|found| *found != Self::Zeros);
        found.filter(|found| {
            *found != Self::BootSector || boot_sector::has_boot_flags(&Sample::of_start(area))
        })
    }

    fn is_luks(self) -> bool {
        matches!(
            self,
            Self::Luks1 | Self::Luks2 | Self::Luks | Self::Luks2Secondary
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of a device at an offset.
    type Bytes<'a> = (usize, &'a [u8]);

    /// A device of `len` bytes, zeros but for these bytes.
    fn device(len: usize, bytes: &[Bytes<'_>]) -> Vec<u8> {
        let mut device = vec![0; len];
        for (at, bytes) in bytes {
            device[*at..at + bytes.len()].copy_from_slice(bytes);
        }
        device
    }

    fn all(device: &[u8]) -> Vec<Signature> {
        let read = |offset, piece: &mut [u8]| {
            let start = usize::try_from(offset).unwrap();
            piece.copy_from_slice(&device[start..start + piece.len()]);
            Ok::<_, ()>(())
        };
        Signature::all(&Sample::read(device.len() as u64, read).unwrap())
    }

    const LEN: usize = 1 << 20;
    const BOOT: Bytes<'_> = (510, b"\x55\xaa");
    /// An entry of an MBR: 2047 sectors from the second one, of type 0x83.
    const ENTRY: Bytes<'_> = (446, &[0, 0, 2, 0, 0x83, 0, 0, 0, 1, 0, 0, 0, 0xff, 7]);
    const PROTECTIVE: Bytes<'_> = (446, &[0, 0, 2, 0, 0xee, 0, 0, 0, 1, 0, 0, 0, 0xff, 7]);
    /// Parameters of a floppy disk with FAT12.
    const FAT12: Bytes<'_> = (11, &[0, 2, 1, 1, 0, 2, 0xe0, 0, 0x40, 0x0b, 0xf0, 9, 0]);

    #[test]
    fn each_kind_of_boot_sector_is_told_from_an_mbr() {
        let fat16 = [0, 2, 4, 4, 0, 2, 0, 2, 0, 0xa0, 0xf8, 40, 0];
        let fat32: &[u8] = &[0, 2, 1, 32, 0, 2, 0, 0, 0, 0, 0xf8, 0, 0];
        let fat32_sizes: &[u8] = &[0, 0, 4, 0, 0xf1, 7, 0, 0];
        let cases: [(&[Bytes<'_>], &[Signature]); 13] = [
            (&[BOOT], &[Signature::BootSector]),
            (&[BOOT, ENTRY], &[Signature::Mbr]),
            (&[ENTRY], &[]),
            (&[BOOT, ENTRY, (446, b"\x41")], &[Signature::BootSector]),
            (&[BOOT, PROTECTIVE], &[Signature::BootSector]),
            (&[BOOT, FAT12, (54, b"FAT12   ")], &[Signature::Fat]),
            // Entries that look like partitions are a boot loader's instructions there.
            (&[BOOT, FAT12, ENTRY], &[Signature::Fat]),
            (&[(11, &fat16), (54, b"FAT16   ")], &[Signature::Fat]),
            (
                &[BOOT, (11, fat32), (32, fat32_sizes), (82, b"FAT32   ")],
                &[Signature::Fat],
            ),
            (
                &[BOOT, (3, b"EXFAT   "), (108, &[9, 3, 1])],
                &[Signature::ExFat],
            ),
            (&[BOOT, ENTRY, (3, b"NTFS    \0\x02")], &[Signature::Ntfs]),
            (&[BOOT, (3, b"-FVE-FS-")], &[Signature::BitLocker]),
            // A name alone, without parameters, does not make a file system.
            (&[BOOT, (54, b"FAT16   ")], &[Signature::BootSector]),
        ];
        for (bytes, expected) in cases {
            assert_eq!(all(&device(LEN, bytes)), expected, "{bytes:?}");
        }
    }

    #[test]
    fn a_gpt_counts_with_the_mbr_that_protects_it() {
        let gpt = [Signature::Gpt];
        for header in [512, 4096] {
            let header: Bytes<'_> = (header, b"EFI PART");
            assert_eq!(all(&device(LEN, &[header])), gpt);
            assert_eq!(all(&device(LEN, &[BOOT, PROTECTIVE, header])), gpt);
            let hybrid = all(&device(LEN, &[BOOT, ENTRY, header]));
            assert_eq!(hybrid, [Signature::Gpt, Signature::Mbr]);
        }
        for size in [512, 4096] {
            let backup: Bytes<'_> = (LEN - size, b"EFI PART");
            assert_eq!(all(&device(LEN, &[BOOT, PROTECTIVE, backup])), gpt);
            assert_eq!(all(&device(LEN, &[backup])), []);
        }
    }

    #[test]
    fn luks_headers_are_named_by_version_and_copy() {
        let secondary: Bytes<'_> = (0x8000, b"SKUL\xba\xbe\0\x02");
        let place: Bytes<'_> = (0x8100, &0x8000_u64.to_be_bytes());
        let cases: [(&[Bytes<'_>], &[Signature]); 6] = [
            (&[(0, b"LUKS\xba\xbe\0\x01")], &[Signature::Luks1]),
            (&[(0, b"LUKS\xba\xbe\0\x02")], &[Signature::Luks2]),
            (&[(0, b"LUKS\xba\xbe\0\x03")], &[Signature::Luks]),
            (&[secondary, place], &[Signature::Luks2Secondary]),
            (&[secondary], &[]),
            (
                &[(0, b"LUKS\xba\xbe\0\x02"), secondary, place],
                &[Signature::Luks2],
            ),
        ];
        for (bytes, expected) in cases {
            let device = device(LEN, bytes);
            assert_eq!(all(&device), expected, "{bytes:?}");
            assert!(Signature::of_another(&device).is_none());
        }
    }

    /// A superblock of version 1 with `sector` as its place.
    fn raid(sector: u64) -> Vec<u8> {
        let mut superblock = vec![0; 256];
        superblock[..8].copy_from_slice(b"\xfc\x4e\x2b\xa9\x01\0\0\0");
        superblock[144..152].copy_from_slice(&sector.to_le_bytes());
        superblock
    }

    #[test]
    fn members_of_a_raid_are_known_by_their_start_or_end() {
        let len = LEN + 512;
        for at in [0, 4096, LEN - 0x2000] {
            let member = device(len, &[(at, &raid(at as u64 / 512)), BOOT]);
            assert_eq!(all(&member)[0], Signature::Raid, "{at}");
            let elsewhere = device(len, &[(at, &raid(3))]);
            assert_eq!(all(&elsewhere), [], "{at}");
        }
        let fields = [0xa92b_4efc_u32, 0, 90, 0, 0, 0, 0, 0, 960];
        let little: Vec<u8> = fields
            .iter()
            .flat_map(|field| field.to_le_bytes())
            .collect();
        let big: Vec<u8> = fields
            .iter()
            .flat_map(|field| field.to_be_bytes())
            .collect();
        for superblock in [&little, &big] {
            let at = (LEN - (64 << 10), &superblock[..]);
            assert_eq!(all(&device(len, &[at])), [Signature::Raid]);
            // It belongs to the partition in which it lies.
            assert_eq!(all(&device(len, &[at, BOOT, ENTRY])), [Signature::Mbr]);
        }
    }

    /// The partition of a protective MBR is no longer than 32 bits say, and the GPT behind it may be.
    #[test]
    fn a_superblock_beyond_a_protective_mbr_belongs_to_a_partition() {
        let len = 3_u64 << 40;
        let fields = [0xa92b_4efc_u32, 0, 90, 0, 0, 0, 0, 0, 960];
        let superblock = fields.map(u32::to_le_bytes).concat();
        let protective = [
            0, 0, 2, 0, 0xee, 0, 0, 0, 1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff,
        ];
        let all = |bytes: &[(u64, &[u8])]| {
            let read = |offset, piece: &mut [u8]| {
                for (at, bytes) in bytes {
                    if let Some(within) = at.checked_sub(offset)
                        && let Some(rest) = piece.get_mut(usize::try_from(within).unwrap()..)
                        && let Some(place) = rest.get_mut(..bytes.len())
                    {
                        place.copy_from_slice(bytes);
                    }
                }
                Ok::<_, ()>(())
            };
            Signature::all(&Sample::read(len, read).unwrap())
        };
        let member: (u64, &[u8]) = (len - (64 << 10), &superblock);
        assert_eq!(all(&[member]), [Signature::Raid]);
        let table: [(u64, &[u8]); 4] = [
            (446, &protective),
            (510, b"\x55\xaa"),
            (512, b"EFI PART"),
            member,
        ];
        assert_eq!(all(&table), [Signature::Gpt]);
    }

    /// As in libblkid, the array comes first; a volume in it is opened as cryptsetup opens it, by its header alone.
    #[test]
    fn a_mirror_comes_before_the_luks_volume_in_it() {
        let at = LEN - 0x2000;
        for (version, luks) in [(1, Signature::Luks1), (2, Signature::Luks2)] {
            let magic = [b"LUKS\xba\xbe\0", &[version][..]].concat();
            let member = device(LEN, &[(0, &magic), (at, &raid(at as u64 / 512))]);
            assert_eq!(all(&member), [Signature::Raid, luks]);
            assert_eq!(Signature::of_another(&member), None);
        }
    }

    #[test]
    fn swap_space_is_known_by_every_size_of_pages() {
        for page in [4096, 8192, 16384, 32768, 65536] {
            for magic in [&b"SWAPSPACE2"[..], b"S1SUSPEND\0"] {
                let sign: Bytes<'_> = (page - 10, magic);
                let header: Bytes<'_> = (1024, &[1, 0, 0, 0, 9]);
                assert_eq!(all(&device(LEN, &[sign, header])), [Signature::Swap]);
            }
            let magic: Bytes<'_> = (page - 10, b"SWAPSPACE2");
            for header in [[0, 0, 0, 0, 9], [1, 0, 0, 0, 0], [2, 0, 0, 0, 9]] {
                assert_eq!(all(&device(LEN, &[magic, (1024, &header)])), []);
            }
            assert_eq!(
                all(&device(LEN, &[(page - 10, b"S1SUSPEND\0")])),
                [Signature::Swap]
            );
        }
    }

    #[test]
    fn nothing_is_known_of_zeros_and_of_no_bytes() {
        assert_eq!(all(&[]), []);
        assert_eq!(all(&[0; 511]), []);
        assert_eq!(all(&vec![0; LEN]), []);
        assert_eq!(Signature::find(&[0; 511]), Some(Signature::Zeros));
        assert_eq!(Signature::of_another(&[0; 511]), None);
    }
}
