//! Contents of a device, as the table of signatures and as `blkid` recognise them: what the programs of each format
//! make.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::FileExt;

use scrim_luks::{Sample, Signature};

use crate::support::{Place, have, noise, succeeded};
use crate::volume::CHEAP;

const MIB: u64 = 1 << 20;
const IMAGE: &str = "disk.img";

/// A program that makes a format: its name, arguments and standard input, the MiB of the image that it finds, if it
/// needs one, and what is made.
type Maker = (
    &'static str,
    &'static str,
    &'static str,
    u64,
    &'static [Signature],
);

const MAKERS: [Maker; 20] = [
    ("mkfs.ext4", "-q -F disk.img", "", 20, &[Signature::Ext]),
    (
        "mke2fs",
        "-q -F -t ext2 disk.img",
        "",
        20,
        &[Signature::Ext],
    ),
    ("mkfs.xfs", "-q -f disk.img", "", 301, &[Signature::Xfs]),
    ("mkfs.btrfs", "-q disk.img", "", 120, &[Signature::Btrfs]),
    ("mkfs.vfat", "-F 12 disk.img", "", 4, &[Signature::Fat]),
    ("mkfs.vfat", "-F 16 disk.img", "", 32, &[Signature::Fat]),
    ("mkfs.vfat", "-F 32 disk.img", "", 64, &[Signature::Fat]),
    ("mkfs.vfat", "-S 4096 disk.img", "", 64, &[Signature::Fat]),
    ("mkfs.exfat", "disk.img", "", 16, &[Signature::ExFat]),
    (
        "mkntfs",
        "-F -Q -q -s 512 -p 0 -H 0 -S 0 disk.img",
        "",
        16,
        &[Signature::Ntfs],
    ),
    ("mkswap", "disk.img", "", 20, &[Signature::Swap]),
    ("mkswap", "-p 8192 disk.img", "", 20, &[Signature::Swap]),
    ("mkswap", "-p 16384 disk.img", "", 20, &[Signature::Swap]),
    ("mkswap", "-p 32768 disk.img", "", 20, &[Signature::Swap]),
    ("mkswap", "-p 65536 disk.img", "", 20, &[Signature::Swap]),
    (
        "sfdisk",
        "-q -X dos disk.img",
        ",10M\n",
        20,
        &[Signature::Mbr],
    ),
    (
        "sfdisk",
        "-q disk.img",
        "label: dos\n",
        20,
        &[Signature::BootSector],
    ),
    (
        "sfdisk",
        "-q -X gpt disk.img",
        ",10M\n",
        20,
        &[Signature::Gpt],
    ),
    (
        "mksquashfs",
        "run disk.img -noappend -quiet -no-progress",
        "",
        0,
        &[Signature::SquashFs],
    ),
    (
        "genisoimage",
        "-quiet -o disk.img run",
        "",
        0,
        &[Signature::Iso9660],
    ),
];

/// The names that `blkid` has for a use, with one name for those that the table does not tell apart.
fn name(signature: Signature) -> &'static str {
    match signature {
        Signature::Luks1 | Signature::Luks2 | Signature::Luks2Secondary => "crypto_LUKS",
        Signature::Gpt => "gpt",
        Signature::Mbr | Signature::BootSector => "dos",
        Signature::Ext => "ext",
        Signature::Xfs => "xfs",
        Signature::Btrfs => "btrfs",
        Signature::Ntfs => "ntfs",
        Signature::ExFat => "exfat",
        Signature::Fat => "vfat",
        Signature::BitLocker => "BitLocker",
        Signature::Iso9660 => "iso9660",
        Signature::SquashFs => "squashfs",
        Signature::Swap => "swap",
        Signature::Lvm => "LVM2_member",
        Signature::Raid => "linux_raid_member",
        other => panic!("{other}"),
    }
}

