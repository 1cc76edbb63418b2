//! AES-GCM (NIST SP 800-38D) at any width of registers: counter mode and GHASH in one pass.
//!
//! A group is 8 registers of blocks. While its rounds are computed, GHASH takes a group of ciphertext: of the same group
//! when decrypting, of the one before when encrypting, which is read back from the destination. The products of a group
//! are summed up, and reduced once: block *i* of *n* is multiplied with H^(n - i), not with H.
//! The numbers are those of [`gcm_blocks`](crate::kernels::gcm_blocks).

use core::marker::PhantomData;

use zeroize::Zeroize;

use super::aes::{WIDTH, in_groups_of_registers, rounds};
use super::ctr::WideCtr;
use super::key::{RoundKeys, expand};
use super::wide::{Operation, Schedule, Wide};
use crate::kernels::cursor::Cursor;
use crate::kernels::gcm::{Gcm, GcmKernel, MESSAGE_MAX, NONCE, TAG};
use crate::kernels::gcm_blocks::{divided_by_x, first_counter, lengths, part_of_block};
use crate::kernels::opaque::opaque;
use crate::kernels::run::Data;

/// A width of registers for which there is a kernel.
///
/// # Safety
/// As for [`Aes`](super::aes::Aes); it has carry-less products too.
pub(super) unsafe trait WideGcm: WideCtr {
    /// The blocks, each with its bytes in reverse order.
    fn reversed(self, blocks: Self::Register) -> Self::Register;

    /// Adds the products of blocks and powers to a sum.
    fn add_products(self, sum: &mut Products<Self>, factors: Factors<Self>);

    /// The same of two registers, which may take fewer additions.
    #[inline(always)]
    fn add_products_of_two(self, sum: &mut Products<Self>, [one, other]: [Factors<Self>; 2]) {
        self.add_products(sum, one);
        self.add_products(sum, other);
    }

    /// The sum of all lanes, reduced, in the first lane; the others are zero.
    fn reduced(self, sum: Products<Self>) -> Self::Register;

    /// The block in the first lane, as a little-endian number.
    fn first_lane(self, blocks: Self::Register) -> u128;
}

/// Sums of products of 128 bits by Karatsuba's method: of the lower halves, of the upper ones, and of the sums of both
/// halves, from which the other two are still to be taken off; those begin at bit 64 of 256.
pub(super) struct Products<W: Wide> {
    pub(super) low: W::Register,
    pub(super) middle: W::Register,
    pub(super) high: W::Register,
}

impl<W: Wide> Products<W> {
    #[inline(always)]
    fn none() -> Self {
        Self {
            low: W::ZERO,
            middle: W::ZERO,
            high: W::ZERO,
        }
    }
}

/// Registers that are multiplied: blocks, powers of H, and the sums of the powers' halves.
pub(super) struct Factors<W: Wide> {
    pub(super) blocks: W::Register,
    pub(super) powers: W::Register,
    pub(super) folded: W::Register,
}

/// Number of powers that are stored: the last is H. A group of the widest registers needs 32, the end of a message at
/// most one more; the rest aligns them.
const POWERS: usize = 36;

/// An expanded key: round keys, and powers of H.
#[repr(C, align(64))]
struct Keys<W: Wide> {
    encrypt: Schedule<W>,
    /// H^36 / x to H / x, where those are zero that this width does not use.
    powers: [u128; POWERS],
    /// The sums of their halves.
    folded: [u128; POWERS],
}

impl<W: Wide> Keys<W> {
    const EMPTY: Self = Self {
        encrypt: [W::ZERO; 15],
        powers: [0; POWERS],
        folded: [0; POWERS],
    };

    fn set(&mut self, power: usize, value: u128) {
        self.powers[POWERS - power] = value;
        self.folded[POWERS - power] = value ^ (value >> 64);
    }
}

impl<W: Wide> Drop for Keys<W> {
    fn drop(&mut self) {
        self.encrypt.zeroize();
        self.powers.zeroize();
        self.folded.zeroize();
    }
}

