//! Volumes in a part of a file: at an offset, in a partition, and in an image of Apptainer. cryptsetup, sfdisk, mksquashfs
//! and QEMU judge; Apptainer is in no distribution's archive, so the test writes its format by its published layout.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::process::Output;

use crate::support::{Place, assert_same, have, noise, succeeded};
use crate::volume::{CHEAP, PASSPHRASE};

const MIB: usize = 1 << 20;
/// Bytes of a volume with its header.
const VOLUME: usize = 18 << 20;

fn scrim(place: &Place, words: &str) -> Output {
    place.run_with_input("scrim", words.split_whitespace(), b"")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Demands an exit code; returns what was said.
#[track_caller]
fn refused(place: &Place, words: &str, code: i32) -> String {
    let output = scrim(place, words);
    let said = said(&output);
    assert_eq!(output.status.code(), Some(code), "{words}: {said}");
    said
}

/// A volume of cryptsetup's with `payload` in it, in a file of its own.
fn volume(place: &Place, payload: &[u8]) -> Vec<u8> {
    place.write("key", PASSPHRASE);
    place.sparse("volume.img", VOLUME as u64);
    place.cryptsetup(&format!("luksFormat --type luks2 {CHEAP} volume.img key"));
    let uri = place.open("volume.img", "filling", &["-d", "key"]);
    place.copy_in(payload, &uri);
    place.close("filling");
    fs::read(place.path("volume.img")).unwrap()
}

fn put(place: &Place, name: &str, at: usize, bytes: &[u8]) {
    let file = File::options().write(true).open(place.path(name)).unwrap();
    file.write_all_at(bytes, at as u64).unwrap();
}

/// The bytes of a file, with a window of it taken out.
fn around(place: &Place, name: &str, at: usize) -> Vec<u8> {
    let mut bytes = fs::read(place.path(name)).unwrap();
    bytes.drain(at..at + VOLUME);
    bytes
}

#[test]
fn a_volume_at_an_offset_is_used_and_nothing_else() {
    if !have(&["cryptsetup", "nbdcopy", "qemu-io"]) {
        return;
    }
    let place = Place::new();
    let payload = noise(2 * MIB, 31);
    let volume = volume(&place, &payload);
    let (first, second) = (3 * MIB, 24 * MIB);
    place.write("disk.img", noise(50 * MIB, 32));
    put(&place, "disk.img", first, &volume);
    put(&place, "disk.img", second, &volume);
    let before = around(&place, "disk.img", first);
    let window = format!("--image-offset 3M --image-size {VOLUME}");

    // Each command on a header, of which cryptsetup judges one.
    for words in [
        "dump",
        "isLuks",
        "luksUUID",
        "test-passphrase -d key",
        "open --test-passphrase -d key",
    ] {
        succeeded(words, &scrim(&place, &format!("{words} {window} disk.img")));
        let name = format!("disk.img#{first}+{VOLUME}");
        succeeded(words, &scrim(&place, &format!("{words} {name}")));
    }
    place.write("new", "another");
    let words = format!("add-key {window} disk.img new -d key {CHEAP}");
    succeeded("add-key", &scrim(&place, &words));
    let bytes = fs::read(place.path("disk.img")).unwrap();
    place.write("cut.img", &bytes[first..first + VOLUME]);
    place.cryptsetup("open --test-passphrase --key-file new cut.img");
    let words = format!("config {window} disk.img --label part");
    succeeded("config", &scrim(&place, &words));

    // Two of them at once, each with its own plaintext.
    let more = ["-d", "key", "--image-offset", "3M", "--image-size", "18M"];
    let one = place.open("disk.img", "one", &more);
    let two = place.open(
        &format!("disk.img#{second}+{VOLUME}"),
        "two",
        &["-d", "key"],
    );
    let fresh = noise(2 * MIB, 33);
    place.copy_in(&fresh, &one);
    assert_same(&place.copy_out(&two), &payload, "the other volume");
    let status = place.scrim(["status", "one"]);
    let device = format!("/disk.img#{first}+{VOLUME}");
    assert!(status.contains(&device), "{status}");
    // A table names the part, and takes it again.
    let table = place.scrim(["table", "one", "--showkeys"]);
    assert!(table.contains(&device), "{table}");
    place.write("table", &table);
    place.scrim(["reload", "one", "table"]);
    place.scrim(["resume", "one"]);
    place.scrim(["resize", "one"]);
    place.scrim(["luksSuspend", "one"]);
    place.scrim(["luksResume", "one", "-d", "key"]);
    assert_same(&place.copy_out(&one), &fresh, "after luksResume");
    // Meanwhile, overlapping windows and the whole file are refused, to other programs too.
    let overlapping = format!("open disk.img#{}+{VOLUME} three -d key", first + MIB);
    for words in [overlapping.as_str(), "open disk.img three -d key"] {
        assert!(refused(&place, words, 5).contains("it is in use"));
    }
    let qemu = place.run_with_input(
        "qemu-io",
        ["-f", "raw", "-c", "write 0 512", "disk.img"],
        b"",
    );
    assert!(said(&qemu).contains("lock"), "{qemu:?}");
    place.close("one");
    place.close("two");
    let after = around(&place, "disk.img", first);
    assert_same(&after, &before, "what surrounds the volume");
}

#[test]
fn a_new_volume_is_made_and_exported_within_a_window() {
    if !have(&["cryptsetup", "nbdcopy"]) {
        return;
    }
    let place = Place::new();
    place.write("key", PASSPHRASE);
    place.write("disk.img", noise(24 * MIB, 34));
    let before = around(&place, "disk.img", 2 * MIB);
    let words = format!("format -q disk.img key --image-offset 2M --image-size {VOLUME} {CHEAP}");
    succeeded("format", &scrim(&place, &words));
    let name = format!("disk.img#{}+{VOLUME}", 2 * MIB);
    let uri = place.open(&name, "made", &["-d", "key"]);
    let bytes = noise(2 * MIB, 35);
    place.copy_in(&bytes, &uri);
    // It cannot grow beyond its window.
    place.scrim(["resize", "made"]);
    refused(&place, "resize made --size 40000", 1);
    place.close("made");
    assert_same(&around(&place, "disk.img", 2 * MIB), &before, "around it");
    let all = fs::read(place.path("disk.img")).unwrap();
    place.write("cut.img", &all[2 * MIB..2 * MIB + VOLUME]);
    place.cryptsetup("open --test-passphrase --key-file key cut.img");
    place.scrim(["export", &name, "one.raw", "-d", "key"]);
    place.scrim([
        "export",
        "disk.img",
        "two.raw",
        "-d",
        "key",
        "--image-offset",
        "2M",
        "--image-size",
        "18M",
    ]);
    for raw in ["one.raw", "two.raw"] {
        assert_same(&fs::read(place.path(raw)).unwrap(), &bytes, raw);
    }
}

/// Makes a disk with sfdisk, and puts a volume at a byte of it.
fn partitioned(place: &Place, script: &str, at: usize, volume: &[u8]) {
    let _ = fs::remove_file(place.path("disk.img"));
    place.sparse("disk.img", 64 << 20);
    let made = place.run_with_input("sfdisk", ["-q", "disk.img"], script.as_bytes());
    succeeded("sfdisk", &made);
    put(place, "disk.img", at, volume);
}

#[test]
fn a_partition_is_found_by_the_table_that_sfdisk_made() {
    if !have(&["cryptsetup", "nbdcopy", "sfdisk"]) {
        return;
    }
    let place = Place::new();
    let payload = noise(2 * MIB, 36);
    let volume = volume(&place, &payload);
    let gpt = "label: gpt\nstart=2048, size=4096\nstart=8192, size=36864\n";
    let mbr = "label: dos\nstart=2048, size=4096\nstart=8192, size=36864\n";
    let logical = "label: dos\nstart=2048, size=2048\nstart=4096, size=120000, type=5\nstart=6144, size=512\nstart=8704, size=36864\n";
    for (script, number, at) in [
        (gpt, 2, 4 * MIB),
        (mbr, 2, 4 * MIB),
        (logical, 6, 8704 * 512),
    ] {
        partitioned(&place, script, at, &volume);
        let before = around(&place, "disk.img", at);
        let name = format!("disk.img#{number}");
        // The whole disk tells of it.
        let told = refused(&place, "open disk.img secret -d key", 1);
        let command = format!("scrim open '/{name}' NAME");
        let folder = place.dir().display();
        let command = command.replace("'/", &format!("'{folder}/"));
        assert!(told.contains(&command), "{told}");
        let uri = place.open(&name, "secret", &["-d", "key"]);
        assert_same(&place.copy_out(&uri), &payload, &name);
        place.close("secret");
        let words = format!("config {name} --label found");
        succeeded(&words, &scrim(&place, &words));
        assert_same(&around(&place, "disk.img", at), &before, &name);
        assert!(refused(&place, "dump disk.img#9", 4).contains("has no partition 9"));
    }
    // A GPT with a damaged start is read from its copy; without that, it is refused.
    partitioned(&place, gpt, 4 * MIB, &volume);
    put(&place, "disk.img", 512 + 60, &[0xff]);
    let dumped = scrim(&place, "dump disk.img#2");
    succeeded("dump", &dumped);
    assert!(
        said(&dumped).contains("the copy at its end is used"),
        "{dumped:?}"
    );
    put(&place, "disk.img", (64 << 20) - 512, &[0; 8]);
    assert!(refused(&place, "dump disk.img#2", 4).contains("its GPT is damaged"));
    // An image that was cut short.
    partitioned(&place, mbr, 4 * MIB, &volume);
    let disk = File::options()
        .write(true)
        .open(place.path("disk.img"))
        .unwrap();
    disk.set_len(20 << 20).unwrap();
    assert!(refused(&place, "dump disk.img#2", 4).contains("as long as it was"));
    // A file of such a name is that file.
    fs::copy(place.path("volume.img"), place.path("disk.img#2")).unwrap();
    succeeded("dump", &scrim(&place, "dump disk.img#2"));
}

/// An object of a SIF: kind, object that it belongs to, content, and what only its kind has.
type Object<'a> = (u32, u32, &'a [u8], [u32; 2]);

