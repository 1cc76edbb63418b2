//! AES-GCM (NIST SP 800-38D) at any width of registers: counter mode and GHASH in one pass.
//!
//! A group is 8 registers of blocks. While its rounds are computed, GHASH takes a group of ciphertext: of the same group
//! when decrypting, of the one before when encrypting, which is read back from the destination. The products of a group
//! are summed up and reduced once. Each lane has a sum of its own: a register that is the *r*-th of a group from its end is
//! multiplied with H^(r · lanes) in every lane. Only of a message's last group block *i* of *n* is multiplied with
//! H^(n - i), so that the sums of all lanes can be added.
//!
//! Rounds and products go to different ports of a processor, which are busy only if its queue has work for both at any
//! time. So products, and the counters of the group that comes next, are spread over the rounds of a group.
//! The numbers are those of [`gcm_blocks`](crate::kernels::gcm_blocks).

use core::marker::PhantomData;

use zeroize::Zeroize;

use super::aes::{WIDTH, in_groups_of_registers, rounds};
use super::gcm_counters::{Counters, FirstColumns, FirstRound};
use super::gcm_width::{Factors, Products, WideGcm};
use super::key::{RoundKeys, expand};
use super::wide::{Operation, Schedule, Wide};
use crate::kernels::cursor::Cursor;
use crate::kernels::gcm::{Gcm, GcmKernel, MESSAGE_MAX, NONCE, TAG};
use crate::kernels::gcm_blocks::{divided_by_x, first_counter, lengths, load_part, part_of_block};
use crate::kernels::opaque::opaque;
use crate::kernels::run::Data;
use crate::wipe;

/// Number of powers that are stored: the last is H. A group of the widest registers needs 32, the end of a message at
/// most one more; the rest aligns them.
const POWERS: usize = 36;

/// An expanded key: round keys, and powers of H.
#[repr(C, align(64))]
struct Keys<W: Wide> {
    encrypt: Schedule<W>,
    /// H^36 / x to H / x, where those are zero that this width does not use.
    powers: [u128; POWERS],
    /// The sums of their halves, which are not read with AVX-512.
    folded: [u128; POWERS],
    first_columns: FirstColumns,
}

impl<W: Wide> Keys<W> {
    const EMPTY: Self = Self {
        encrypt: [W::ZERO; 15],
        powers: [0; POWERS],
        folded: [0; POWERS],
        first_columns: FirstColumns::EMPTY,
    };

    fn first_round(&self) -> FirstRound<'_, W> {
        FirstRound {
            schedule: &self.encrypt,
            columns: &self.first_columns,
        }
    }

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
        let at = POWERS - power;
        // SAFETY: the caller promises that they are stored.
        unsafe {
            let powers = self.powers.as_ptr().wrapping_add(at).cast();
            let folded = self.folded.as_ptr().wrapping_add(at).cast();
            Factors {
                blocks,
                powers: width.load::<WHOLE>(powers, len),
                folded: width.load::<WHOLE>(folded, len),
            }
        }
    }

    /// A register of blocks beside H^`power` in every lane.
    #[inline(always)]
    fn factors_of_lanes(&self, width: W, blocks: W::Register, power: usize) -> Factors<W> {
        Factors {
            blocks,
            powers: width.in_every_lane(self.powers[POWERS - power]),
            folded: width.in_every_lane(self.folded[POWERS - power]),
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

/// More of the stack than a message takes in a release build, in bytes. Where there are 16 registers, the state of GHASH is kept there, from
/// which its key follows if the additional data are known; 32 hold it.
const FRAME_BYTES: usize = 1 << 10;

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
        let tag = self.width.run(Transform::<'_, W, ROUNDS, ENCRYPT> {
            keys: &self.keys,
            nonce,
            additional,
            at,
            len,
            _message: PhantomData,
        });
        if cfg!(debug_assertions) {
            wipe::stack();
        } else if !W::HAS_AVX512 {
            wipe::below::<FRAME_BYTES>();
        }
        tag
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
        keys.first_columns.set_up(width, &keys.encrypt);
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
        let keys = self.keys;
        // The counter's 32 bits do not overflow in a message of at most `MESSAGE_MAX` bytes.
        let first = first_counter(self.nonce);
        let mut state = hash_additional(width, keys, self.additional);
        let group_bytes = 16 * W::LANES * WIDTH;
        let (groups, left) = (self.len / group_bytes, self.len % group_bytes);
        let mut at = self.at;
        if groups > 0 {
            // SAFETY: so many groups can be read and written.
            unsafe {
                whole_groups::<W, ROUNDS, ENCRYPT>(width, keys, first + 1, at, groups, &mut state);
                at = at.add(group_bytes * groups);
            }
        }
        let end = End {
            lengths: lengths(self.additional.len(), self.len),
            first,
            counter: first + 1 + (groups * W::LANES * WIDTH) as u128,
        };
        // SAFETY: so many bytes are left.
        unsafe { end.run::<W, ROUNDS, ENCRYPT>(width, keys, at, left, state) }
    }
}