impl<W: WideGcm> Keys<W> {
    /// A register of blocks beside powers from H^`power` down; when it is not to be `WHOLE`, only the first `len` powers,
    /// and zeros.
    ///
    /// # Safety
    /// There are as many powers.
    #[inline(always)]
    unsafe fn factors<const WHOLE: bool>(
        &self,
        width: W,
        blocks: W::Register,
        power: usize,
        len: usize,
    ) -> Factors<W> {
        let load = |from: &[u128; POWERS]| {
            let from = from.as_ptr().wrapping_add(POWERS - power).cast();
            // SAFETY: the caller promises that they are stored.
            unsafe { width.load::<WHOLE>(from, len) }
        };
        Factors {
            blocks,
            powers: load(&self.powers),
            folded: load(&self.folded),
        }
    }
}

/// Describes the kernel of a width.
pub(super) const fn kernel<W: WideGcm>(driver: &'static str) -> Gcm {
    Gcm {
        driver,
        family: W::FAMILY,
        priority: W::PRIORITY,
        features: W::FEATURES,
        runs_here: || W::detect().is_some(),
        set_up: |key| {
            let width = W::detect()?;
            match key.len() {
                16 => Some(Box::new(Keyed::<W, 10>::new(width, key))),
                32 => Some(Box::new(Keyed::<W, 14>::new(width, key))),
                _ => None,
            }
        },
    }
}

struct Keyed<W: WideGcm, const ROUNDS: usize> {
    width: W,
    /// On the heap, where it is wiped at the end.
    keys: Box<Keys<W>>,
}

impl<W: WideGcm, const ROUNDS: usize> Keyed<W, ROUNDS> {
    fn new(width: W, key: &[u8]) -> Self {
        let mut keys = Box::new(Keys::EMPTY);
        width.run(SetUp::<W, ROUNDS> {
            key,
            keys: &mut keys,
        });
        Self { width, keys }
    }

    fn transform<const ENCRYPT: bool>(
        &self,
        nonce: &[u8; NONCE],
        additional: &[u8],
        message: Data<'_>,
    ) -> [u8; TAG] {
        let (at, len) = Cursor::over(message);
        assert!(len as u64 <= MESSAGE_MAX, "a message of {len} bytes");
        self.width.run(Transform::<'_, W, ROUNDS, ENCRYPT> {
            keys: &self.keys,
            nonce,
            additional,
            at,
            len,
            _message: PhantomData,
        })
    }
}

impl<W: WideGcm, const ROUNDS: usize> GcmKernel for Keyed<W, ROUNDS> {
    fn seal(&self, nonce: &[u8; NONCE], additional: &[u8], message: Data<'_>) -> [u8; TAG] {
        self.transform::<true>(nonce, additional, message)
    }

    fn open(&self, nonce: &[u8; NONCE], additional: &[u8], message: Data<'_>) -> [u8; TAG] {
        self.transform::<false>(nonce, additional, message)
    }
}

/// Expands a key where it is to stay.
struct SetUp<'a, W: Wide, const ROUNDS: usize> {
    key: &'a [u8],
    keys: &'a mut Keys<W>,
}

impl<W: WideGcm, const ROUNDS: usize> Operation<W> for SetUp<'_, W, ROUNDS> {
    type Result = ();

    #[inline(always)]
    fn run(self, width: W) {
        let Self { key, keys } = self;
        let mut narrow = NO_KEYS;
        // SAFETY: `width` shows that the CPU has AES-NI.
        unsafe { expand::<ROUNDS>(key, &mut narrow) };
        width.broadcast(&narrow, &mut keys.encrypt);
        narrow.zeroize();
        let h = divided_by_x(encrypted::<W, ROUNDS>(width, &keys.encrypt, 0).swap_bytes());
        keys.set(1, h);
        let most = WIDTH * W::LANES + 1;
        for power in 2..=most {
            let mut sum = Products::none();
            let below = width.in_every_lane(keys.powers[POWERS - power + 1]);
            add_block(width, keys, &mut sum, below, 1);
            keys.set(power, width.first_lane(width.reduced(sum)));
        }
    }
}