fn blkid(place: &Place) -> BTreeSet<String> {
    let options = "-p -o value -s TYPE -s PTTYPE disk.img".split(' ');
    let output = place.run_with_input("blkid", options, b"");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let names = said.lines().map(|name| match name {
        "ext2" | "ext3" | "ext4" => "ext".to_owned(),
        other => other.to_owned(),
    });
    names.collect()
}

fn table(place: &Place) -> Vec<Signature> {
    let image = fs::File::open(place.path(IMAGE)).unwrap();
    let len = image.metadata().unwrap().len();
    let read = |offset, piece: &mut [u8]| image.read_exact_at(piece, offset);
    Signature::all(&Sample::read(len, read).unwrap())
}

/// Demands that the table finds this, and `blkid` the same; and that `scrim format` names the first.
#[track_caller]
fn check(place: &Place, what: &str, expected: &[Signature]) {
    assert_eq!(table(place), expected, "{what}");
    let names: BTreeSet<String> = expected.iter().map(|one| name(*one).to_owned()).collect();
    let mut of_blkid = blkid(place);
    // Some versions of libblkid take these two boot sectors for an MBR without partitions besides.
    if matches!(expected, [Signature::ExFat | Signature::BitLocker]) {
        of_blkid.remove("dos");
    }
    assert_eq!(of_blkid, names, "{what}: blkid");
    let Some(first) = expected.first() else {
        return;
    };
    let output = place.run_with_input("scrim", ["format", IMAGE, "-d", "key"], b"");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{what}: {said}");
    assert!(
        said.contains(&format!("holds {first}, and")),
        "{what}: {said}"
    );
}

fn place() -> Place {
    let place = Place::new();
    place.write("key", "open sesame");
    place
}

/// Writes these bytes to the image, which may be there already.
fn patch(place: &Place, patches: &[(u64, &[u8])]) {
    let image = fs::File::options().write(true).open(place.path(IMAGE));
    let image = image.unwrap();
    for (offset, bytes) in patches {
        image.write_all_at(bytes, *offset).unwrap();
    }
}

/// A place with an image of zeros but for these bytes.
fn with_bytes(len: u64, patches: &[(u64, &[u8])]) -> Place {
    let place = place();
    place.sparse(IMAGE, len);
    patch(&place, patches);
    place
}

#[test]
fn programs_make_what_table_and_blkid_recognise() {
    if !have(&["blkid"]) {
        return;
    }
    for (program, args, input, mib, expected) in MAKERS {
        if !have(&[program]) {
            continue;
        }
        let place = place();
        if mib > 0 {
            place.sparse(IMAGE, mib * MIB);
        }
        let made = place.run_with_input(program, args.split(' '), input.as_bytes());
        succeeded(program, &made);
        if mib == 0 {
            let image = fs::File::options().write(true).open(place.path(IMAGE));
            image.unwrap().set_len(20 * MIB).unwrap();
        }
        check(&place, &format!("{program} {args}"), expected);
    }
}

#[test]
fn luks_headers_are_recognised_by_version_and_copy() {
    if !have(&["blkid", "cryptsetup"]) {
        return;
    }
    for (version, expected) in [("luks1", Signature::Luks1), ("luks2", Signature::Luks2)] {
        let place = place();
        place.sparse(IMAGE, 20 * MIB);
        place.cryptsetup(&format!("luksFormat --type {version} {CHEAP} disk.img key"));
        check(&place, version, &[expected]);
        if version == "luks2" {
            patch(&place, &[(0, &[0; 4096])]);
            check(&place, "secondary", &[Signature::Luks2Secondary]);
        }
    }
}

