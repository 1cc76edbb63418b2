//! AES-GCM (NIST SP 800-38D): counter mode, and GHASH by PMULL, in one pass.
//!
//! A group is up to 8 blocks. Its products are summed up, and reduced once: block *i* of *n* is multiplied with
//! H^(n - i), not with H. The numbers are those of [`gcm_blocks`](crate::kernels::gcm_blocks).

use core::arch::aarch64::*;

use zeroize::Zeroize;

use super::block::{block, load, number, store, zero};
use super::cpu::{AesPmull, FAMILY};
use super::ctr::unfinished_stream;
use super::key::{NO_KEYS, RoundKeys, expand, round_key};
use super::rounds::{GROUP, Group};
use crate::kernels::cursor::Cursor;
use crate::kernels::gcm::{Gcm, GcmKernel, MESSAGE_MAX, NONCE, TAG};
use crate::kernels::gcm_blocks::{divided_by_x, first_counter, lengths, part_of_block};
use crate::kernels::groups::in_groups;
use crate::kernels::opaque::opaque;
use crate::kernels::run::Data;

pub(super) const GCM_ARMV8: Gcm = Gcm {
    driver: "gcm-aes-armv8",
    family: FAMILY,
    priority: 400,
    features: AesPmull::FEATURES,
    runs_here: || AesPmull::detect().is_some(),
    set_up: |key| {
        let token = AesPmull::detect()?;
        match key.len() {
            16 => Some(Box::new(Keyed::<10>::new(token, key))),
            32 => Some(Box::new(Keyed::<14>::new(token, key))),
            _ => None,
        }
    },
};

/// An expanded key: round keys, and powers of H.
#[repr(C, align(64))]
struct Keys {
    encrypt: RoundKeys,
    /// H / x to H^8 / x.
    powers: [u128; GROUP],
}

impl Drop for Keys {
    fn drop(&mut self) {
        self.encrypt.zeroize();
        self.powers.zeroize();
    }
}

struct Keyed<const ROUNDS: usize> {
    /// On the heap, where it is wiped at the end.
    keys: Box<Keys>,
    /// Proof that the CPU can run the kernel.
    _token: AesPmull,
}

impl<const ROUNDS: usize> Keyed<ROUNDS> {
    fn new(token: AesPmull, key: &[u8]) -> Self {
        let mut keys = Box::new(Keys {
            encrypt: NO_KEYS,
            powers: [0; GROUP],
        });
        // SAFETY: the token shows that the CPU has the features.
        unsafe { set_up::<ROUNDS>(key, &mut keys) };
        Self {
            keys,
            _token: token,
        }
    }

    fn run<const ENCRYPT: bool>(
        &self,
        nonce: &[u8; NONCE],
        additional: &[u8],
        message: Data<'_>,
    ) -> [u8; TAG] {
        let (at, len) = Cursor::over(message);
        assert!(len as u64 <= MESSAGE_MAX, "a message of {len} bytes");
        // SAFETY: the token that `self` holds shows that the CPU has the features. `message` is borrowed for
        // longer than this call takes.
        unsafe { transform::<ROUNDS, ENCRYPT>(&self.keys, nonce, additional, at, len) }
    }
}

impl<const ROUNDS: usize> GcmKernel for Keyed<ROUNDS> {
    fn seal(&self, nonce: &[u8; NONCE], additional: &[u8], message: Data<'_>) -> [u8; TAG] {
        self.run::<true>(nonce, additional, message)
    }

    fn open(&self, nonce: &[u8; NONCE], additional: &[u8], message: Data<'_>) -> [u8; TAG] {
        self.run::<false>(nonce, additional, message)
    }
}

/// Expands a key where it is to stay.
#[target_feature(enable = "aes")]
fn set_up<const ROUNDS: usize>(key: &[u8], keys: &mut Keys) {
    expand::<ROUNDS>(key, &mut keys.encrypt);
    let hash_key = key_stream::<ROUNDS>(&keys.encrypt, 0).swap_bytes();
    keys.powers[0] = divided_by_x(hash_key);
    for power in 1..GROUP {
        let mut sum = Products::none();
        sum.add(block(keys.powers[power - 1]), block(keys.powers[0]));
        keys.powers[power] = number(sum.reduced());
    }
}

/// A block of the key stream by itself, as a little-endian number.
#[inline]
#[target_feature(enable = "aes")]
fn key_stream<const ROUNDS: usize>(keys: &RoundKeys, counter: u128) -> u128 {
    let [stream, ..] = unfinished_stream::<ROUNDS, 1>(keys, counter);
    number(veorq_u8(stream, round_key(keys, ROUNDS)))
}

/// Encrypts or decrypts a message.
///
/// # Safety
/// `len` bytes can be read and written `at`.
#[target_feature(enable = "aes")]
unsafe fn transform<const ROUNDS: usize, const ENCRYPT: bool>(
    keys: &Keys,
    nonce: &[u8; NONCE],
    additional: &[u8],
    mut at: Cursor,
    len: usize,
) -> [u8; TAG] {
    // The counter's 32 bits do not overflow in a message of at most `MESSAGE_MAX` bytes.
    let first = first_counter(nonce);
    let mut counter = first + 1;
    let mut state = hash_additional(keys, additional);
    in_groups!(len / 16, _index, LANES => {
        // SAFETY: `LANES` blocks are left.
        unsafe {
            state = group::<ROUNDS, ENCRYPT, LANES>(opaque(keys), counter, at, state);
            at = at.add(16 * LANES);
        }
        counter += LANES as u128;
    });
    let rest = len % 16;
    if rest > 0 {
        let stream = key_stream::<ROUNDS>(opaque(&keys.encrypt), counter);
        // SAFETY: `rest` bytes are left.
        let last = unsafe { part_of_block::<ENCRYPT>(at, rest, stream) };
        state = hash_one(keys, block(last.swap_bytes()), state);
    }
    state = hash_one(keys, block(lengths(additional.len(), len)), state);
    let mask = key_stream::<ROUNDS>(opaque(&keys.encrypt), first);
    (number(state).swap_bytes() ^ mask).to_le_bytes()
}