/// Encrypts a block by itself.
#[inline(always)]
fn encrypted<W: WideGcm, const ROUNDS: usize>(width: W, keys: &Schedule<W>, block: u128) -> u128 {
    let mut data = [W::ZERO; WIDTH];
    data[0] = width.xor(width.in_every_lane(block), keys[0]);
    rounds::<W, ROUNDS, true, 1>(width, keys, &mut data);
    width.first_lane(width.last_round::<true>(data[0], keys[ROUNDS]))
}

// SAFETY: any pattern of bits is a value.
const NO_KEYS: RoundKeys = unsafe { core::mem::zeroed::<RoundKeys>() };

/// Encrypts or decrypts a message.
struct Transform<'a, W: Wide, const ROUNDS: usize, const ENCRYPT: bool> {
    keys: &'a Keys<W>,
    nonce: &'a [u8; NONCE],
    additional: &'a [u8],
    /// `len` bytes can be read at its source and written at its destination, as long as `'a`.
    at: Cursor,
    len: usize,
    _message: PhantomData<&'a mut [u8]>,
}

impl<W: WideGcm, const ROUNDS: usize, const ENCRYPT: bool> Operation<W>
    for Transform<'_, W, ROUNDS, ENCRYPT>
{
    type Result = [u8; TAG];

    #[inline(always)]
    fn run(self, width: W) -> [u8; TAG] {
        let Self {
            keys, mut at, len, ..
        } = self;
        let group_bytes = 16 * W::LANES * WIDTH;
        // The counter's 32 bits do not overflow in a message of at most `MESSAGE_MAX` bytes.
        let first = first_counter(self.nonce);
        let mut counter = first + 1;
        let mut state = hash_additional(width, keys, self.additional);
        let mut left = len;
        let mut hashed = None;
        while left >= group_bytes {
            // SAFETY: a group is left, and in turn one is behind.
            unsafe {
                at.prefetch(group_bytes, left);
                let of = if ENCRYPT { hashed } else { Some(at.source) };
                if let Some(of) = of {
                    group::<W, ROUNDS, true>(width, keys, counter, at, of, &mut state);
                } else {
                    let none = at.source;
                    group::<W, ROUNDS, false>(width, keys, counter, at, none, &mut state);
                }
                hashed = Some(at.destination.cast_const());
                at = at.add(group_bytes);
            }
            counter += (W::LANES * WIDTH) as u128;
            left -= group_bytes;
        }
        if ENCRYPT && let Some(last) = hashed {
            // SAFETY: it is the group that was written last.
            unsafe { hash_group(width, keys, last, &mut state) };
        }
        let end = End {
            lengths: lengths(self.additional.len(), len),
            first,
            counter,
        };
        // SAFETY: so many bytes are left.
        unsafe { end.run::<W, ROUNDS, ENCRYPT>(width, keys, at, left, state) }
    }
}

/// The state of GHASH after the additional data, which is short: block by block.
#[inline(always)]
fn hash_additional<W: WideGcm>(width: W, keys: &Keys<W>, additional: &[u8]) -> W::Register {
    let mut state = W::ZERO;
    for part in additional.chunks(16) {
        let mut block = [0; 16];
        block[..part.len()].copy_from_slice(part);
        let block = width.in_every_lane(u128::from_be_bytes(block));
        let mut sum = Products::none();
        add_block(width, keys, &mut sum, width.xor(block, state), 1);
        state = width.reduced(sum);
    }
    state
}

/// Adds the product of the block in the first lane and a power of H.
#[inline(always)]
fn add_block<W: WideGcm>(
    width: W,
    keys: &Keys<W>,
    sum: &mut Products<W>,
    block: W::Register,
    power: usize,
) {
    // SAFETY: one power can be read; those of the other lanes are zero.
    let factors = unsafe { keys.factors::<false>(width, block, power, 1) };
    width.add_products(sum, factors);
}

