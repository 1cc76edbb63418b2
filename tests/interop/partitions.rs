//! A disk image with partitions: the volumes in it are found, and the commands that are printed open them.

use std::fs;
use std::os::unix::fs::FileExt;

use crate::support::{Place, assert_same, have, noise};
use crate::volume::CHEAP;

const MIB: usize = 1 << 20;

/// A disk with an MBR: its second partition, and the first logical one, are the volume.
fn disk(place: &Place, name: &str, volume: &[u8]) {
    let sectors = |bytes: usize| u32::try_from(bytes / 512).unwrap().to_le_bytes();
    let mut table = vec![0; 512];
    let mut link = vec![0; 512];
    let entries = [
        (0, 0x83, MIB, MIB),
        (1, 0x83, 4 * MIB, volume.len()),
        (2, 0x05, 32 * MIB, 28 * MIB),
    ];
    for (index, kind, start, len) in entries {
        let entry = &mut table[446 + 16 * index..][..16];
        entry[4] = kind;
        entry[8..12].copy_from_slice(&sectors(start));
        entry[12..].copy_from_slice(&sectors(len));
    }
    link[446 + 4] = 0x83;
    link[446 + 8..446 + 12].copy_from_slice(&sectors(MIB));
    link[446 + 12..446 + 16].copy_from_slice(&sectors(volume.len()));
    for sector in [&mut table, &mut link] {
        sector[510..].copy_from_slice(b"\x55\xaa");
    }
    place.sparse(name, 64 << 20);
    let image = fs::File::options()
        .write(true)
        .open(place.path(name))
        .unwrap();
    for (at, bytes) in [
        (0, &table[..]),
        (4 * MIB, volume),
        (32 * MIB, &link),
        (33 * MIB, volume),
    ] {
        image.write_all_at(bytes, at as u64).unwrap();
    }
}

/// The command that opens one partition, as it was printed.
fn command(said: &str, number: u32) -> String {
    let head = format!("partition {number}, ");
    let lines = said.lines().skip_while(|line| !line.contains(&head));
    let mut lines = lines.skip(1).filter(|line| line.starts_with("  "));
    lines.next().unwrap().trim().to_owned()
}

/// A volume with `payload` in a file of its own.
fn volume(place: &Place, payload: &[u8]) -> Vec<u8> {
    place.write("key", "open sesame");
    place.sparse("volume.img", 20 << 20);
    place.cryptsetup(&format!("luksFormat --type luks2 {CHEAP} volume.img key"));
    let uri = place.open("volume.img", "filling", &["-d", "key"]);
    place.copy_in(payload, &uri);
    place.close("filling");
    fs::read(place.path("volume.img")).unwrap()
}

#[test]
fn what_is_printed_opens_the_partition() {
    if !have(&["cryptsetup", "nbdcopy", "bash"]) {
        return;
    }
    let place = Place::new();
    let payload = noise(4 << 20, 3);
    let volume = volume(&place, &payload);
    for (name, words) in [
        (r"it's my \disk.img", "repair"),
        ("vm=a.img", "dump"),
        ("-d.img", "open --test-passphrase -d key"),
    ] {
        disk(&place, name, &volume);
        let before = fs::read(place.path(name)).unwrap();
        let named = format!("./{name}");
        let words = words.split(' ').chain([&*named]);
        let output = place.run_with_input("scrim", words, b"");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(
            !said.contains("lost") && !said.contains("nothing here can be"),
            "{said}"
        );
        assert!(
            !said.contains("partition 1,") && said.contains("partition 2,"),
            "{said}"
        );
        for number in [2, 5] {
            let open = command(&said, number);
            let open = open.replace("NAME", "secret --key-file key --readonly");
            let uri = place.run("bash", ["-c", &open]);
            assert_same(&place.copy_out(uri.trim()), &payload, "the payload");
            // Commands that write are refused meanwhile.
            let busy = place.run_with_input("scrim", ["erase", "-q", &named], b"");
            assert!(!busy.status.success());
            place.close("secret");
        }
        assert!(place.scrim(["list", "--json"]).trim().ends_with("[]"));
        assert_same(&fs::read(place.path(name)).unwrap(), &before, "the disk");
    }
}

/// A disk that was a LUKS2 volume as a whole has its secondary header still, and a partition table over the primary.
#[test]
fn partitions_are_shown_where_a_stale_header_survives() {
    if !have(&["cryptsetup", "nbdcopy"]) {
        return;
    }
    let place = Place::new();
    let volume = volume(&place, &noise(4 << 20, 4));
    disk(&place, "disk.img", &volume);
    let table = fs::read(place.path("disk.img")).unwrap()[..512].to_vec();
    let image = fs::File::options().write(true).open(place.path("disk.img"));
    let image = image.unwrap();
    // The header that was there, but for the sector of the partition table.
    image.write_all_at(&volume[512..MIB], 512).unwrap();
    image.write_all_at(&table, 0).unwrap();
    let before = fs::read(place.path("disk.img")).unwrap();
    for (words, expected) in [
        ("dump disk.img", 1),
        ("open --test-passphrase -d key disk.img", 1),
        // Standard input is empty, so no question can be answered.
        ("repair disk.img", 5),
        ("repair -q disk.img", 1),
    ] {
        let output = place.run_with_input("scrim", words.split(' '), b"");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(expected), "{words}: {said}");
        assert!(said.contains("partition 2,"), "{words}: {said}");
        let now = fs::read(place.path("disk.img")).unwrap();
        assert!(now == before, "{words}: {said}");
    }
}

/// A device that was cut short is to be made longer: no backup fits it.
#[test]
fn repair_says_how_long_a_device_must_be() {
    if !have(&["cryptsetup"]) {
        return;
    }
    let place = Place::new();
    place.write("key", "open sesame");
    place.sparse("disk.img", 20 << 20);
    place.cryptsetup(&format!("luksFormat --type luks2 {CHEAP} disk.img key"));
    let image = fs::File::options().write(true).open(place.path("disk.img"));
    let image = image.unwrap();
    image.set_len(1 << 20).unwrap();
    let output = place.run_with_input("scrim", ["repair", "disk.img"], b"");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("make it 16777216 bytes long") && !said.contains("header-restore"),
        "{said}"
    );
    image.set_len(16 << 20).unwrap();
    let said = place.run_with_input("scrim", ["repair", "disk.img"], b"");
    assert!(said.status.success(), "{said:?}");
}

/// `repair` claims no loss that it cannot know of: without a trace of LUKS, and with a damaged header.
#[test]
fn repair_does_not_say_that_data_is_lost() {
    if !have(&["cryptsetup"]) {
        return;
    }
    let place = Place::new();
    place.write("key", "open sesame");
    place.sparse("zeros", 1 << 20);
    place.sparse("disk.img", 20 << 20);
    place.cryptsetup(&format!("luksFormat --type luks2 {CHEAP} disk.img key"));
    let image = fs::File::options()
        .write(true)
        .open(place.path("disk.img"))
        .unwrap();
    for at in [5000, 21_000] {
        image.write_all_at(&[1], at).unwrap();
    }
    for (name, expected) in [("zeros", "check the name"), ("disk.img", "may be whole")] {
        let output = place.run_with_input("scrim", ["repair", name], b"");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(expected) && !said.contains("lost"), "{said}");
    }
}
