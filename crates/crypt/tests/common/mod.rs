//! Helpers that several test programs need.

#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::panic,
    reason = "each test program uses a part, and a test may fail"
)]

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub(crate) mod steps;

use scrim_crypt::stream::Aead;
use scrim_crypt::{CipherSpec, Geometry, SectorCipher, SectorSize, State, implementations};

/// The same key as in `vectors/make.py`.
pub(crate) fn key(size: u8) -> Vec<u8> {
    (0..size).map(|i| i.wrapping_mul(37) ^ 0x5a).collect()
}

/// The same plaintext as in `vectors/make.py`.
pub(crate) fn plaintext(size: usize) -> Vec<u8> {
    (0..size)
        .map(|i| (i * 7 + i / 251).to_le_bytes()[0])
        .collect()
}

/// Every driver for a specification `cipher-mode-iv` that may be used in this process.
pub(crate) fn drivers(spec: &str) -> Vec<&'static str> {
    let mut words = spec.split('-');
    let (cipher, mode) = (words.next().unwrap(), words.next().unwrap());
    let name = format!("{mode}({cipher})");
    let ready = implementations()
        .iter()
        .filter(|row| row.state() == State::Ready && row.name == name);
    ready.map(|row| row.driver).collect()
}

/// AES-GCM with each key size, by every driver that may be used in this process.
pub(crate) fn gcm_drivers() -> Vec<(Aead, &'static str)> {
    let drivers = drivers("aes-gcm").into_iter();
    let all = drivers.flat_map(|driver| [(Aead::Aes128Gcm, driver), (Aead::Aes256Gcm, driver)]);
    all.collect()
}

/// Returns whether the driver's instructions are those of a library.
pub(crate) fn is_portable(driver: &str) -> bool {
    driver.ends_with("-portable")
}

/// The lengths that a key may have.
pub(crate) fn key_sizes(spec: &str) -> impl Iterator<Item = u8> {
    let spec: CipherSpec = spec.parse().unwrap();
    let sizes = spec.key_sizes().iter();
    sizes.map(|size| u8::try_from(*size).unwrap())
}

pub(crate) fn cipher(driver: &str, spec: &str, key_size: u8, geometry: Geometry) -> SectorCipher {
    let spec: CipherSpec = spec.parse().unwrap();
    SectorCipher::new_with_driver(driver, &spec, &key(key_size), geometry)
        .unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn sector_size(bytes: usize) -> SectorSize {
    SectorSize::new(bytes.try_into().unwrap()).unwrap()
}