/// Combines a group with the key stream from `counter` on. If it is to `HASH`, takes the group of ciphertext at `hashed`
/// into the state.
///
/// # Safety
/// A group can be read and written `at`, and read at `hashed`.
#[inline(always)]
unsafe fn group<W: WideGcm, const ROUNDS: usize, const HASH: bool>(
    width: W,
    keys: &Keys<W>,
    counter: u128,
    at: Cursor,
    hashed: *const u8,
    state: &mut W::Register,
) {
    let keys = opaque(keys);
    let schedule = &keys.encrypt;
    let bytes = 16 * W::LANES;
    let mut data = key_stream_input::<W, WIDTH>(width, schedule, counter);
    let mut sum = Products::none();
    for (index, key) in schedule[1..ROUNDS].iter().enumerate() {
        width.in_step(&mut data);
        for blocks in &mut data {
            *blocks = width.one_round::<true>(*blocks, *key);
        }
        // Two registers of the hash in every other round: there are nine rounds or more before the last.
        if HASH && index < WIDTH && index % 2 == 0 {
            // SAFETY: the caller promises the group.
            unsafe { hash_two(width, keys, hashed, WIDTH - 2 - index, *state, &mut sum) };
        }
    }
    width.in_step(&mut data);
    if HASH {
        *state = width.reduced(sum);
    }
    for (index, register) in data.iter().enumerate() {
        // SAFETY: the caller promises the group.
        unsafe {
            let input = width.load::<true>(at.source.wrapping_add(bytes * index), W::LANES);
            let output = width.last_round::<true>(*register, width.xor(schedule[ROUNDS], input));
            let to = at.destination.wrapping_add(bytes * index);
            width.store::<true>(to, W::LANES, output);
        }
    }
}

/// `N` registers of counters from `counter` on, after the first addition of a key.
#[inline(always)]
fn key_stream_input<W: WideGcm, const N: usize>(
    width: W,
    schedule: &Schedule<W>,
    counter: u128,
) -> [W::Register; WIDTH] {
    let first = width.in_every_lane(counter);
    let mut data = [W::ZERO; WIDTH];
    for (index, register) in data[..N].iter_mut().enumerate() {
        *register = width.xor(width.counters(first, index), schedule[0]);
    }
    data
}

/// Adds the products of registers `index` and `index + 1` of a group of ciphertext. The state of what came before belongs
/// to the first register, which is to come last: the state is ready late.
///
/// # Safety
/// The group can be read at `group`.
#[inline(always)]
unsafe fn hash_two<W: WideGcm>(
    width: W,
    keys: &Keys<W>,
    group: *const u8,
    index: usize,
    state: W::Register,
    sum: &mut Products<W>,
) {
    let factors = |index: usize| {
        let from = group.wrapping_add(16 * W::LANES * index);
        // SAFETY: the caller promises the group; there are as many powers as it has blocks.
        unsafe {
            let mut blocks = width.reversed(width.load::<true>(from, W::LANES));
            if index == 0 {
                blocks = width.xor(blocks, state);
            }
            keys.factors::<true>(width, blocks, (WIDTH - index) * W::LANES, W::LANES)
        }
    };
    width.add_products_of_two(sum, [factors(index + 1), factors(index)]);
}

/// Takes a group of ciphertext into the state.
///
/// # Safety
/// It can be read at `group`.
#[inline(always)]
unsafe fn hash_group<W: WideGcm>(
    width: W,
    keys: &Keys<W>,
    group: *const u8,
    state: &mut W::Register,
) {
    let mut sum = Products::none();
    for index in (0..WIDTH).step_by(2).rev() {
        // SAFETY: the caller promises the group.
        unsafe { hash_two(width, keys, group, index, *state, &mut sum) };
    }
    *state = width.reduced(sum);
}

/// End of a message: less than a group, and the tag.
struct End {
    /// Last block of GHASH.
    lengths: u128,
    /// Counter of the block that encrypts the tag.
    first: u128,
    /// Counter of the next block.
    counter: u128,
}

