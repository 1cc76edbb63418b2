//! Every cipher that `cryptsetup` has without the kernel, both ways; those that only the kernel has,
//! by table; and what is said of those that should not be chosen.

use crate::support::{PYTHON, Place, assert_same, have, noise};
use crate::volume::{CHEAP, Case, Image, PAYLOAD, USUAL};

const TOOLS: [&str; 3] = ["cryptsetup", "nbdcopy", PYTHON];

/// A cipher and the bits of its key: every mode with every IV and every size of key.
const CIPHERS: [(&str, u32); 24] = [
    ("aes-xts-plain", 256),
    ("aes-xts-plain64be", 512),
    ("aes-xts-null", 256),
    ("aes-xts-benbi", 512),
    ("aes-xts-essiv:sha256", 512),
    ("aes", 256),
    ("aes-cbc-null", 256),
    ("aes-cbc-plain", 128),
    ("aes-cbc-plain64", 192),
    ("aes-cbc-plain64be", 256),
    ("aes-cbc-benbi", 128),
    ("aes-cbc-eboiv", 256),
    ("aes-cbc-essiv:sha256", 128),
    ("aes-cbc-essiv:sha256", 192),
    ("aes-cbc-essiv:sha256", 256),
    ("aes-cbc-essiv:sha3-256", 256),
    ("aes-cbc-essiv:sm3", 128),
    ("aes-cbc-essiv:blake2s-256", 256),
    ("aes-ctr-null", 256),
    ("aes-ctr-plain64", 128),
    ("aes-ctr-plain64be", 192),
    ("aes-ctr-essiv:sha256", 256),
    ("aes-ecb", 128),
    ("aes-ecb", 256),
];

/// A volume for each cipher, with small and with large sectors in turn.
fn cases(version: u8) -> impl Iterator<Item = Case> {
    CIPHERS
        .into_iter()
        .zip(0..)
        .map(move |((cipher, key_bits), number)| Case {
            version,
            cipher,
            key_bits,
            sector: if version == 2 && number % 2 == 0 {
                4096
            } else {
                512
            },
            detached: false,
            pbkdf: "pbkdf2",
        })
}

fn made_by_cryptsetup(version: u8) {
    for (case, seed) in cases(version).zip(1..) {
        let image = Image::in_memory_by_cryptsetup(case);
        let what = format!("{case:?}");
        let written = image.fill_with_noise(seed);
        assert_same(&image.decrypt_independently(), &written, &what);
        let encrypted = noise(PAYLOAD, seed + 100);
        image.encrypt_independently(&encrypted);
        assert_same(&image.read(), &encrypted, &what);
        assert!(!image.scrim_accepts("other"), "{what}");
    }
}

fn made_by_scrim(version: u8) {
    for (case, seed) in cases(version).zip(1..) {
        let image = Image::in_memory_by_scrim(case);
        let what = format!("{case:?}");
        assert!(image.cryptsetup_accepts("key"), "{what}");
        assert!(!image.cryptsetup_accepts("other"), "{what}");
        let place = &image.place;
        let shown = place.cryptsetup("luksDump disk.img");
        assert_eq!(place.scrim(["dump", "disk.img"]), shown, "{what}");
        let payload = image.fill_with_noise(seed);
        assert_same(&image.decrypt_independently(), &payload, &what);
        place.cryptsetup(&format!("luksAddKey {CHEAP} --key-file key disk.img other"));
        assert_same(&image.read_with("other"), &payload, &what);
    }
}

#[test]
fn luks1_of_cryptsetup_in_every_cipher() {
    if have(&TOOLS) {
        made_by_cryptsetup(1);
    }
}

#[test]
fn luks2_of_cryptsetup_in_every_cipher() {
    if have(&TOOLS) {
        made_by_cryptsetup(2);
    }
}

#[test]
fn luks1_of_scrim_in_every_cipher() {
    if have(&TOOLS) {
        made_by_scrim(1);
    }
}

#[test]
fn luks2_of_scrim_in_every_cipher() {
    if have(&TOOLS) {
        made_by_scrim(2);
    }
}

