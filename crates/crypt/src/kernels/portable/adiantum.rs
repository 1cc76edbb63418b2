//! Adiantum by RustCrypto's XChaCha and Poly1305, and NH in words.
//!
//! | | |
//! |---|---|
//! | for | processors without AES instructions: AES encrypts one block of a data unit |
//! | width | a data unit is one wide block: each bit of its ciphertext depends on every bit of its plaintext |
//! | constant time | yes: additions, multiplications, and AES as in the other modes |

use std::marker::PhantomData;

use chacha20::cipher::{Array, consts};
use poly1305::Poly1305;
use poly1305::universal_hash::{KeyInit, UniversalHash};

use crate::kernels::adiantum::{HashKeys, NH_MESSAGE, NhKey, Primitives, Stream};
use crate::kernels::iv::Block;
use crate::wipe;

/// Hash and key stream in portable code, with `S` as the stream cipher.
pub(super) struct Portable<S> {
    stream: Array<u8, consts::U32>,
    header: Poly1305,
    message: Poly1305,
    nh: NhKey,
    cipher: PhantomData<fn() -> S>,
}

impl<S: Stream> Primitives for Portable<S> {
    type Stream = S;

    /// As many blocks as AES of the `aes` crate takes in one call without AES instructions.
    const UNITS: usize = 4;

    fn new(stream: &[u8; 32], hash: &HashKeys<'_>) -> Option<Self> {
        Some(Self {
            stream: (*stream).into(),
            header: polynomial(*hash.header),
            message: polynomial(*hash.message),
            nh: *hash.nh,
            cipher: PhantomData,
        })
    }

    fn hash_header(&self, header: &[Block; 3]) -> u128 {
        let mut hash = self.header.clone();
        hash.update(&header.map(Into::into));
        number(hash)
    }

    fn hash_bulk(&self, bulk: &[u8]) -> u128 {
        let mut hash = self.message.clone();
        for part in bulk.chunks(NH_MESSAGE) {
            let [one, other] = nh(&self.nh, part.as_chunks().0);
            hash.update(&[one.into(), other.into()]);
        }
        number(hash)
    }

    fn xor_streams(&self, nonces: &[Block], unit: usize, data: &mut [u8]) {
        for (nonce, unit) in nonces.iter().zip(data.chunks_mut(unit)) {
            let nonce = nonce.iter().copied().chain([1]).chain([0; 7]);
            let (bulk, _) = unit.split_at_mut(unit.len() - 16);
            S::new(&self.stream, &Array::from_iter(nonce)).apply_keystream(bulk);
        }
    }

    fn wipe_stack() {
        wipe::stack();
    }
}

/// Poly1305 as a polynomial at `point` alone: with zero as what it adds at the end.
fn polynomial(point: Block) -> Poly1305 {
    let mut key = [0; 32];
    key[..16].copy_from_slice(&point);
    Poly1305::new(&key.into())
}

fn number(hash: Poly1305) -> u128 {
    u128::from_le_bytes(hash.finalize().into())
}

/// NH with four passes, whose keys are four words apart, and which pair words that are two apart (section 6.3 of the
/// paper). `message` is of at most [`NH_MESSAGE`] bytes.
fn nh(key: &NhKey, message: &[Block]) -> [Block; 2] {
    let mut sums = [0_u64; 4];
    for (block, key) in message.iter().zip(key.windows(16).step_by(4)) {
        let (words, _) = block.as_chunks();
        let words: [u32; 4] = std::array::from_fn(|at| u32::from_le_bytes(words[at]));
        let (keys, _) = key.as_chunks::<4>();
        for (sum, key) in sums.iter_mut().zip(keys) {
            let word = |at: usize| u64::from(words[at].wrapping_add(key[at]));
            let products = (word(0) * word(2)).wrapping_add(word(1) * word(3));
            *sum = sum.wrapping_add(products);
        }
    }
    let pair = |one: u64, other: u64| (u128::from(other) << 64 | u128::from(one)).to_le_bytes();
    [pair(sums[0], sums[1]), pair(sums[2], sums[3])]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::adiantum::tests::check_vectors;

    /// Miri computes them for half an hour.
    #[test]
    #[cfg_attr(miri, ignore)]
    fn vectors_of_the_authors() {
        check_vectors::<Portable<chacha20::XChaCha12>>();
        check_vectors::<Portable<chacha20::XChaCha20>>();
    }
}
