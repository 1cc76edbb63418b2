//! Volumes on block devices, as far as this machine has loop devices.

use std::path::Path;

use crate::support::{Place, assert_same, have, is_root, noise};
use crate::volume::{CHEAP, Image, LUKS1, PASSPHRASE, PAYLOAD, USUAL};

/// A loop device on a file of a place, detached at the end.
pub(crate) struct Loop<'a> {
    place: &'a Place,
    pub(crate) device: String,
}

impl<'a> Loop<'a> {
    /// `None` if this machine has no loop devices to give, as in most containers.
    pub(crate) fn on(place: &'a Place, file: &str) -> Option<Self> {
        if !is_root() || !Path::new("/dev/loop-control").exists() || !have(&["losetup"]) {
            println!("skipped: no loop devices");
            return None;
        }
        let output = place
            .command("losetup")
            .args(["-f", "--show", file])
            .output()
            .unwrap();
        if !output.status.success() {
            println!(
                "skipped: no loop devices: {}",
                String::from_utf8_lossy(&output.stderr)
            );
            return None;
        }
        let device = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        Some(Self { place, device })
    }
}

impl Drop for Loop<'_> {
    fn drop(&mut self) {
        let _ = self
            .place
            .command("losetup")
            .args(["-d", &self.device])
            .status();
    }
}

#[test]
fn a_block_device_is_formatted_opened_and_guarded() {
    if !have(&["cryptsetup", "nbdcopy"]) {
        return;
    }
    for case in [LUKS1[1], USUAL] {
        let image = Image::made_by_scrim(case);
        let place = &image.place;
        let payload = image.fill_with_noise(1);
        let Some(disk) = Loop::on(place, "disk.img") else {
            return;
        };
        let device = &disk.device;
        let uri = place.open(device, "secret", &["-d", "key"]);
        assert_same(&place.copy_out(&uri), &payload, "through the device");
        let bytes = noise(PAYLOAD, 2);
        place.copy_in(&bytes, &uri);
        let second = place.run_with_input("scrim", ["open", device, "second", "-d", "key"], b"");
        assert_eq!(second.status.code(), Some(5), "{second:?}");
        place.cryptsetup(&format!("luksDump {device}"));
        place.cryptsetup(&format!("luksAddKey {CHEAP} --key-file key {device} other"));
        place.close("secret");

        let uri = place.open(device, "secret", &["-d", "other", "--readonly"]);
        assert_same(&place.copy_out(&uri), &bytes, "through the device");
        place.close("secret");
        let format = format!("format -q {} -d other {device}", case.options());
        place.scrim(format.split(' '));
        place.cryptsetup(&format!("open --test-passphrase --key-file other {device}"));
    }
}

/// A device cannot grow, so the data gives up its end.
#[test]
fn a_block_device_is_encrypted_in_place() {
    if !have(&["cryptsetup", "nbdcopy"]) {
        return;
    }
    let place = Place::new();
    place.write("key", PASSPHRASE);
    let mut bytes = noise(PAYLOAD, 3);
    bytes.resize(PAYLOAD + (33 << 20), 0);
    place.write("disk.img", &bytes);
    let Some(disk) = Loop::on(&place, "disk.img") else {
        return;
    };
    let device = &disk.device;
    let line = format!("encrypt --in-place {device} -q -d key {CHEAP}");
    let refused = place.run_with_input("scrim", line.split(' '), b"");
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let line = format!("{line} --reduce-device-size 33M");
    place.scrim(line.split(' '));
    place.cryptsetup(&format!("open --test-passphrase --key-file key {device}"));
    let uri = place.open(device, "secret", &["-d", "key", "--readonly"]);
    let read = place.copy_out(&uri);
    assert_same(&read[..PAYLOAD], &bytes[..PAYLOAD], "through the device");
    place.close("secret");
}