/// Writes a SIF: the header, 48 descriptors and the objects, each at a page's start.
fn sif(objects: &[Object<'_>]) -> Vec<u8> {
    const DESCRIPTORS: usize = 4096;
    const DESCRIPTOR: usize = 585;
    let data = DESCRIPTORS + 48 * DESCRIPTOR;
    let mut image = vec![0; data];
    image[..31].copy_from_slice(b"#!/usr/bin/env run-singularity\n");
    image[32..48].copy_from_slice(b"SIF_MAGIC\x0001\x0002\x00");
    for (index, (kind, link, content, extra)) in objects.iter().enumerate() {
        let end = image.len();
        let start = end.next_multiple_of(4096);
        image.resize(start, 0);
        image.extend_from_slice(content);
        let id = u32::try_from(index + 1).unwrap();
        let mut descriptor = kind.to_le_bytes().to_vec();
        descriptor.push(1);
        for number in [id, 0xf000_0001, *link] {
            descriptor.extend(number.to_le_bytes());
        }
        let times = [1_700_000_000; 2];
        let places = [start, content.len(), start - end + content.len()];
        for number in places.into_iter().chain(times).chain([0; 2]) {
            descriptor.extend((number as u64).to_le_bytes());
        }
        descriptor.resize(201, 0);
        descriptor.extend(extra.iter().flat_map(|number| number.to_le_bytes()));
        descriptor.extend(b"02\0");
        let at = DESCRIPTORS + DESCRIPTOR * index;
        image[at..at + descriptor.len()].copy_from_slice(&descriptor);
    }
    let free = 48 - objects.len();
    let numbers = [
        1_700_000_000,
        1_700_000_000,
        free,
        48,
        DESCRIPTORS,
        48 * DESCRIPTOR,
        data,
        image.len() - data,
    ];
    for (index, number) in numbers.into_iter().enumerate() {
        let at = 64 + 8 * index;
        image[at..at + 8].copy_from_slice(&(number as u64).to_le_bytes());
    }
    image
}

/// A squashfs in a LUKS2 volume, as Apptainer makes it: cryptsetup's defaults, and 16 MiB more than the file system.
fn encrypted_squashfs(place: &Place, key: &str) -> (Vec<u8>, Vec<u8>) {
    fs::create_dir_all(place.path("root/etc")).unwrap();
    place.write("root/etc/os-release", "NAME=test\n");
    place.write("root/noise", noise(700_001, 37));
    place.run(
        "mksquashfs",
        ["root", "plain.squashfs", "-quiet", "-noappend"],
    );
    let plain = fs::read(place.path("plain.squashfs")).unwrap();
    place.sparse("crypt", (plain.len() + 16 * MIB) as u64);
    place.cryptsetup(&format!("luksFormat --type luks2 {CHEAP} crypt {key}"));
    let uri = place.open("crypt", "filling", &["-d", key]);
    place.copy_in(&plain, &uri);
    place.close("filling");
    (fs::read(place.path("crypt")).unwrap(), plain)
}

/// The passphrase in `key`, as Apptainer keeps it for an RSA key, which is in `rsa.pem` then.
fn sealed_key(place: &Place) -> Vec<u8> {
    let script = "openssl genrsa -traditional -out rsa.pem 2048 2>/dev/null
        openssl rsa -in rsa.pem -pubout -out public.pem 2>/dev/null
        openssl pkeyutl -encrypt -pubin -inkey public.pem -in key -out sealed \
            -pkeyopt rsa_padding_mode:oaep -pkeyopt rsa_oaep_md:sha256
        { echo '-----BEGIN MESSAGE-----'; { printf '\\x04\\x82\\x01\\x00'; cat sealed; } | base64 -w 64
          echo '-----END MESSAGE-----'; } > message";
    place.run("bash", ["-ec", script]);
    fs::read(place.path("message")).unwrap()
}

/// Makes `image.key` by the manual's commands, with the numbers that were told.
fn make_key_file(place: &Place, told: &str) {
    let place_of_key = told.split("object 3, ").nth(1).unwrap();
    let mut numbers = place_of_key
        .split(|c: char| !c.is_ascii_digit())
        .filter(|word| !word.is_empty());
    let (len, at) = (numbers.next().unwrap(), numbers.next().unwrap());
    let script = format!(
        "dd if=image.sif iflag=skip_bytes,count_bytes skip={at} count={len} status=none | sed '/^-/d' | base64 -d |
         tail -c +5 > sealed2
         openssl pkeyutl -decrypt -inkey rsa.pem -pkeyopt rsa_padding_mode:oaep -pkeyopt rsa_oaep_md:sha256 \
             -in sealed2 -out image.key"
    );
    place.run("bash", ["-ec", &script]);
    assert_same(
        &fs::read(place.path("image.key")).unwrap(),
        &noise(64, 38),
        "the passphrase",
    );
}

#[test]
fn an_encrypted_sif_is_opened_without_root() {
    if !have(&[
        "cryptsetup",
        "nbdcopy",
        "mksquashfs",
        "unsquashfs",
        "qemu-img",
        "openssl",
        "bash",
    ]) {
        return;
    }
    let place = Place::new();
    place.write("key", noise(64, 38));
    let (crypt, plain) = encrypted_squashfs(&place, "key");
    let message = sealed_key(&place);
    let image = sif(&[
        (0x4001, 0, b"Bootstrap: scratch\n", [0, 0]),
        (0x4004, 0, &crypt, [5, 2]),
        (0x4008, 2, &message, [2, 0x200]),
    ]);
    place.write("image.sif", &image);

    let dumped = scrim(&place, "dump image.sif");
    succeeded("dump", &dumped);
    let told = said(&dumped);
    assert!(
        told.contains(
            "a SIF image; its encrypted partition is object 2, that of the container's system"
        ),
        "{told}"
    );
    assert!(told.contains("passphrase is in object 3"), "{told}");
    make_key_file(&place, &told);

    // A file that others own may only be read, and that is enough.
    let mut permissions = fs::metadata(place.path("image.sif")).unwrap().permissions();
    permissions.set_readonly(true);
    fs::set_permissions(place.path("image.sif"), permissions).unwrap();
    let uri = place.open("image.sif", "container", &["-d", "image.key"]);
    assert!(place.scrim(["status", "container"]).contains("readonly"));
    place.write("padded", &plain);
    let compared = place.run(
        "qemu-img",
        ["compare", "-f", "raw", "-F", "raw", "padded", &uri],
    );
    assert!(compared.contains("identical"), "{compared}");
    place.write("read.squashfs", place.copy_out(&uri));
    place.run(
        "unsquashfs",
        ["-quiet", "-no-progress", "-d", "back", "read.squashfs"],
    );
    for name in ["etc/os-release", "noise"] {
        let original = fs::read(place.path(&format!("root/{name}"))).unwrap();
        assert_same(
            &fs::read(place.path(&format!("back/{name}"))).unwrap(),
            &original,
            name,
        );
    }
    place.close("container");
    place.scrim(["export", "image.sif", "out.squashfs", "-d", "key"]);
    assert_same(
        &fs::read(place.path("out.squashfs")).unwrap()[..plain.len()],
        &plain,
        "exported",
    );
    assert_same(
        &fs::read(place.path("image.sif")).unwrap(),
        &image,
        "the image",
    );
}

#[test]
fn a_sif_without_one_encrypted_partition_is_explained() {
    if !have(&["cryptsetup", "nbdcopy", "mksquashfs"]) {
        return;
    }
    let place = Place::new();
    place.write("key", PASSPHRASE);
    let (crypt, plain) = encrypted_squashfs(&place, "key");
    place.write("plain.sif", sif(&[(0x4004, 0, &plain, [1, 2])]));
    let told = refused(&place, "open plain.sif secret -d key", 1);
    assert!(told.contains("no encrypted partition"), "{told}");
    refused(&place, "isLuks plain.sif", 1);

    place.write(
        "two.sif",
        sif(&[(0x4004, 0, &crypt, [5, 3]), (0x4004, 0, &crypt, [5, 4])]),
    );
    let told = refused(&place, "open two.sif secret -d key", 1);
    let second = told.split("or --image-offset").nth(1).unwrap();
    let words: Vec<&str> = second.split_whitespace().take(3).collect();
    let words = ["open", "two.sif", "secret", "-d", "key", "--image-offset"]
        .into_iter()
        .chain(words);
    let uri = place.scrim(words);
    assert_same(
        &place.copy_out(uri.trim())[..plain.len()],
        &plain,
        "the second",
    );
    place.close("secret");

    let mut damaged = sif(&[(0x4004, 0, &crypt, [5, 2])]);
    damaged[4096 + 25 + 6] = 1;
    place.write("damaged.sif", &damaged);
    let told = refused(&place, "open damaged.sif secret -d key", 4);
    assert!(
        told.contains("the size of descriptor 0 is out of bounds"),
        "{told}"
    );
}