/// `blkid` names the array alone, and `scrim format` names it first. Both programs open the volume in it all the same.
#[test]
fn a_mirror_is_named_before_the_volume_in_it_which_still_opens() {
    if !have(&["blkid", "cryptsetup"]) {
        return;
    }
    let len = 20 * MIB;
    let at = len - 0x2000;
    let mut superblock = vec![0; 512];
    superblock[..8].copy_from_slice(b"\xfc\x4e\x2b\xa9\x01\0\0\0");
    superblock[144..152].copy_from_slice(&(at / 512).to_le_bytes());
    for (version, luks) in [("luks1", Signature::Luks1), ("luks2", Signature::Luks2)] {
        let place = place();
        place.sparse(IMAGE, len);
        place.cryptsetup(&format!("luksFormat --type {version} {CHEAP} disk.img key"));
        patch(&place, &[(at, &superblock)]);
        assert_eq!(table(&place), [Signature::Raid, luks]);
        assert_eq!(
            blkid(&place),
            BTreeSet::from(["linux_raid_member".to_owned()])
        );
        for command in [
            "isLuks disk.img",
            "luksDump disk.img",
            "open --test-passphrase --key-file key disk.img",
        ] {
            place.cryptsetup(command);
            let output = place.run_with_input("scrim", command.split(' '), b"");
            succeeded(command, &output);
        }
        let format = place.run_with_input("scrim", ["format", IMAGE, "-d", "key"], b"");
        let said = String::from_utf8_lossy(&format.stderr).into_owned();
        let named = format!("holds {}, and", Signature::Raid);
        assert!(!format.status.success() && said.contains(&named), "{said}");
    }
}

/// `blkid` takes a regular file to have sectors of 512 bytes, and so sees no more than the MBR before such a table.
#[test]
fn a_gpt_with_large_sectors_is_recognised() {
    if !have(&["blkid", "fdisk"]) {
        return;
    }
    let place = place();
    place.sparse(IMAGE, 20 * MIB);
    let made = place.run_with_input("fdisk", ["-b", "4096", IMAGE], b"g\nn\n\n\n\nw\n");
    succeeded("fdisk", &made);
    assert_eq!(table(&place), [Signature::Gpt]);
    assert_eq!(blkid(&place), BTreeSet::from(["PMBR".to_owned()]));
}

#[test]
fn of_several_uses_all_are_recognised() {
    if !have(&["blkid", "mkfs.ext4", "mkfs.vfat", "sfdisk"]) {
        return;
    }
    let make = |program: &str, args: &str, input: &[u8]| {
        let place = place();
        place.sparse(IMAGE, 20 * MIB);
        let made = place.run_with_input(program, args.split(' '), input);
        succeeded(program, &made);
        place
    };
    let place = make("mkfs.ext4", "-q -F disk.img", b"");
    patch(&place, &[(510, b"\x55\xaa")]);
    let boot_loader = [Signature::Ext, Signature::BootSector];
    check(&place, "a file system with a boot loader", &boot_loader);
    patch(&place, &[(450, &[0x83, 0, 0, 0, 8, 0, 0, 0, 8])]);
    let partitions = [Signature::Ext, Signature::Mbr];
    check(&place, "a file system and partitions", &partitions);
    // The primary table and header are lost, and the backup at the end is not.
    let place = make("sfdisk", "-q -X gpt disk.img", b",10M\n");
    patch(&place, &[(512, &[0; 512])]);
    check(&place, "a backup of a GPT", &[Signature::Gpt]);
    patch(&place, &[(20 * MIB - 512, &[0; 512])]);
    assert_eq!(table(&place), [Signature::BootSector]);
    assert_eq!(blkid(&place), BTreeSet::from(["PMBR".to_owned()]));
    // Bytes of a boot loader that look like partitions are none.
    let place = make("mkfs.vfat", "-F 16 disk.img", b"");
    patch(
        &place,
        &[(446, &[0x80, 1, 1, 0, 6, 0, 0, 0, 8, 0, 0, 0, 8])],
    );
    check(&place, "FAT16 with a boot loader", &[Signature::Fat]);
}

#[test]
fn noise_and_zeros_are_nothing() {
    if !have(&["blkid"]) {
        return;
    }
    let place = place();
    place.write(IMAGE, noise(4 << 20, 5));
    check(&place, "noise", &[]);
    place.write(IMAGE, vec![0; 4 << 20]);
    check(&place, "zeros", &[]);
}

