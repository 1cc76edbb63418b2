//! The input is a cipher specification.

#![no_main]

use libfuzzer_sys::fuzz_target;
use scrim_crypt::{CipherSpec, Geometry, IvSector, SectorCipher, SectorSize};

fuzz_target!(|text: &str| {
    let spec: CipherSpec = match text.parse() {
        Ok(spec) => spec,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    assert_eq!(spec.to_string(), text);
    if !spec.is_capi() {
        // A LUKS1 header's two strings mean the same, and stay as they are from then on.
        let (cipher, mode) = spec.to_luks();
        let luks = CipherSpec::from_luks(cipher, mode).expect("what a header says is understood");
        assert_eq!(luks.to_luks(), (cipher, mode));
        assert_same(&spec, &luks);
    }
    assert!(spec.is_null() || spec.key_sizes().contains(&spec.default_key_size()));
    turn(&spec);
});

/// Asserts that both make the same ciphertext.
fn assert_same(one: &CipherSpec, other: &CipherSpec) {
    assert_eq!(one.key_sizes(), other.key_sizes());
    assert_eq!(turn(one), turn(other));
}

/// Encrypts and decrypts a few sectors with the longest key; returns the ciphertext.
fn turn(spec: &CipherSpec) -> Option<Vec<u8>> {
    let longest = spec
        .key_sizes()
        .last()
        .copied()
        .expect("there is a key size");
    let key: Vec<u8> = (0..=u8::MAX).take(longest).collect();
    let plain: Vec<u8> = (0..=u8::MAX).cycle().take(3 * 512).collect();
    // This processor may lack a driver.
    let cipher = SectorCipher::new(spec, &key, Geometry::new(SectorSize::S512)).ok()?;
    let mut turned = plain.clone();
    cipher.encrypt_in_place(IvSector(7), &mut turned);
    let ciphertext = turned.clone();
    assert_eq!(ciphertext == plain, spec.is_null());
    cipher.decrypt_in_place(IvSector(7), &mut turned);
    assert_eq!(turned, plain);
    Some(ciphertext)
}