/// Combines `groups` groups with the key stream from `counter` on, which is 2 modulo a group's length, and takes their
/// ciphertext into the state.
///
/// # Safety
/// They can be read and written `at`.
#[inline(always)]
unsafe fn whole_groups<W: WideGcm, const ROUNDS: usize, const ENCRYPT: bool>(
    width: W,
    keys: &Keys<W>,
    counter: u128,
    mut at: Cursor,
    groups: usize,
    state: &mut W::Register,
) {
    let bytes = 16 * W::LANES * WIDTH;
    let mut counters = Counters::new(width, counter);
    let mut input = counters.group(width, &keys.first_round());
    let mut behind = None;
    for left in (1..=groups).rev() {
        // SAFETY: a group is left, and in turn one is behind.
        unsafe {
            at.prefetch(bytes, bytes * left);
            let (here, now, input) = (at.source, &mut counters, &mut input);
            match behind {
                None if ENCRYPT => {
                    group::<W, ROUNDS, HASH_NOTHING>(width, keys, now, input, at, here, state);
                }
                Some(of) if ENCRYPT => {
                    group::<W, ROUNDS, HASH_BY_LANES>(width, keys, now, input, at, of, state);
                }
                _ if left > 1 => {
                    group::<W, ROUNDS, HASH_BY_LANES>(width, keys, now, input, at, here, state);
                }
                _ => group::<W, ROUNDS, HASH_LAST>(width, keys, now, input, at, here, state),
            }
            behind = Some(at.destination.cast_const());
            at = at.add(bytes);
        }
    }
    if ENCRYPT && let Some(last) = behind {
        // SAFETY: it is the group that was written last.
        unsafe { hash_group(width, keys, last, state) };
    }
    *state = width.sum_of_lanes(*state);
}

