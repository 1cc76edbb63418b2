//! The hashes of Argon2: BLAKE2b (RFC 7693) of any length, and H′ made of it.

use blake2::Blake2bVarCore;
use blake2::digest::block_api::{UpdateCore, VariableOutputCore};
use blake2::digest::block_buffer::LazyBuffer;
use zeroize::{Zeroize, Zeroizing};

use crate::kdf::error::KdfError;

/// Longest digest of BLAKE2b in bytes.
const LONGEST: usize = 64;

/// BLAKE2b of `pieces`, as if they were one, with a digest as long as `out`: 1 to 64 bytes.
pub(super) fn blake2b(pieces: &[&[u8]], out: &mut [u8]) -> Result<(), KdfError> {
    let mut core = Blake2bVarCore::new(out.len()).map_err(|_| KdfError::OutOfRange {
        parameter: "bytes of digest",
        value: out.len() as u64,
        least: 1,
        most: LONGEST as u64,
    })?;
    let mut buffer = LazyBuffer::default();
    for piece in pieces {
        buffer.digest_blocks(piece, |blocks| core.update_blocks(blocks));
    }
    let mut digest = Default::default();
    core.finalize_variable_core(&mut buffer, &mut digest);
    out.copy_from_slice(&digest[..out.len()]);
    digest.zeroize();
    Ok(())
}

/// H′ (RFC 9106, section 3.3) of `pieces`, as if they were one, as long as `out`: 1 to 2³² − 1
/// bytes.
pub(super) fn long_hash(pieces: &[&[u8]], out: &mut [u8]) -> Result<(), KdfError> {
    let length = length(out);
    let mut prefixed = Vec::with_capacity(1 + pieces.len());
    prefixed.push(&length[..]);
    prefixed.extend(pieces);
    if out.len() <= LONGEST {
        return blake2b(&prefixed, out);
    }
    // Each of V₁ to V_r is 64 bytes long and gives its first half; the last one gives all it has,
    // 33 to 64 bytes.
    let mut v = Zeroizing::new([0; LONGEST]);
    blake2b(&prefixed, &mut *v)?;
    let (mut half, mut rest) = out.split_at_mut(LONGEST / 2);
    half.copy_from_slice(&v[..LONGEST / 2]);
    while rest.len() > LONGEST {
        let previous = v.clone();
        blake2b(&[&*previous], &mut *v)?;
        (half, rest) = rest.split_at_mut(LONGEST / 2);
        half.copy_from_slice(&v[..LONGEST / 2]);
    }
    blake2b(&[&*v], rest)
}

/// A length as the hashes take it; the caller has checked that it fits.
pub(super) fn length(bytes: &[u8]) -> [u8; 4] {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes()
}
