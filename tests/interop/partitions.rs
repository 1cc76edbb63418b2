//! A disk image with partitions: the volumes in it are found, and the commands that are printed open them.

use std::fs;
use std::os::unix::fs::FileExt;

use crate::support::{Background, Place, assert_same, have, noise, wait_until};
use crate::volume::CHEAP;

const MIB: usize = 1 << 20;

/// A disk with an MBR: its second partition, and the first logical one, are the volume.
fn disk(place: &Place, volume: &[u8]) {
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
    place.sparse("my disk.img", 64 << 20);
    let image = fs::File::options()
        .write(true)
        .open(place.path("my disk.img"))
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

/// The lines of the commands for one partition, as they were printed.
fn commands(said: &str, number: u32) -> (String, String) {
    let head = format!("partition {number}, ");
    let mut lines = said
        .lines()
        .skip_while(|line| !line.contains(&head))
        .skip(1);
    let mut next = || lines.next().unwrap().trim().to_owned();
    (next(), next())
}

#[test]
fn what_is_printed_opens_the_partition() {
    if !have(&["cryptsetup", "nbdkit", "nbdcopy", "bash"]) {
        return;
    }
    let place = Place::new();
    place.write("key", "open sesame");
    place.sparse("volume.img", 20 << 20);
    place.cryptsetup(&format!("luksFormat --type luks2 {CHEAP} volume.img key"));
    let uri = place.open("volume.img", "filling", &["-d", "key"]);
    let payload = noise(4 << 20, 3);
    place.copy_in(&payload, &uri);
    place.close("filling");
    disk(&place, &fs::read(place.path("volume.img")).unwrap());
    let before = fs::read(place.path("my disk.img")).unwrap();
    for words in ["repair", "dump", "open --test-passphrase -d key"] {
        let words = words.split(' ').chain(["my disk.img"]);
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
            let (serve, open) = commands(&said, number);
            let mut shell = place.command("bash");
            shell.args(["-c", &format!("exec {serve} --foreground")]);
            let _server = Background::start(&mut shell);
            let socket = place.path(&format!("partition{number}.sock"));
            wait_until("nbdkit listens", || socket.exists());
            let open = open.replace("NAME", "secret --key-file key --readonly");
            let uri = place.run("bash", ["-c", &open]);
            assert_same(&place.copy_out(uri.trim()), &payload, "the payload");
            place.close("secret");
            fs::remove_file(&socket).unwrap();
        }
    }
    assert_same(
        &fs::read(place.path("my disk.img")).unwrap(),
        &before,
        "the disk",
    );
}

/// What is not known is not said: without a trace of LUKS, and with a header that is damaged.
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