/// The state of GHASH after the additional data, which is short: block by block.
#[inline(always)]
fn hash_additional<W: WideGcm>(width: W, keys: &Keys<W>, additional: &[u8]) -> W::Register {
    let mut state = W::ZERO;
    let (blocks, rest) = additional.as_chunks::<16>();
    // SAFETY: the rest is shorter than a block.
    let rest_block = unsafe { load_part(rest.as_ptr(), rest.len()) };
    let rest = (!rest.is_empty()).then_some(rest_block);
    let blocks = blocks.iter().map(|block| u128::from_le_bytes(*block));
    for block in blocks.chain(rest) {
        let block = width.in_every_lane(block.swap_bytes());
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
    width.add_products(sum, [factors]);
}

/// No group is hashed.
const HASH_NOTHING: u8 = 0;
/// A group is hashed that is not the last whole one of its message: the sum of each lane stays in it.
const HASH_BY_LANES: u8 = 1;
/// The last whole group of a message is hashed: the sums of its lanes can be added.
const HASH_LAST: u8 = 2;

/// The part of a work in `parts`, spread evenly over `rounds` rounds, that belongs to round `index`.
#[inline(always)]
const fn part_at(index: usize, parts: usize, rounds: usize) -> Option<usize> {
    let part = (index * parts).div_ceil(rounds);
    if part < parts && part * rounds / parts == index {
        Some(part)
    } else {
        None
    }
}

/// Compiles the body for each round but the first and the last.
macro_rules! in_rounds {
    ($index:ident of $rounds:ident => $body:block) => {
        in_rounds!($index of $rounds => $body, 0 1 2 3 4 5 6 7 8 9 10 11)
    };
    ($index:ident of $rounds:ident => $body:block, $($number:literal)*) => {
        $({
            const $index: usize = $number;
            if 2 + $index < $rounds $body
        })*
    };
}

/// Combines a group with the key stream of its `counters`, and leaves there those of the next one. Where there are registers
/// for both, `input` has the group's counters after the first round, and is left with those of the next. Takes the group of
/// ciphertext at `hashed` into the state, as `HASH` says.
///
/// # Safety
/// A group can be read and written `at`, and read at `hashed`.
#[inline(always)]
unsafe fn group<W: WideGcm, const ROUNDS: usize, const HASH: u8>(
    width: W,
    keys: &Keys<W>,
    counters: &mut Counters<W>,
    input: &mut [W::Register; WIDTH],
    at: Cursor,
    hashed: *const u8,
    state: &mut W::Register,
) {
    const { assert!(ROUNDS == 10 || ROUNDS == 14, "for which `in_rounds` is") };
    let keys = opaque(keys);
    let round = keys.first_round();
    if !W::HAS_AVX512 {
        *input = counters.group(width, &round);
    }
    *counters = counters.next(width);
    let mut data = *input;
    let mut sum = Products::none();
    let common = counters.common(width, &round);
    in_rounds!(INDEX of ROUNDS => {
        width.hold(&mut data, &mut sum, input);
        for blocks in &mut data {
            *blocks = width.one_round::<true>(*blocks, keys.encrypt[2 + INDEX]);
        }
        if HASH != HASH_NOTHING && let Some(part) = part_at(INDEX, WIDTH / at_once::<W>(), ROUNDS - 2) {
            // The first is hashed last, since the state may be late.
            let first = (part + 1) * at_once::<W>() % WIDTH;
            // SAFETY: the caller promises the group.
            unsafe { hash_some::<W, HASH>(width, keys, hashed, first, *state, &mut sum) };
        }
        if W::HAS_AVX512 && let Some(index) = part_at(INDEX, WIDTH, ROUNDS - 2) {
            input[index] = counters.after_round(width, &round, common, index);
        }
    });
    width.hold(&mut data, &mut sum, input);
    if HASH != HASH_NOTHING {
        *state = width.reduced(sum);
    }
    let bytes = 16 * W::LANES;
    for (index, register) in data.iter().enumerate() {
        // SAFETY: the caller promises the group.
        unsafe {
            let source = width.load::<true>(at.source.wrapping_add(bytes * index), W::LANES);
            let key = width.xor(keys.encrypt[ROUNDS], source);
            let output = width.last_round::<true>(*register, key);
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

/// Number of registers that are hashed together: 2 where one instruction adds three.
const fn at_once<W: WideGcm>() -> usize {
    if W::HAS_AVX512 { 2 } else { 1 }
}

/// Adds the products of as many registers of a group of ciphertext as are hashed together, from `index` on. The state of
/// what came before belongs to the group's first register.
///
/// # Safety
/// The group can be read at `group`.
#[inline(always)]
unsafe fn hash_some<W: WideGcm, const HASH: u8>(
    width: W,
    keys: &Keys<W>,
    group: *const u8,
    index: usize,
    state: W::Register,
    sum: &mut Products<W>,
) {
    // SAFETY: the caller promises the group.
    unsafe {
        let first = factors::<W, HASH>(width, keys, group, index, state);
        if !W::HAS_AVX512 {
            width.add_products(sum, [first]);
        } else {
            let second = factors::<W, HASH>(width, keys, group, index + 1, state);
            width.add_products(sum, [second, first]);
        }
    }
}

/// Register `index` of a group of ciphertext, and the powers to multiply it with.
///
/// # Safety
/// The group can be read at `group`.
#[inline(always)]
unsafe fn factors<W: WideGcm, const HASH: u8>(
    width: W,
    keys: &Keys<W>,
    group: *const u8,
    index: usize,
    state: W::Register,
) -> Factors<W> {
    let from = group.wrapping_add(16 * W::LANES * index);
    let power = (WIDTH - index) * W::LANES;
    // SAFETY: the caller promises the group; there are as many powers as it has blocks.
    unsafe {
        let mut blocks = width.reversed(width.load::<true>(from, W::LANES));
        if index == 0 {
            blocks = width.xor(blocks, state);
        }
        if HASH == HASH_LAST {
            keys.factors::<true>(width, blocks, power, W::LANES)
        } else {
            keys.factors_of_lanes(width, blocks, power)
        }
    }
}

/// Takes the last whole group of ciphertext into the state.
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
    for index in (0..WIDTH).step_by(at_once::<W>()).rev() {
        // SAFETY: the caller promises the group.
        unsafe { hash_some::<W, HASH_LAST>(width, keys, group, index, *state, &mut sum) };
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
        let hash = width.first_lane(width.sum_of_lanes(width.reduced(sum)));
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
        // Not in a closure, which would be compiled without the width's CPU features.
        let [mask, key_stream, ..] = data;
        let mask = width.last_round::<true>(mask, schedule[ROUNDS]);
        let key_stream = width.last_round::<true>(key_stream, schedule[ROUNDS]);
        [width.first_lane(mask), width.first_lane(key_stream)]
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
            width.add_products(sum, [keys.factors::<WHOLE>(width, hashed, power, blocks)]);
        }
        *state = W::ZERO;
    }
}
