//! The input is an image that may be a SIF.
//!
//! The program is no library, so its parser, a file that needs `scrim-backend` only, is taken in.

#![no_main]

#[path = "../../crates/cli/src/storage/sif.rs"]
mod sif;

use libfuzzer_sys::fuzz_target;
use scrim_backend::MemoryBackend;
use sif::{EncryptedPartition, SifError, encrypted_partition};

fn check(found: &EncryptedPartition, len: u64) {
    let EncryptedPartition { range, .. } = found;
    assert!(range.start >= 128 && range.start < range.end && range.end <= len);
    assert!(range.start.is_multiple_of(512));
    if let Some((id, key)) = &found.sealed_key {
        assert!(*id != 0 && key.start <= key.end && key.end <= len);
        assert!(key.end <= range.start || range.end <= key.start);
    }
}

fuzz_target!(|bytes: &[u8]| {
    let is_sif = bytes.len() >= 128 && bytes[32..].starts_with(b"SIF_MAGIC\0");
    let len = bytes.len() as u64;
    match encrypted_partition(&MemoryBackend::new(bytes.to_vec())) {
        Ok(None) => assert!(!is_sif),
        Ok(Some(found)) => check(&found, len),
        Err(error) => {
            assert!(is_sif);
            assert!(!error.to_string().contains(char::is_control));
            if let SifError::Several(all) = error {
                assert!(all.len() > 1);
                all.iter().for_each(|found| check(found, len));
            }
        }
    }
});
