//! AES-GCM (NIST SP 800-38D): counter mode by the `aes` crate, and GHASH by multiplications of integers, piece by piece.

use super::blocks::{BlockEncrypt, xor};
use super::ghash::HashKey;
use crate::kernels::gcm::{Gcm, GcmKernel, MESSAGE_MAX, NONCE, TAG};
use crate::kernels::gcm_blocks::{first_counter, lengths};
use crate::kernels::iv::Block;
use crate::kernels::run::{Data, pieces};
use crate::wipe;

/// Blocks of a piece, which the cipher takes in one call: 1 KiB, as many as the widest code of the `aes` crate takes at a
/// time. A piece is hashed from the first-level cache, and the self-test's message has more than one.
const BLOCKS: usize = 64;

pub(crate) const GCM: Gcm = Gcm {
    driver: "gcm-aes-portable",
    family: "portable",
    priority: 100,
    features: &[],
    runs_here: || true,
    set_up: |key| match key.len() {
        16 => Keys::<aes::Aes128Enc>::boxed(key),
        32 => Keys::<aes::Aes256Enc>::boxed(key),
        _ => None,
    },
};

/// An expanded key. Both parts wipe themselves at the end.
struct Keys<C> {
    cipher: C,
    hash: HashKey,
}

impl<C: BlockEncrypt> Keys<C> {
    fn boxed(key: &[u8]) -> Option<Box<dyn GcmKernel>> {
        let cipher = C::expand(key)?;
        let mut hash_key = [[0; 16]];
        cipher.encrypt_all(&mut hash_key);
        let [hash_key] = hash_key.map(u128::from_be_bytes);
        let hash = HashKey::new(hash_key);
        Some(Box::new(Self { cipher, hash }))
    }
}

impl<C: BlockEncrypt> GcmKernel for Keys<C> {
    fn seal(&self, nonce: &[u8; NONCE], additional: &[u8], message: Data<'_>) -> [u8; TAG] {
        let tag = transform::<C, true>(self, nonce, additional, message);
        wipe::stack();
        tag
    }

    fn open(&self, nonce: &[u8; NONCE], additional: &[u8], message: Data<'_>) -> [u8; TAG] {
        let tag = transform::<C, false>(self, nonce, additional, message);
        wipe::stack();
        tag
    }
}

/// Encrypts or decrypts a message. Runs in a stack frame of its own, which the caller wipes: it holds the key stream, and
/// parts of the key.
#[inline(never)]
fn transform<C: BlockEncrypt, const ENCRYPT: bool>(
    keys: &Keys<C>,
    nonce: &[u8; NONCE],
    additional: &[u8],
    message: Data<'_>,
) -> [u8; TAG] {
    let Keys { cipher, hash } = keys;
    let len = message.len();
    assert!(len as u64 <= MESSAGE_MAX, "a message of {len} bytes");
    let first = first_counter(nonce);
    let mut mask = [first.to_be_bytes()];
    cipher.encrypt_all(&mut mask);
    let mut state = hash.hash(0, additional);
    let mut stream = [[0; 16]; BLOCKS];
    // The counter's 32 bits do not overflow in a message of at most `MESSAGE_MAX` bytes.
    let mut counter = first;
    pieces(message, 16 * BLOCKS, |data| {
        let stream = &mut stream[..data.len().div_ceil(16)];
        for block in &mut *stream {
            counter += 1;
            *block = counter.to_be_bytes();
        }
        cipher.encrypt_all(stream);
        if !ENCRYPT {
            state = hash.hash(state, data);
        }
        combine(data, stream);
        if ENCRYPT {
            state = hash.hash(state, data);
        }
    });
    state = hash.hash_one(state, lengths(additional.len(), len));
    let [mask] = mask.map(u128::from_be_bytes);
    (state ^ mask).to_be_bytes()
}

/// Combines data with the key stream. Only the last block of a message may be in part.
fn combine(data: &mut [u8], stream: &[Block]) {
    let (blocks, rest) = data.as_chunks_mut();
    xor(blocks, stream);
    if let Some(last) = stream.get(blocks.len()) {
        for (byte, key_stream) in rest.iter_mut().zip(last) {
            *byte ^= key_stream;
        }
    }
}