/// The state of GHASH after the additional data, which is short: block by block.
#[inline]
#[target_feature(enable = "aes")]
fn hash_additional(keys: &Keys, additional: &[u8]) -> uint8x16_t {
    let mut state = zero();
    for part in additional.chunks(16) {
        let mut bytes = [0; 16];
        bytes[..part.len()].copy_from_slice(part);
        state = hash_one(keys, block(u128::from_be_bytes(bytes)), state);
    }
    state
}

/// Takes a block into the state.
#[inline]
#[target_feature(enable = "aes")]
fn hash_one(keys: &Keys, reversed: uint8x16_t, state: uint8x16_t) -> uint8x16_t {
    let mut sum = Products::none();
    // Otherwise the power is kept on the stack from one call to the next.
    sum.add(veorq_u8(reversed, state), block(opaque(keys).powers[0]));
    sum.reduced()
}

/// Combines `LANES` blocks with the key stream from `counter` on, and takes the blocks of ciphertext into the state.
///
/// # Safety
/// They can be read and written `at`.
#[inline]
#[target_feature(enable = "aes")]
unsafe fn group<const ROUNDS: usize, const ENCRYPT: bool, const LANES: usize>(
    keys: &Keys,
    counter: u128,
    at: Cursor,
    state: uint8x16_t,
) -> uint8x16_t {
    let mut data: Group = unfinished_stream::<ROUNDS, LANES>(&keys.encrypt, counter);
    let last = round_key(&keys.encrypt, ROUNDS);
    for (lane, block) in data[..LANES].iter_mut().enumerate() {
        // SAFETY: the caller promises the blocks.
        unsafe {
            let input = load(at.source, lane);
            let output = veorq_u8(*block, veorq_u8(input, last));
            store(at.destination, lane, output);
            *block = if ENCRYPT { output } else { input };
        }
    }
    let mut sum = Products::none();
    let mut state = state;
    for (lane, ciphertext) in data[..LANES].iter().enumerate() {
        let hashed = veorq_u8(reversed(*ciphertext), state);
        sum.add(hashed, block(keys.powers[LANES - 1 - lane]));
        state = zero();
    }
    sum.reduced()
}

/// The block with its bytes in reverse order.
#[inline]
#[target_feature(enable = "neon")]
fn reversed(block: uint8x16_t) -> uint8x16_t {
    exchanged(vrev64q_u8(block))
}

/// The block with its halves exchanged.
#[inline]
#[target_feature(enable = "neon")]
fn exchanged(block: uint8x16_t) -> uint8x16_t {
    vextq_u8::<8>(block, block)
}

/// Sums of products of 128 bits by Karatsuba's method: of the lower halves, of the upper ones, and of the sums of both
/// halves, from which the other two are still to be taken off; those begin at bit 64 of 256.
struct Products {
    low: uint8x16_t,
    middle: uint8x16_t,
    high: uint8x16_t,
}

impl Products {
    #[inline]
    #[target_feature(enable = "neon")]
    fn none() -> Self {
        Self {
            low: zero(),
            middle: zero(),
            high: zero(),
        }
    }

    /// Adds the product of a block and a power of H.
    #[inline]
    #[target_feature(enable = "aes")]
    fn add(&mut self, block: uint8x16_t, power: uint8x16_t) {
        let folded = |both: uint8x16_t| veorq_u8(both, exchanged(both));
        self.low = veorq_u8(self.low, product_of_lower_halves(block, power));
        self.middle = veorq_u8(
            self.middle,
            product_of_lower_halves(folded(block), folded(power)),
        );
        let high = vmull_high_p64(vreinterpretq_p64_u8(block), vreinterpretq_p64_u8(power));
        self.high = veorq_u8(self.high, vreinterpretq_u8_p128(high));
    }

    /// The sum modulo x^128 + x^7 + x^2 + x + 1: the lower half is folded into the upper one, 64 bits at a time.
    /// Bit *i* of the lower 64 stands for x^(255 - i) = x^(127 - i) · (x^7 + x^2 + x + 1).
    #[inline]
    #[target_feature(enable = "aes")]
    fn reduced(self) -> uint8x16_t {
        // x^7 + x^2 + x, whose bits lie 6, 1 and 0 places below the highest of 64; 1 is the exchange of the halves.
        let fold = block(0xc2 << 56);
        let middle = veorq_u8(self.middle, veorq_u8(self.low, self.high));
        let high = veorq_u8(self.high, vextq_u8::<8>(middle, zero()));
        let mut low = veorq_u8(self.low, vextq_u8::<8>(zero(), middle));
        for _ in 0..2 {
            low = veorq_u8(exchanged(low), product_of_lower_halves(low, fold));
        }
        veorq_u8(high, low)
    }
}

#[inline]
#[target_feature(enable = "aes")]
fn product_of_lower_halves(one: uint8x16_t, other: uint8x16_t) -> uint8x16_t {
    let [one, other] = [one, other].map(|block| vgetq_lane_p64::<0>(vreinterpretq_p64_u8(block)));
    vreinterpretq_u8_p128(vmull_p64(one, other))
}