impl End {
    /// # Safety
    /// `left` bytes, less than a group, can be read and written `at`.
    #[inline(always)]
    unsafe fn run<W: WideGcm, const ROUNDS: usize, const ENCRYPT: bool>(
        mut self,
        width: W,
        keys: &Keys<W>,
        mut at: Cursor,
        left: usize,
        mut state: W::Register,
    ) -> [u8; TAG] {
        let keys = opaque(keys);
        let (whole, rest) = (left / 16, left % 16);
        let mut power = whole + usize::from(rest > 0) + 1;
        let mut sum = Products::none();
        in_groups_of_registers!(W::LANES, whole, |_index, N, WHOLE, blocks| {
            // SAFETY: so many blocks are left, and all powers from `power` down.
            unsafe {
                end_group::<W, ROUNDS, ENCRYPT, N, WHOLE>(
                    width,
                    keys,
                    self.counter,
                    at,
                    blocks,
                    power,
                    &mut state,
                    &mut sum,
                );
                at = at.add(16 * blocks);
            }
            self.counter += blocks as u128;
            power -= blocks;
        });
        let [mask, key_stream] = self.last_blocks::<W, ROUNDS>(width, &keys.encrypt);
        if rest > 0 {
            // SAFETY: so many bytes are left.
            let block = unsafe { part_of_block::<ENCRYPT>(at, rest, key_stream) };
            let block = width.in_every_lane(block.swap_bytes());
            add_block(width, keys, &mut sum, width.xor(block, state), power);
            state = W::ZERO;
        }
        let lengths = width.xor(width.in_every_lane(self.lengths), state);
        add_block(width, keys, &mut sum, lengths, 1);
        let hash = width.first_lane(width.reduced(sum));
        (hash.swap_bytes() ^ mask).to_le_bytes()
    }

    /// The block that encrypts the tag, and the next one of the key stream.
    #[inline(always)]
    fn last_blocks<W: WideGcm, const ROUNDS: usize>(
        &self,
        width: W,
        schedule: &Schedule<W>,
    ) -> [u128; 2] {
        let mut data = [W::ZERO; WIDTH];
        for (register, counter) in data.iter_mut().zip([self.first, self.counter]) {
            let counter = width.counters(width.in_every_lane(counter), 0);
            *register = width.xor(counter, schedule[0]);
        }
        rounds::<W, ROUNDS, true, 2>(width, schedule, &mut data);
        [0, 1]
            .map(|index| width.first_lane(width.last_round::<true>(data[index], schedule[ROUNDS])))
    }
}

/// Combines `N` registers of blocks, or the first `blocks` blocks of one, with the key stream from `counter` on, and adds
/// the products of the ciphertext and the powers of H from `power` down. The state goes into the first block.
///
#[expect(
    clippy::too_many_arguments,
    reason = "it is inlined, and a struct of them would be taken apart at once"
)]
/// # Safety
/// They can be read and written `at`; there are as many powers.
#[inline(always)]
unsafe fn end_group<
    W: WideGcm,
    const ROUNDS: usize,
    const ENCRYPT: bool,
    const N: usize,
    const WHOLE: bool,
>(
    width: W,
    keys: &Keys<W>,
    counter: u128,
    at: Cursor,
    blocks: usize,
    power: usize,
    state: &mut W::Register,
    sum: &mut Products<W>,
) {
    let schedule = &keys.encrypt;
    let bytes = 16 * W::LANES;
    let mut data = key_stream_input::<W, N>(width, schedule, counter);
    rounds::<W, ROUNDS, true, N>(width, schedule, &mut data);
    for (index, register) in data[..N].iter().enumerate() {
        // SAFETY: the caller promises the blocks and the powers. Those behind the last block are zero.
        unsafe {
            let input = width.load::<WHOLE>(at.source.wrapping_add(bytes * index), blocks);
            let output = width.last_round::<true>(*register, width.xor(schedule[ROUNDS], input));
            let to = at.destination.wrapping_add(bytes * index);
            width.store::<WHOLE>(to, blocks, output);
            let ciphertext = width.reversed(if ENCRYPT { output } else { input });
            let hashed = width.xor(ciphertext, *state);
            let power = power - W::LANES * index;
            width.add_products(sum, keys.factors::<WHOLE>(width, hashed, power, blocks));
        }
        *state = W::ZERO;
    }
}
