//! Adiantum (Crowley, Biggers: "Adiantum: length-preserving encryption for entry-level processors", 2018), with
//! XChaCha, AES-256, and a tweak of 32 bytes, as in the kernel.
//!
//! | | |
//! |---|---|
//! | for | processors without AES instructions: AES encrypts one block of a data unit |
//! | width | a data unit is one wide block: each bit of its ciphertext depends on every bit of its plaintext |
//! | constant time | yes: additions, multiplications, and AES as in the other modes |
//!
//! A data unit is its bulk and 16 bytes after it. To encrypt, the hash of tweak and bulk is added to these 16 bytes,
//! AES encrypts the sum, the result is the nonce of a key stream for the bulk, and the hash of tweak and new bulk is
//! subtracted from it.

use std::marker::PhantomData;

use aes::Aes256;
use chacha20::cipher::{Array, IvSizeUser, KeyIvInit, KeySizeUser, StreamCipher, consts};
use poly1305::Poly1305;
use poly1305::universal_hash::{KeyInit, UniversalHash};
use scrim_sys::memory::Locked;

use super::blocks::{BlockCipher, BlockEncrypt, piecewise};
use crate::kernels::iv::{Block, Ivs, SectorKernel, WideIv};
use crate::kernels::run::Run;
use crate::wipe;

/// Sets up a key, with `S` as the stream cipher.
pub(super) fn set_up<S: Stream>(key: &[u8]) -> Option<Box<dyn SectorKernel>> {
    let keys = Keys::<S>::new(key.try_into().ok()?)?;
    Some(Box::new(Adiantum(Locked::new(|| keys))))
}

/// XChaCha, with some number of rounds.
pub(super) trait Stream:
    KeySizeUser<KeySize = consts::U32>
    + IvSizeUser<IvSize = consts::U24>
    + KeyIvInit
    + StreamCipher
    + 'static
{
}

impl Stream for chacha20::XChaCha12 {}
impl Stream for chacha20::XChaCha20 {}

struct Adiantum<S>(Locked<Keys<S>>);

impl<S: Stream> SectorKernel for Adiantum<S> {
    fn encrypt(&self, ivs: Ivs<'_>, run: Run<'_>) {
        transform(ivs, run, |tweak, unit| self.0.encrypt(tweak, unit));
        wipe::stack();
    }

    fn decrypt(&self, ivs: Ivs<'_>, run: Run<'_>) {
        transform(ivs, run, |tweak, unit| self.0.decrypt(tweak, unit));
        wipe::stack();
    }
}

/// Runs in a stack frame of its own, which the caller wipes.
#[inline(never)]
fn transform(mut ivs: Ivs<'_>, run: Run<'_>, unit: impl Fn(&WideIv, &mut [u8])) {
    piecewise(run, 1, |data| unit(&ivs.next_wide(), data));
}

/// Keys of the parts, which follow from the one key (section 2 of the paper).
struct Keys<S> {
    stream: Array<u8, consts::U32>,
    block: Aes256,
    /// Hash of a data unit's length and tweak, before its input.
    header: Poly1305,
    /// Hash of what NH leaves of the bulk, before its input.
    message: Poly1305,
    nh: NhKey,
    cipher: PhantomData<fn() -> S>,
}

impl<S: Stream> Keys<S> {
    fn new(key: &[u8; 32]) -> Option<Self> {
        let mut parts = [0; 32 + 16 + 16 + 4 * NH_KEY];
        let stream = (*key).into();
        let nonce = [1].into_iter().chain([0; 23]);
        S::new(&stream, &Array::from_iter(nonce)).apply_keystream(&mut parts);
        let (block, parts) = parts.split_first_chunk::<32>()?;
        let (header, parts) = parts.split_first_chunk()?;
        let (message, nh) = parts.split_first_chunk()?;
        let (nh, _) = nh.as_chunks();
        Some(Self {
            stream,
            block: Aes256::expand(block)?,
            header: polynomial(*header),
            message: polynomial(*message),
            nh: std::array::from_fn(|at| u32::from_le_bytes(nh[at])),
            cipher: PhantomData,
        })
    }

