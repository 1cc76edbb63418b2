//! Flipped bits and missing tails: the volume opens with the same payload or is refused with a
//! message and a documented exit code, and looking at it never changes it.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Output;

use scrim_seeded::Random;

use crate::support::{assert_same, have};
use crate::volume::{CHEAP, Case, Image, LUKS1, USUAL};

/// Where the payload of the images here starts, in bytes, and how long it is.
const START: usize = 2 << 20;
const LENGTH: usize = 256 << 10;

/// A small image made by `cryptsetup`, and what is in it.
struct Patient {
    image: Image,
    file: PathBuf,
    /// Content of the image before the damage.
    bytes: Vec<u8>,
    payload: Vec<u8>,
}

/// Result of `scrim open --readonly`.
enum Outcome {
    /// It opened and served these bytes, and printed this.
    Opened(Vec<u8>, String),
    /// It was refused, with this exit code and message.
    Refused(i32, String),
}

impl Patient {
    fn new(case: Case) -> Self {
        let image = Image::made_by_cryptsetup(case);
        let place = &image.place;
        place.sparse("disk.img", (START + LENGTH) as u64);
        let areas = match case.version {
            1 => "--type luks1",
            _ => "--type luks2 --luks2-metadata-size 16k --luks2-keyslots-size 256k",
        };
        let sectors = START / 512;
        place.cryptsetup(&format!(
            "luksFormat {areas} {CHEAP} --offset {sectors} --key-file key disk.img"
        ));
        let uri = image.open_with("key", "filling", &[]);
        let payload = crate::support::noise(LENGTH, 1);
        place.copy_in(&payload, &uri);
        place.close("filling");
        let file = place.path("disk.img");
        let bytes = fs::read(&file).unwrap();
        Self {
            image,
            file,
            bytes,
            payload,
        }
    }

    /// Opens it for reading after `damage`, then heals it. Whatever happens, the image has not
    /// been changed by it.
    fn after(&self, damage: impl FnOnce(&fs::File)) -> Outcome {
        let file = fs::File::options().write(true).open(&self.file).unwrap();
        damage(&file);
        let damaged = fs::read(&self.file).unwrap();
        let place = &self.image.place;
        let args = ["open", "disk.img", "patient", "--readonly", "-d", "key"];
        let output = place.run_with_input("scrim", args, b"");
        let outcome = self.judge(&output);
        assert_same(&fs::read(&self.file).unwrap(), &damaged, "the image");
        file.set_len(self.bytes.len() as u64).unwrap();
        file.write_all_at(&self.bytes, 0).unwrap();
        outcome
    }

    fn judge(&self, output: &Output) -> Outcome {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!said.contains("panicked"), "{said}");
        match output.status.code() {
            Some(0) => {
                let uri = String::from_utf8_lossy(&output.stdout).trim().to_owned();
                let served = self.image.place.copy_out(&uri);
                self.image.place.close("patient");
                Outcome::Opened(served, said)
            }
            Some(code @ 1..=5) => {
                let last = said.lines().last().unwrap_or_default();
                assert!(last.starts_with("scrim: "), "no message: {said:?}");
                Outcome::Refused(code, said)
            }
            other => panic!("exit code {other:?}: {said}"),
        }
    }

    fn after_flipping(&self, bit: usize) -> Outcome {
        let at = bit / 8;
        let flipped = self.bytes[at] ^ (1 << (bit % 8));
        self.after(|file| file.write_all_at(&[flipped], at as u64).unwrap())
    }
}

/// The other copy is used, and a warning says which one is damaged.
#[test]
fn a_flipped_bit_in_either_luks2_header_costs_a_warning() {
    if !have(&["cryptsetup", "nbdcopy"]) {
        return;
    }
    let patient = Patient::new(USUAL);
    let mut random = Random::new(2);
    for (copy, name) in [(0, "primary"), (16384, "secondary")] {
        // The binary header's fields, its padding, the JSON area.
        for (from, to, count) in [(0, 512, 10), (512, 4096, 3), (4096, 16384, 5)] {
            for _ in 0..count {
                let bit = 8 * (copy + from) + random.index(8 * (to - from));
                match patient.after_flipping(bit) {
                    Outcome::Opened(served, said) => {
                        assert_same(&served, &patient.payload, &format!("bit {bit}"));
                        let expected = format!("the {name} header is damaged");
                        assert!(said.contains(&expected), "bit {bit}: {said}");
                    }
                    Outcome::Refused(_, said) => panic!("bit {bit}: {said}"),
                }
            }
        }
    }
}

/// LUKS1 has no checksum and no second copy: what a flip leaves readable is served as it was, and
/// all else is refused. (Only the payload's offset can be wrong unnoticed: it is tested below.)
#[test]
fn a_flipped_bit_in_a_luks1_header_is_refused_or_harmless() {
    if !have(&["cryptsetup", "nbdcopy"]) {
        return;
    }
    let patient = Patient::new(LUKS1[1]);
    let mut random = Random::new(1);
    let payload_offset = 8 * 104..8 * 108;
    let (mut opened, mut refused) = (0, 0);
    while opened + refused < 40 {
        // The first key slot's description ends at byte 256.
        let bit = random.index(8 * 256);
        if payload_offset.contains(&bit) {
            continue;
        }
        match patient.after_flipping(bit) {
            Outcome::Opened(served, _) => {
                assert_same(&served, &patient.payload, &format!("bit {bit}"));
                opened += 1;
            }
            Outcome::Refused(..) => refused += 1,
        }
    }
    assert!(
        opened > 2 && refused > 10,
        "{opened} opened, {refused} refused"
    );
}

