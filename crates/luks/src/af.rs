//! The anti-forensic splitter (LUKS1 specification, section 2.4): a key blown up to thousands of
//! stripes, so that destroying any one of them destroys the key.

use scrim_sys::memory::SecretBytes;
use zeroize::Zeroize;

use crate::kdf::Hash;
use crate::random::{self, RandomError};

/// Stripes in every key slot that LUKS1 and LUKS2 know.
pub(crate) const STRIPES: u32 = 4000;
const STRIPE_COUNT: usize = STRIPES as usize;

/// Bytes of key material for a key of `key_len` bytes, up to a whole 512-byte sector.
pub(crate) fn material_len(key_len: usize) -> usize {
    (key_len * STRIPE_COUNT).next_multiple_of(512)
}

/// Splits `key` into [`STRIPES`] stripes, zero-padded to [`material_len`].
pub(crate) fn split(key: &[u8], hash: Hash) -> Result<SecretBytes, RandomError> {
    let mut material = SecretBytes::zeroed(material_len(key.len()));
    let stripes = material.expose_mut();
    let last = key.len() * (STRIPE_COUNT - 1);
    random::fill(&mut stripes[..last])?;
    let mut state = fold(&stripes[..last], key.len(), hash);
    xor(state.expose_mut(), key);
    stripes[last..last + key.len()].copy_from_slice(state.expose());
    Ok(material)
}

/// Joins the stripes of `material` to a key of `key_len` bytes; `None` when there is too little.
pub(crate) fn merge(material: &[u8], key_len: usize, hash: Hash) -> Option<SecretBytes> {
    let last = key_len.checked_mul(STRIPE_COUNT - 1)?;
    let last_stripe = material.get(last..last.checked_add(key_len)?)?;
    let mut key = fold(material.get(..last)?, key_len, hash);
    xor(key.expose_mut(), last_stripe);
    Some(key)
}

/// Every stripe but the last, folded into one: exclusive or, then diffuse, in turn.
fn fold(stripes: &[u8], key_len: usize, hash: Hash) -> SecretBytes {
    let mut state = SecretBytes::zeroed(key_len);
    if key_len > 0 {
        for stripe in stripes.chunks_exact(key_len) {
            xor(state.expose_mut(), stripe);
            diffuse(state.expose_mut(), hash);
        }
    }
    state
}

/// Replaces each digest-sized piece of `block` by the hash of its number (big-endian, 32 bits) and
/// itself; the last piece, if it is shorter, by as much of its hash.
fn diffuse(block: &mut [u8], hash: Hash) {
    let mut digest = [0; MAX_DIGEST];
    let digest_len = hash.digest_len();
    for (number, piece) in (0u32..).zip(block.chunks_mut(digest_len)) {
        hash.digest(&[&number.to_be_bytes(), piece], &mut digest[..digest_len]);
        piece.copy_from_slice(&digest[..piece.len()]);
    }
    digest.zeroize();
}

/// No hash here is longer than 512 bits.
const MAX_DIGEST: usize = 64;

fn xor(into: &mut [u8], from: &[u8]) {
    for (into, from) in into.iter_mut().zip(from) {
        *into ^= from;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_split_merges_again_and_only_whole() {
        let hashes = ["sha1", "sha256", "sha512", "ripemd160", "whirlpool"];
        for hash in hashes.map(|name| name.parse::<Hash>().unwrap()) {
            for len in [16, 20, 32, 48, 64, 100] {
                let key: Vec<u8> = (0..len).collect();
                let mut material = split(&key, hash).unwrap();
                assert_eq!(material.len() % 512, 0);
                let merged = merge(material.expose(), key.len(), hash).unwrap();
                assert_eq!(merged.expose(), key);
                material.expose_mut()[key.len() * 2000] ^= 1;
                let merged = merge(material.expose(), key.len(), hash).unwrap();
                assert_ne!(merged.expose(), key);
            }
        }
    }

    #[test]
    fn too_little_material_is_no_key() {
        let hash = "sha256".parse().unwrap();
        assert!(merge(&[0; 64 * STRIPE_COUNT], 64, hash).is_some());
        assert!(merge(&[0; 64 * STRIPE_COUNT - 1], 64, hash).is_none());
        assert!(merge(&[], 64, hash).is_none());
        assert!(merge(&[], usize::MAX, hash).is_none());
    }
}
