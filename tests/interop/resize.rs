//! An open volume follows its device: a client that connects afterwards sees the new size.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use crate::support::{Background, Place, assert_same, have, noise, scrim};
use crate::volume::{Image, LUKS1, LUKS2, PAYLOAD, USUAL};

/// Bytes by which the device grows.
const MORE: usize = 16 << 20;

impl Place {
    /// The size that a new client is told, in bytes.
    fn told_size(&self, uri: &str) -> usize {
        let output = self.command("nbdinfo").args(["--size", uri]).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout)
            .trim()
            .parse()
            .unwrap()
    }
}

/// A client that stays connected.
struct Connected(Background);

impl Connected {
    fn to(place: &Place, uri: &str) -> Self {
        let mut command = place.command("qemu-io");
        command.args(["-f", "raw", uri]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut client = Self(Background::start(&mut command));
        assert!(client.says("length", "MiB"), "it is there");
        client
    }

    /// Returns whether the next answer that names bytes or a failure has this in it.
    fn says(&mut self, command: &str, wanted: &str) -> bool {
        let process = &mut self.0.0;
        let stdin = process.stdin.as_mut().unwrap();
        writeln!(stdin, "{command}").unwrap();
        stdin.flush().unwrap();
        // Byte by byte, so that nothing of a later answer is taken.
        let mut stdout = BufReader::with_capacity(1, process.stdout.as_mut().unwrap());
        let mut line = String::new();
        loop {
            line.clear();
            assert!(stdout.read_line(&mut line).unwrap() > 0, "it has gone");
            if line.contains("MiB") || line.contains("failed") || line.contains("bytes at offset") {
                return line.contains(wanted);
            }
        }
    }
}

#[test]
fn a_volume_grows_and_shrinks_with_its_device() {
    if !have(&["cryptsetup", "nbdcopy", "nbdinfo", "qemu-io"]) {
        return;
    }
    for case in [LUKS1[1], LUKS2[1], USUAL] {
        let image = Image::made_by_cryptsetup(case);
        let place = &image.place;
        let uri = image.open_with("key", "secret", &[]);
        assert_eq!(place.told_size(&uri), PAYLOAD);
        let mut early = Connected::to(place, &uri);
        let disk = std::fs::File::options()
            .write(true)
            .open(place.path("disk.img"))
            .unwrap();
        let end = case.default_offset() + PAYLOAD;
        disk.set_len((end + MORE) as u64).unwrap();
        assert_eq!(place.told_size(&uri), PAYLOAD, "until it is told");

        place.scrim(["resize", "secret"]);
        assert_eq!(place.told_size(&uri), PAYLOAD + MORE);
        assert!(early.says("length", "2 MiB"), "one that was connected");
        let bytes = noise(PAYLOAD + MORE, 3);
        place.copy_in(&bytes, &uri);
        assert_same(&place.copy_out(&uri), &bytes, "the longer volume");
        let sectors = format!("0 {} crypt", (PAYLOAD + MORE) / 512);
        let table = place.scrim(["table", "secret"]);
        assert!(table.starts_with(&sectors), "{table}");

        disk.set_len((end - (1 << 20)) as u64).unwrap();
        place.scrim(["resize", "secret"]);
        assert_eq!(place.told_size(&uri), PAYLOAD - (1 << 20));
        assert!(early.says("read 1M 4k", "failed"), "behind the end");
        assert!(
            early.says("write 1044480 4k", "bytes at offset"),
            "before it"
        );
        drop(early);
        place.close("secret");
        assert_eq!(image.read().len(), PAYLOAD - (1 << 20));
    }
}

/// Other programs read from the new part the data that Scrim has written there.
#[test]
fn the_new_part_is_encrypted_as_all_others_expect() {
    if !have(&["cryptsetup", "nbdcopy"]) {
        return;
    }
    let image = Image::made_by_cryptsetup(USUAL);
    let place = &image.place;
    let whole = USUAL.default_offset() + PAYLOAD;
    let disk = || {
        std::fs::File::options()
            .write(true)
            .open(place.path("disk.img"))
            .unwrap()
    };
    disk().set_len((whole - PAYLOAD / 2) as u64).unwrap();
    let uri = image.open_with("key", "secret", &[]);
    disk().set_len(whole as u64).unwrap();
    place.scrim(["resize", "secret"]);
    let bytes = noise(PAYLOAD, 4);
    place.copy_in(&bytes, &uri);
    place.close("secret");
    assert_same(&image.decrypt_independently(), &bytes, "by another program");
}

#[test]
fn a_size_that_cannot_be_is_refused() {
    let image = Image::made_by_scrim(USUAL);
    let place = &image.place;
    image.open_with("key", "secret", &[]);
    let sectors = PAYLOAD / 512;
    let too_many = (sectors + 8).to_string();
    for wrong in ["0", "7", &too_many, "18446744073709551615"] {
        let args = ["resize", "secret", "--size", wrong];
        let refused = place.run_with_input(scrim(), args, b"");
        assert_eq!(refused.status.code(), Some(1), "{wrong}: {refused:?}");
    }
    let odd = ["resize", "secret", "--device-size", "1000"];
    let refused = place.run_with_input(scrim(), odd, b"");
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    place.scrim(["resize", "secret", "--size", "8"]);
    place.scrim(["resize", "secret"]);
    let status = place.scrim(["status", "secret", "--json"]);
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status["size_sectors"], sectors);
    place.close("secret");
}
