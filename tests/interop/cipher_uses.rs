//! The ciphers that few machines have in user space, in each command that reads or writes a volume.

use std::process::Command;

use crate::server::{Server, Site};
use crate::support::{Place, assert_same, have, may, noise, scrim};
use crate::volume::CHEAP;

/// A cipher, and the bits of its key.
const CIPHERS: [(&str, u32); 10] = [
    ("serpent-xts-plain64", 512),
    ("serpent-cbc-essiv:sha256", 256),
    ("twofish-xts-plain64", 512),
    ("twofish-cbc-essiv:sha256", 256),
    ("camellia-xts-plain64", 512),
    ("camellia-cbc-essiv:sha256", 256),
    ("xchacha12,aes-adiantum-plain64", 256),
    ("xchacha20,aes-adiantum-plain64", 256),
    ("aes-lrw-benbi", 384),
    ("aes-ctr-plain64", 256),
];

#[test]
fn each_cipher_formats_mounts_serves_and_converts() {
    if !have(&["mke2fs", "curl", "cryptsetup", "nbdcopy"]) {
        return;
    }
    let site = Site::new();
    let place = &site.place;
    place.write("key", "open sesame");
    let file = noise(300_001, 5);
    std::fs::create_dir(place.path("tree")).unwrap();
    place.write("tree/file", &file);
    place.sparse("plain.img", 2 << 20);
    let options = "-q -F -t ext4 -b 1024 -O ^has_journal -d tree plain.img";
    place.run("mke2fs", options.split(' '));
    let plain = std::fs::read(place.path("plain.img")).unwrap();
    let may_mount = may(
        "to mount by FUSE",
        Command::new("test").args(["-w", "/dev/fuse"]),
    );
    for (cipher, key_bits) in CIPHERS {
        // Room for the header of either version.
        place.sparse("disk.img", 18 << 20);
        let words = format!(
            "format -q --type luks1 --cipher {cipher} --key-size {key_bits} --offset 32768 {CHEAP} -d key disk.img"
        );
        place.scrim(words.split(' '));
        let uri = place.open("disk.img", "volume", &["--key-file", "key"]);
        place.copy_in(&plain, &uri);
        place.close("volume");
        for version in [2, 1] {
            let what = format!("{cipher}, converted to LUKS{version}");
            let words = format!("convert -q --type luks{version} disk.img");
            place.scrim(words.split(' '));
            // Another program understands the header.
            let shown = place.cryptsetup("luksDump disk.img");
            assert_eq!(place.scrim(["dump", "disk.img"]), shown, "{what}");
            let listed = place.scrim(["ls", "--key-file", "key", "disk.img:/"]);
            assert!(
                listed.lines().any(|name| name == "file"),
                "{what}: {listed}"
            );
            if may_mount {
                read_mounted(place, &file, &what);
            }
            let mut command = place.service(scrim());
            let words = "serve disk.img#/ --key-file key --listen 127.0.0.1:0 --certificate tls/server-cert.pem --key \
                         tls/server-key.pem";
            let server = Server::start(&site, command.args(words.split_whitespace()));
            let url = server.url("file");
            let got = server.try_curl(&["--fail", &url]).stdout;
            server.stop();
            assert_same(&got, &file, &what);
        }
    }
}

/// Mounts the volume, and reads the file.
fn read_mounted(place: &Place, file: &[u8], what: &str) {
    let folder = place.path("mount");
    std::fs::create_dir_all(&folder).unwrap();
    let words = "mount --readonly --method scrim --key-file key disk.img mount";
    place.scrim(words.split(' '));
    let got = std::fs::read(folder.join("file"));
    place.scrim(["umount", "mount"]);
    assert_same(&got.unwrap(), file, what);
}