/// An offset that lies within the header or beyond the end is refused; another one cannot be told
/// from a right one, by `cryptsetup` neither.
#[test]
fn a_luks1_payload_is_never_looked_for_in_the_header() {
    if !have(&["cryptsetup", "nbdcopy"]) {
        return;
    }
    let patient = Patient::new(LUKS1[1]);
    let right = START / 512;
    for bit in 0..32 {
        let wrong = right ^ (1 << bit);
        // The fields are big-endian.
        let flip = 8 * (104 + 3 - bit / 8) + bit % 8;
        match patient.after_flipping(flip) {
            Outcome::Opened(served, _) => {
                let expected = patient.bytes.len() - wrong * 512;
                assert_eq!(served.len(), expected, "bit {bit}");
            }
            Outcome::Refused(code, said) => assert_eq!(code, 4, "bit {bit}: {said}"),
        }
    }
}

/// The anti-forensic splitter makes one flipped bit of key material spoil the whole key.
#[test]
fn a_flipped_bit_in_a_key_slot_spoils_it() {
    if !have(&["cryptsetup", "nbdcopy"]) {
        return;
    }
    for (case, area) in [(LUKS1[1], 4096), (USUAL, 32768)] {
        let patient = Patient::new(case);
        let mut random = Random::new(3);
        for _ in 0..6 {
            let bit = 8 * area + random.index(8 * 64 * 4000);
            match patient.after_flipping(bit) {
                Outcome::Refused(2, _) => {}
                Outcome::Refused(code, said) => panic!("bit {bit}: {code} {said}"),
                Outcome::Opened(..) => panic!("bit {bit}: opened"),
            }
        }
    }
}

#[test]
fn an_image_cut_anywhere_is_refused_or_serves_what_is_left() {
    if !have(&["cryptsetup", "nbdcopy"]) {
        return;
    }
    for case in [LUKS1[1], USUAL] {
        let patient = Patient::new(case);
        let mut random = Random::new(4);
        let mut lengths = vec![
            0,
            1,
            511,
            512,
            591,
            592,
            4095,
            4096,
            16384,
            START,
            START + 511,
        ];
        lengths.extend((0..8).map(|_| random.index(START)));
        lengths.extend((0..3).map(|_| START + random.index(LENGTH)));
        lengths.push(START + 4096);
        lengths.push(START + 512);
        for length in lengths {
            // Whole 512-byte units are left, and must be whole encryption sectors.
            let left = length.saturating_sub(START) / 512 * 512;
            let whole = left > 0 && left.is_multiple_of(case.sector);
            match patient.after(|file| file.set_len(length as u64).unwrap()) {
                Outcome::Refused(code, said) => {
                    assert!([1, 4].contains(&code), "{length}: {said}");
                    assert!(!whole, "{length}: {said}");
                }
                Outcome::Opened(served, _) => {
                    assert!(whole, "{length}");
                    assert_same(&served, &patient.payload[..left], "what is left");
                }
            }
        }
    }
}

/// Reading commands change nothing; opening for writing makes the copies the same again.
#[test]
fn a_damaged_copy_is_mended_when_the_volume_is_opened_for_writing() {
    if !have(&["cryptsetup", "nbdcopy"]) {
        return;
    }
    for (at, name) in [(5000, "primary"), (16384 + 5000, "secondary")] {
        let patient = Patient::new(USUAL);
        let place = &patient.image.place;
        let flipped = [patient.bytes[at] ^ 1];
        let file = fs::File::options().write(true).open(&patient.file).unwrap();
        file.write_all_at(&flipped, at as u64).unwrap();
        let damaged = fs::read(&patient.file).unwrap();
        for words in ["dump", "isLuks", "luksUUID", "test-passphrase -d key"] {
            place.scrim(words.split(' ').chain(["disk.img"]));
        }
        assert_same(&fs::read(&patient.file).unwrap(), &damaged, "looking");

        let open = ["open", "disk.img", "patient", "-d", "key"];
        let said = place.run_with_input("scrim", open, b"").stderr;
        let said = String::from_utf8_lossy(&said);
        assert!(
            said.contains(&format!("the {name} header is damaged")),
            "{said}"
        );
        place.close("patient");
        let mended = fs::read(&patient.file).unwrap();
        assert_same(
            &mended[4096..16384],
            &patient.bytes[4096..16384],
            "the first metadata",
        );
        assert_same(
            &mended[20480..32768],
            &patient.bytes[4096..16384],
            "the second metadata",
        );
        assert_same(&mended[32768..], &patient.bytes[32768..], "all else");
        let dump = place.run_with_input("scrim", ["dump", "disk.img"], b"");
        assert!(dump.stderr.is_empty(), "{dump:?}");
        place.cryptsetup("luksDump disk.img");
        assert_same(
            &fs::read(&patient.file).unwrap(),
            &mended,
            "nothing left to repair",
        );
    }
}