/// The bytes that `BitLocker` documents, since no program here makes it: the boot sector of Windows 7 and later
/// with the place of the metadata, and the metadata's start.
#[test]
fn bitlocker_is_recognised_by_its_documented_bytes() {
    if !have(&["blkid"]) {
        return;
    }
    let guid = b"\x3b\xd6\x67\x49\x29\x2e\xd8\x4a\x83\x99\xf6\xa3\x39\xe3\xd0\x01";
    let metadata: (u64, &[u8]) = (MIB, b"-FVE-FS-\0\x01\x02\0");
    let parameters: (u64, &[u8]) = (11, &[0, 2, 8, 0, 0, 0, 0, 0, 0, 0, 0xf8]);
    let place = with_bytes(
        16 * MIB,
        &[
            (0, b"\xeb\x58\x90-FVE-FS-"),
            parameters,
            (176, &MIB.to_le_bytes()),
            (510, b"\x55\xaa"),
            metadata,
        ],
    );
    check(&place, "BitLocker", &[Signature::BitLocker]);
    let place = with_bytes(
        16 * MIB,
        &[
            (0, b"\xeb\x58\x90MSWIN4.1"),
            parameters,
            (424, guid),
            (440, &MIB.to_le_bytes()),
            (510, b"\x55\xaa"),
            metadata,
        ],
    );
    check(&place, "BitLocker To Go", &[Signature::BitLocker]);
}

/// The checksum of LVM2's label.
fn lvm_checksum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0xf597_a6cf, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xedb8_8320 * (crc & 1))
        })
    })
}

/// `pvcreate` takes only block devices, so the label is written here, with its checksum, in each sector that may
/// have it.
#[test]
fn an_lvm_label_is_recognised_in_the_first_four_sectors() {
    if !have(&["blkid"]) {
        return;
    }
    for sector in [0_u64, 1, 2, 3] {
        let mut label = vec![0; 512];
        label[..8].copy_from_slice(b"LABELONE");
        label[8..16].copy_from_slice(&sector.to_le_bytes());
        label[20..24].copy_from_slice(&32_u32.to_le_bytes());
        label[24..32].copy_from_slice(b"LVM2 001");
        label[32..64].fill(b'x');
        let checksum = lvm_checksum(&label[20..]);
        label[16..20].copy_from_slice(&checksum.to_le_bytes());
        let place = with_bytes(8 * MIB, &[(512 * sector, &label)]);
        check(
            &place,
            &format!("a label in sector {sector}"),
            &[Signature::Lvm],
        );
    }
}

/// `mdadm` takes only block devices, so the superblocks are written here.
#[test]
fn raid_members_are_recognised_by_every_version_of_the_superblock() {
    if !have(&["blkid"]) {
        return;
    }
    // 8 MiB and something, so that the places at the end differ.
    let len = 8 * MIB + 100 * 512;
    for offset in [0, 4096, (len & !0xfff) - 0x2000] {
        let mut superblock = vec![0; 512];
        superblock[..4].copy_from_slice(&0xa92b_4efc_u32.to_le_bytes());
        superblock[4..8].copy_from_slice(&1_u32.to_le_bytes());
        superblock[144..152].copy_from_slice(&(offset / 512).to_le_bytes());
        let place = with_bytes(len, &[(offset, &superblock)]);
        check(
            &place,
            &format!("version 1 at {offset}"),
            &[Signature::Raid],
        );
    }
    let fields = [0xa92b_4efc_u32, 0, 90, 0, 0, 7, 0, 1, 8000];
    let little: Vec<u8> = fields
        .iter()
        .flat_map(|field| field.to_le_bytes())
        .collect();
    let big: Vec<u8> = fields
        .iter()
        .flat_map(|field| field.to_be_bytes())
        .collect();
    for superblock in [little, big] {
        let place = with_bytes(len, &[((len & !0xffff) - 0x1_0000, &superblock)]);
        check(&place, "version 0.90", &[Signature::Raid]);
    }
}