/// Where the data's cipher may not protect a key slot, that has `cryptsetup`'s default, and
/// `cryptsetup` opens it without the kernel.
#[test]
fn key_slots_can_have_a_cipher_of_their_own() {
    if !have(&TOOLS) {
        return;
    }
    for (cipher, key_bits) in [
        ("cipher_null-ecb", 256),
        ("capi:xts(aes)-plain64", 512),
        ("capi:essiv(cbc(aes),sha256)-plain64", 256),
        ("aes-xts-eboiv", 512),
        ("aes-ctr-benbi", 256),
    ] {
        let case = Case {
            cipher,
            key_bits,
            pbkdf: "pbkdf2",
            ..USUAL
        };
        let image = Image::in_memory_by_scrim(case);
        let shown = image.dump();
        assert!(
            shown.contains(&format!("cipher: {cipher} sector: 4096")),
            "{shown}"
        );
        assert!(
            shown.contains("Cipher: aes-xts-plain64 Cipher key: 512 bits"),
            "{shown}"
        );
        assert!(image.cryptsetup_accepts("key"), "{cipher}");
        let payload = image.fill_with_noise(5);
        assert_same(&image.read(), &payload, cipher);
        let stored = std::fs::read(image.place.path("disk.img")).unwrap();
        let stored = &stored[stored.len() - PAYLOAD..];
        assert_eq!(
            stored == payload,
            cipher.starts_with("cipher_null"),
            "{cipher}"
        );
    }
}

/// The null cipher's key slots would open to anybody, and its data needs no key.
#[test]
fn the_null_cipher_has_no_key() {
    if !have(&TOOLS) {
        return;
    }
    let image = Image::in_memory_by_scrim(Case {
        cipher: "null",
        key_bits: 128,
        ..USUAL
    });
    let place = &image.place;
    assert!(image.dump().contains("cipher: cipher_null-ecb"));
    image.open_with("key", "open", &[]);
    let table = place.scrim(["table", "--showkeys", "open"]);
    assert!(table.contains("crypt cipher_null-ecb - 0"), "{table}");
    assert!(place.scrim(["status", "open"]).contains("ecb-cipher_null"));
    place.close("open");
    let words = format!("format -q --type luks1 --cipher cipher_null {CHEAP} -d key disk.img");
    let refused = place.run_with_input("scrim", words.split(' '), b"");
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
}

/// The key sizes and words that `cryptsetup` leaves to the kernel, in tables.
#[test]
fn tables_in_the_kernels_own_words() {
    if !have(&TOOLS) {
        return;
    }
    let place = Place::new();
    place.sparse("disk.img", PAYLOAD as u64);
    let key = noise(64, 9);
    for (words, cipher, bytes) in [
        ("aes-cbc-plain", "aes-cbc-plain", 24),
        ("aes-plain", "aes-cbc-plain", 16),
        ("aes-ecb-plain64", "aes-ecb", 32),
        ("capi:xts(aes)-plain64be", "aes-xts-plain64be", 64),
        ("capi:cbc(aes)-essiv:sha256", "aes-cbc-essiv:sha256", 32),
        (
            "capi:essiv(ctr(aes),sha256)-plain64",
            "aes-ctr-essiv:sha256",
            16,
        ),
        ("capi:cbc-aes-portable-eboiv", "aes-cbc-eboiv", 16),
        ("capi:ecb(cipher_null)", "cipher_null-ecb", 0),
    ] {
        let key = place.write("volume-key", &key[..bytes]);
        let hex: String = std::fs::read(key)
            .unwrap()
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect();
        let hex = if hex.is_empty() { "-" } else { &hex };
        let device = place.path("disk.img");
        let table = format!(
            "0 {} crypt {words} {hex} 0 {} 0\n",
            PAYLOAD / 512,
            device.display()
        );
        place.write("table", &table);
        let uri = place.scrim(["open", "--table", "table", "mapping"]);
        assert_eq!(place.scrim(["table", "--showkeys", "mapping"]), table);
        let written = noise(PAYLOAD, 11);
        place.copy_in(&written, uri.trim());
        place.close("mapping");
        let args = format!("decrypt disk.img 0 0 {PAYLOAD} 512 {cipher} volume-key");
        let decrypted = place.script("sectors.py", args.split(' '), b"");
        assert_same(&decrypted, &written, words);
    }
}