    /// Encrypts a data unit of whole blocks, which has one at least.
    fn encrypt(&self, tweak: &WideIv, unit: &mut [u8]) {
        let Some((bulk, last)) = unit.split_last_chunk_mut() else {
            return;
        };
        add(last, self.hash(tweak, bulk));
        self.block.encrypt_all(std::slice::from_mut(last));
        self.xor_stream(*last, bulk);
        subtract(last, self.hash(tweak, bulk));
    }

    /// Decrypts a data unit of whole blocks, which has one at least.
    fn decrypt(&self, tweak: &WideIv, unit: &mut [u8]) {
        let Some((bulk, last)) = unit.split_last_chunk_mut() else {
            return;
        };
        add(last, self.hash(tweak, bulk));
        self.xor_stream(*last, bulk);
        self.block.decrypt_all(std::slice::from_mut(last));
        subtract(last, self.hash(tweak, bulk));
    }

    /// XORs the key stream of a nonce, which a 1 and zeros make longer, to the bulk.
    fn xor_stream(&self, nonce: Block, bulk: &mut [u8]) {
        let nonce = nonce.into_iter().chain([1]).chain([0; 7]);
        S::new(&self.stream, &Array::from_iter(nonce)).apply_keystream(bulk);
    }

    /// Hash of tweak and bulk.
    fn hash(&self, tweak: &WideIv, bulk: &[u8]) -> u128 {
        let bits = 8 * bulk.len() as u128;
        let (tweak, _) = tweak.as_chunks::<16>();
        let mut header = self.header.clone();
        header.update(&[bits.to_le_bytes().into(), tweak[0].into(), tweak[1].into()]);
        let mut message = self.message.clone();
        for part in bulk.chunks(NH_MESSAGE) {
            let [one, other] = nh(&self.nh, part.as_chunks().0);
            message.update(&[one.into(), other.into()]);
        }
        number(header).wrapping_add(number(message))
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

fn add(block: &mut Block, hash: u128) {
    *block = u128::from_le_bytes(*block).wrapping_add(hash).to_le_bytes();
}

fn subtract(block: &mut Block, hash: u128) {
    *block = u128::from_le_bytes(*block).wrapping_sub(hash).to_le_bytes();
}

/// Most bytes that NH hashes at once.
const NH_MESSAGE: usize = 1024;

/// Words of a key of NH: as many as a message has, and three times four more for its passes.
const NH_KEY: usize = NH_MESSAGE / 4 + 3 * 4;

type NhKey = [u32; NH_KEY];

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

    fn hex(text: &str) -> Vec<u8> {
        let digits = text.as_bytes().as_chunks::<2>().0;
        let pairs = digits.iter().map(|pair| std::str::from_utf8(pair).unwrap());
        pairs
            .map(|pair| u8::from_str_radix(pair, 16).unwrap())
            .collect()
    }

    /// The vectors of the authors, which Miri computes for half an hour.
    #[test]
    #[cfg_attr(miri, ignore)]
    fn vectors_of_the_authors() {
        let file = include_str!("../../../tests/vectors/adiantum.rsp");
        let mut count = 0;
        for record in file.split("\n\n") {
            let field = |name: &str| {
                let mut lines = record.lines().filter_map(|line| line.split_once(" = "));
                lines
                    .find(|(known, _)| *known == name)
                    .map(|(_, value)| value)
            };
            let Some(rounds) = field("Rounds") else {
                continue;
            };
            let [key, tweak, plain, cipher] =
                ["Key", "Tweak", "PT", "CT"].map(|name| hex(field(name).unwrap()));
            let (key, tweak) = (key.try_into().unwrap(), tweak.try_into().unwrap());
            match rounds {
                "12" => check::<chacha20::XChaCha12>(&key, &tweak, &plain, &cipher),
                _ => check::<chacha20::XChaCha20>(&key, &tweak, &plain, &cipher),
            }
            count += 1;
        }
        assert_eq!(count, 18);
    }

    fn check<S: Stream>(key: &[u8; 32], tweak: &WideIv, plain: &[u8], cipher: &[u8]) {
        let keys = Keys::<S>::new(key).unwrap();
        let mut data = plain.to_vec();
        keys.encrypt(tweak, &mut data);
        assert!(data == cipher, "{} bytes", plain.len());
        keys.decrypt(tweak, &mut data);
        assert!(data == plain, "{} bytes", plain.len());
    }
}
