//! Digests, by which a header recognises the right key.

use std::hint::black_box;

use scrim_sys::memory::SecretBytes;

use crate::kdf::{Hash, Kdf, KdfError, KdfGuard};
use crate::key::VolumeKey;

/// A digest of a key by PBKDF2 (LUKS1 specification, section 2.1; LUKS2 specification, section
/// 3.4), with the key slots that hold that key and the segments that it encrypts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digest {
    /// Its number in the header.
    pub id: u8,
    /// The hash, in the header's spelling.
    pub hash: String,
    pub iterations: u32,
    pub salt: Vec<u8>,
    /// Output of PBKDF2, by which a key is recognised.
    pub value: Vec<u8>,
    /// Key slots that hold the key.
    pub keyslots: Vec<u8>,
    /// Segments that the key encrypts.
    pub segments: Vec<u8>,
}

impl Digest {
    /// Returns whether `key` has this digest. The comparison takes the same time wherever they differ.
    ///
    /// # Errors
    /// The guard's error, above all: the iterations are the header's.
    pub(crate) fn matches(
        &self,
        key: &VolumeKey,
        hash: Hash,
        guard: &dyn KdfGuard,
    ) -> Result<bool, KdfError> {
        let iterations = self.iterations;
        let kdf = Kdf::Pbkdf2 { hash, iterations };
        guard.begin(None, &kdf)?;
        let mut value = SecretBytes::zeroed(self.value.len());
        kdf.derive_guarded(guard, key.expose(), &self.salt, value.expose_mut())?;
        Ok(equal(value.expose(), &self.value))
    }
}

/// The digest of `key`, `len` bytes of it.
pub(crate) fn compute(
    key: &VolumeKey,
    hash: Hash,
    iterations: u32,
    salt: &[u8],
    len: usize,
) -> Result<SecretBytes, KdfError> {
    let mut value = SecretBytes::zeroed(len);
    Kdf::Pbkdf2 { hash, iterations }.derive(key.expose(), salt, value.expose_mut())?;
    Ok(value)
}

fn equal(a: &[u8], b: &[u8]) -> bool {
    let difference = a
        .iter()
        .zip(b)
        .fold(0, |difference, (a, b)| black_box(difference | (a ^ b)));
    a.len() == b.len() && difference == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_means_every_byte_and_the_length() {
        assert!(equal(b"abc", b"abc"));
        assert!(!equal(b"abc", b"abd"));
        assert!(!equal(b"bbc", b"abc"));
        assert!(!equal(b"abc", b"ab"));
        assert!(!equal(b"", b"a"));
    }
}
