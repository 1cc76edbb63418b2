//! Modes of operation on batches of blocks.

use core::arch::x86_64::*;

use scrim_sys::memory::Locked;
use zeroize::{Zeroize, Zeroizing};

use super::{Batch, Cipher, Masks, Nothing, Zeros, blocks_of, blocks_of_mut, in_place, transform};
use crate::kernels::cursor::{Cursor, RawRun};
use crate::kernels::iv::{Block, Ivs, SectorKernel};
use crate::kernels::run::Run;
use crate::wipe;

/// A mode of operation.
pub(in super::super) trait Mode: 'static {
    /// Expanded keys: of the cipher, and others that the mode needs.
    type Keys<K: Send + Sync + 'static>: Send + Sync;

    /// Number of bytes of a cipher's key in a key of `len` bytes.
    fn cipher_key(len: usize) -> usize;

    /// Number of bytes of a key with cipher's keys of `of_cipher` bytes.
    fn key_len(of_cipher: usize) -> usize;

    /// Keys that are not expanded yet.
    fn no_keys<C: Cipher<PAIRS>, const PAIRS: usize>() -> Self::Keys<C::Keys>;

    /// Expands a key that consists of cipher's keys of a valid length, and of what else the mode needs.
    fn expand<C: Cipher<PAIRS>, const PAIRS: usize>(
        cipher: C,
        key: &[u8],
        keys: &mut Self::Keys<C::Keys>,
    );

    /// Transforms a run of data units. Names no CPU feature, and is inlined where AVX is enabled.
    ///
    /// # Safety
    /// The run can be read and written.
    unsafe fn transform<C: Cipher<PAIRS>, const PAIRS: usize, const ENCRYPT: bool>(
        cipher: C,
        keys: &Self::Keys<C::Keys>,
        ivs: &mut Ivs<'_>,
        run: &RawRun,
    );
}

/// A kernel with `key` expanded; `None` for a key of another cipher.
pub(in super::super) fn set_up<C: Cipher<PAIRS>, const PAIRS: usize, M: Mode>(
    key: &[u8],
) -> Option<Box<dyn SectorKernel>> {
    let cipher = C::detect()?;
    let of_cipher = M::cipher_key(key.len());
    if ![16, 24, 32].contains(&of_cipher) || key.len() != M::key_len(of_cipher) {
        return None;
    }
    let mut keys = Locked::new(M::no_keys::<C, PAIRS>);
    M::expand::<C, PAIRS>(cipher, key, &mut keys);
    Some(Box::new(Keyed::<C, PAIRS, M> { cipher, keys }))
}

struct Keyed<C: Cipher<PAIRS>, const PAIRS: usize, M: Mode> {
    cipher: C,
    keys: Locked<M::Keys<C::Keys>>,
}

impl<C: Cipher<PAIRS>, const PAIRS: usize, M: Mode> SectorKernel for Keyed<C, PAIRS, M> {
    fn encrypt(&self, mut ivs: Ivs<'_>, run: Run<'_>) {
        self.transform::<true>(&mut ivs, run);
    }

    fn decrypt(&self, mut ivs: Ivs<'_>, run: Run<'_>) {
        self.transform::<false>(&mut ivs, run);
    }
}

impl<C: Cipher<PAIRS>, const PAIRS: usize, M: Mode> Keyed<C, PAIRS, M> {
    fn transform<const ENCRYPT: bool>(&self, ivs: &mut Ivs<'_>, run: Run<'_>) {
        /// # Safety
        /// As for [`Mode::transform`], and the CPU has AVX.
        #[inline(never)]
        #[target_feature(enable = "avx")]
        unsafe fn transform<C: Cipher<PAIRS>, const PAIRS: usize, M: Mode, const ENCRYPT: bool>(
            cipher: C,
            keys: &M::Keys<C::Keys>,
            ivs: &mut Ivs<'_>,
            run: &RawRun,
        ) {
            // SAFETY: the caller promises the run.
            unsafe { M::transform::<C, PAIRS, ENCRYPT>(cipher, keys, ivs, run) }
        }
        let run = RawRun::from(run);
        // SAFETY: the token shows that the CPU has AVX, as every cipher's does. The pointers are of memory that `run`
        // was made of, and that is borrowed for longer than this call takes.
        unsafe { transform::<C, PAIRS, M, ENCRYPT>(self.cipher, &self.keys, ivs, &run) }
        wipe_frames::<PAIRS>();
    }
}

/// Removes what a mode and its cipher kept on the stack: batches, some of which stay in place, and registers of which there
/// are not enough.
fn wipe_frames<const PAIRS: usize>() {
    if cfg!(debug_assertions) {
        wipe::stack();
    } else if PAIRS > 16 {
        wipe::below::<{ 8 << 10 }>();
    } else {
        wipe::below::<{ 4 << 10 }>();
    }
}

pub(super) fn start(run: &RawRun) -> Cursor {
    Cursor {
        source: run.source,
        destination: run.destination,
    }
}

/// IVs of data units, one by one, made for a batch of units at a time.
struct UnitIvs<'i, 'a, const PAIRS: usize> {
    ivs: &'i mut Ivs<'a>,
    batch: Batch<PAIRS>,
    /// Index of the next one, and number of those in the batch.
    next: usize,
    made: usize,
    /// Number of data units whose IVs are not made yet.
    unmade: usize,
}

impl<'i, 'a, const PAIRS: usize> UnitIvs<'i, 'a, PAIRS> {
    fn new(ivs: &'i mut Ivs<'a>, units: usize) -> Self {
        Self {
            ivs,
            batch: Zeros::BATCH,
            next: 0,
            made: 0,
            unmade: units,
        }
    }

    /// The next IV, as `prepare` has changed some of them; `None` after the last.
    #[inline(always)]
    fn next(&mut self, prepare: impl Fn(&mut Batch<PAIRS>, usize)) -> Option<u128> {
        if self.next == self.made {
            self.refill()?;
            prepare(&mut self.batch, self.made);
        }
        let iv = blocks_of(&self.batch)[self.next];
        self.next += 1;
        Some(iv)
    }

    #[inline(never)]
    fn refill(&mut self) -> Option<()> {
        if self.unmade == 0 {
            return None;
        }
        self.made = self.unmade.min(2 * PAIRS);
        self.unmade -= self.made;
        self.next = 0;
        self.ivs
            .fill(&mut bytes_of_mut(&mut self.batch)[..self.made]);
        Some(())
    }
}

impl<const PAIRS: usize> Drop for UnitIvs<'_, '_, PAIRS> {
    fn drop(&mut self) {
        self.batch.zeroize();
    }
}

/// Blocks that each follow from the one before in a data unit, as tweaks and counters do, made a batch ahead: they are
/// written in halves, and a load of whole registers would wait for that.
pub(super) struct Chain<'i, 'a, S: Zeroize, const PAIRS: usize> {
    ivs: UnitIvs<'i, 'a, PAIRS>,
    /// That of which the next block is written.
    state: S,
    /// Blocks of a data unit, and how many of them the current unit lacks yet.
    unit: usize,
    left: usize,
    batches: [Batch<PAIRS>; 2],
    /// Index of the current batch.
    now: usize,
}

impl<'i, 'a, S: Copy + Default + Zeroize, const PAIRS: usize> Chain<'i, 'a, S, PAIRS> {
    pub(super) fn new(ivs: &'i mut Ivs<'a>, run: &RawRun) -> Self {
        Self {
            ivs: UnitIvs::new(ivs, run.units),
            state: S::default(),
            unit: run.unit / 16,
            left: 0,
            batches: [Zeros::BATCH; 2],
            now: 0,
        }
    }

    /// Goes on to the batch that was made last.
    #[inline(always)]
    pub(super) fn advance(&mut self) {
        self.now ^= 1;
    }

    pub(super) fn current(&self) -> &Batch<PAIRS> {
        &self.batches[self.now]
    }

    /// Makes the batch after the current one. `prepare` changes some IVs, `first` makes the state for each unit of its IV
    /// and the state after the unit before, `after` makes that for each block that follows, and `written` the block.
    #[inline(always)]
    pub(super) fn make(
        &mut self,
        prepare: impl Fn(&mut Batch<PAIRS>, usize),
        first: impl Fn(S, u128) -> S,
        after: impl Fn(S) -> S,
        written: impl Fn(S) -> u128,
    ) {
        let mut places = &mut blocks_of_mut(&mut self.batches[self.now ^ 1])[..];
        while !places.is_empty() {
            if self.left == 0 {
                let Some(iv) = self.ivs.next(&prepare) else {
                    return;
                };
                self.state = first(self.state, iv);
                self.left = self.unit;
            }
            let here = self.left.min(places.len());
            let (now, later) = places.split_at_mut(here);
            // In registers: each waits for the one before.
            let mut state = self.state;
            for place in now {
                *place = written(state);
                state = after(state);
            }
            self.state = state;
            self.left -= here;
            places = later;
        }
    }
}

impl<S: Zeroize, const PAIRS: usize> Drop for Chain<'_, '_, S, PAIRS> {
    fn drop(&mut self) {
        self.batches.zeroize();
        self.state.zeroize();
    }
}

pub(in super::super) struct Xts;

/// Tweaks, each the one before times α (IEEE Std 1619, 5.2).
struct Tweaks<'k, 'i, 'a, C: Cipher<PAIRS>, const PAIRS: usize> {
    cipher: C,
    key: &'k C::Keys,
    chain: Chain<'i, 'a, u128, PAIRS>,
}

impl<C: Cipher<PAIRS>, const PAIRS: usize> Tweaks<'_, '_, '_, C, PAIRS> {
    #[inline(always)]
    fn make(&mut self) {
        let (cipher, key) = (self.cipher, self.key);
        let times_alpha =
            |tweak: u128| tweak << 1 ^ (tweak.cast_signed() >> 127).cast_unsigned() & 0x87;
        self.chain.make(
            |ivs, count| in_place::<C, PAIRS, true>(cipher, key, ivs, count),
            |_, iv| iv,
            times_alpha,
            |tweak| tweak,
        );
    }
}

impl<C: Cipher<PAIRS>, const PAIRS: usize> Masks<PAIRS> for Tweaks<'_, '_, '_, C, PAIRS> {
    /// # Safety
    /// As the trait says.
    #[inline(always)]
    unsafe fn next(&mut self, _: *const u8, _: usize) {
        self.chain.advance();
        self.make();
    }

    #[inline(always)]
    fn before(&self) -> &Batch<PAIRS> {
        self.chain.current()
    }

    #[inline(always)]
    fn after(&self) -> &Batch<PAIRS> {
        self.chain.current()
    }
}

impl Mode for Xts {
    /// The key of the data, and that of the tweaks.
    type Keys<K: Send + Sync + 'static> = [K; 2];

    fn cipher_key(len: usize) -> usize {
        len / 2
    }

    fn key_len(of_cipher: usize) -> usize {
        2 * of_cipher
    }

    fn no_keys<C: Cipher<PAIRS>, const PAIRS: usize>() -> [C::Keys; 2] {
        [C::NO_KEYS; 2]
    }

    fn expand<C: Cipher<PAIRS>, const PAIRS: usize>(
        cipher: C,
        key: &[u8],
        keys: &mut [C::Keys; 2],
    ) {
        for (keys, key) in keys.iter_mut().zip(key.chunks(key.len() / 2)) {
            cipher.expand(key, keys);
        }
    }

    /// # Safety
    /// As the trait says.
    #[inline(always)]
    unsafe fn transform<C: Cipher<PAIRS>, const PAIRS: usize, const ENCRYPT: bool>(
        cipher: C,
        [data, tweak]: &[C::Keys; 2],
        ivs: &mut Ivs<'_>,
        run: &RawRun,
    ) {
        let chain = Chain::new(ivs, run);
        let mut tweaks = Tweaks {
            cipher,
            key: tweak,
            chain,
        };
        tweaks.make();
        let blocks = run.units * (run.unit / 16);
        // SAFETY: the caller promises the run.
        unsafe {
            transform::<C, PAIRS, ENCRYPT>(cipher, data, &mut tweaks, start(run), blocks);
        }
    }
}

pub(in super::super) struct Ctr;

/// Counters, big endian, and the data that their ciphertext is added to.
struct Counters<'i, 'a, const PAIRS: usize> {
    chain: Chain<'i, 'a, u128, PAIRS>,
    data: Zeroizing<Batch<PAIRS>>,
}

impl<const PAIRS: usize> Counters<'_, '_, PAIRS> {
    #[inline(always)]
    fn make(&mut self) {
        self.chain.make(
            |_, _| {},
            |_, iv| iv.swap_bytes(),
            |counter| counter.wrapping_add(1),
            u128::swap_bytes,
        );
    }
}

impl<const PAIRS: usize> Masks<PAIRS> for Counters<'_, '_, PAIRS> {
    /// # Safety
    /// As the trait says.
    #[inline(always)]
    unsafe fn next(&mut self, source: *const u8, _: usize) {
        self.chain.advance();
        self.make();
        for (index, register) in self.data.iter_mut().enumerate() {
            // SAFETY: the caller promises a batch; it is only called where there is AVX.
            *register = unsafe { _mm256_loadu_si256(source.add(32 * index).cast()) };
        }
    }

    #[inline(always)]
    fn input(&self) -> Option<&Batch<PAIRS>> {
        Some(self.chain.current())
    }

    #[inline(always)]
    fn before(&self) -> &Batch<PAIRS> {
        &Zeros::BATCH
    }

    #[inline(always)]
    fn after(&self) -> &Batch<PAIRS> {
        &self.data
    }
}

impl Mode for Ctr {
    type Keys<K: Send + Sync + 'static> = K;

    fn cipher_key(len: usize) -> usize {
        len
    }

    fn key_len(of_cipher: usize) -> usize {
        of_cipher
    }

    fn no_keys<C: Cipher<PAIRS>, const PAIRS: usize>() -> C::Keys {
        C::NO_KEYS
    }

    fn expand<C: Cipher<PAIRS>, const PAIRS: usize>(cipher: C, key: &[u8], keys: &mut C::Keys) {
        cipher.expand(key, keys);
    }

    /// # Safety
    /// As the trait says.
    #[inline(always)]
    unsafe fn transform<C: Cipher<PAIRS>, const PAIRS: usize, const ENCRYPT: bool>(
        cipher: C,
        keys: &C::Keys,
        ivs: &mut Ivs<'_>,
        run: &RawRun,
    ) {
        let chain = Chain::new(ivs, run);
        let data = Zeroizing::new(Zeros::BATCH);
        let mut counters = Counters { chain, data };
        counters.make();
        let blocks = run.units * (run.unit / 16);
        // SAFETY: the caller promises the run.
        unsafe { transform::<C, PAIRS, true>(cipher, keys, &mut counters, start(run), blocks) }
    }
}

pub(in super::super) struct Ecb;

impl Mode for Ecb {
    type Keys<K: Send + Sync + 'static> = K;

    fn cipher_key(len: usize) -> usize {
        len
    }

    fn key_len(of_cipher: usize) -> usize {
        of_cipher
    }

    fn no_keys<C: Cipher<PAIRS>, const PAIRS: usize>() -> C::Keys {
        C::NO_KEYS
    }

    fn expand<C: Cipher<PAIRS>, const PAIRS: usize>(cipher: C, key: &[u8], keys: &mut C::Keys) {
        cipher.expand(key, keys);
    }

    /// # Safety
    /// As the trait says.
    #[inline(always)]
    unsafe fn transform<C: Cipher<PAIRS>, const PAIRS: usize, const ENCRYPT: bool>(
        cipher: C,
        keys: &C::Keys,
        _: &mut Ivs<'_>,
        run: &RawRun,
    ) {
        let blocks = run.units * (run.unit / 16);
        // SAFETY: the caller promises the run.
        unsafe {
            transform::<C, PAIRS, ENCRYPT>(cipher, keys, &mut Nothing, start(run), blocks);
        }
    }
}

pub(in super::super) struct Cbc;

/// For each block the ciphertext before it.
struct Preceding<'i, 'a, const PAIRS: usize> {
    ivs: UnitIvs<'i, 'a, PAIRS>,
    /// The last block of the batch before this one.
    last: u128,
    /// Blocks of a data unit, and how many of them the current unit lacks yet.
    unit: usize,
    left: usize,
    blocks: Batch<PAIRS>,
}

impl<const PAIRS: usize> Masks<PAIRS> for Preceding<'_, '_, PAIRS> {
    /// # Safety
    /// As the trait says.
    #[inline(always)]
    unsafe fn next(&mut self, source: *const u8, count: usize) {
        let load = |block: usize| {
            // SAFETY: the caller promises a batch.
            unsafe { source.add(16 * block).cast::<u128>().read_unaligned() }
        };
        // In whole registers, since that is how they will be loaded.
        for (index, register) in self.blocks.iter_mut().enumerate().skip(1) {
            // SAFETY: as above; it is only called where there is AVX.
            *register = unsafe { _mm256_loadu_si256(source.add(32 * index - 16).cast()) };
        }
        let mut first = [self.last, load(0)];
        self.last = load(2 * PAIRS - 1);
        if self.left == 0 {
            first[0] = self.ivs.next(|_, _| {}).unwrap_or_default();
            self.left = self.unit;
        }
        // SAFETY: 256 bits either way.
        self.blocks[0] = unsafe { core::mem::transmute::<[u128; 2], __m256i>(first) };
        let mut at = 0;
        while at + self.left < count {
            at += self.left;
            blocks_of_mut(&mut self.blocks)[at] = self.ivs.next(|_, _| {}).unwrap_or_default();
            self.left = self.unit;
        }
        self.left -= count - at;
    }

    #[inline(always)]
    fn before(&self) -> &Batch<PAIRS> {
        &Zeros::BATCH
    }

    #[inline(always)]
    fn after(&self) -> &Batch<PAIRS> {
        &self.blocks
    }
}

impl Mode for Cbc {
    type Keys<K: Send + Sync + 'static> = K;

    fn cipher_key(len: usize) -> usize {
        len
    }

    fn key_len(of_cipher: usize) -> usize {
        of_cipher
    }

    fn no_keys<C: Cipher<PAIRS>, const PAIRS: usize>() -> C::Keys {
        C::NO_KEYS
    }

    fn expand<C: Cipher<PAIRS>, const PAIRS: usize>(cipher: C, key: &[u8], keys: &mut C::Keys) {
        cipher.expand(key, keys);
    }

    /// # Safety
    /// As the trait says.
    #[inline(always)]
    unsafe fn transform<C: Cipher<PAIRS>, const PAIRS: usize, const ENCRYPT: bool>(
        cipher: C,
        keys: &C::Keys,
        ivs: &mut Ivs<'_>,
        run: &RawRun,
    ) {
        let mut ivs = UnitIvs::new(ivs, run.units);
        if ENCRYPT {
            // SAFETY: the caller promises the run.
            unsafe { encrypt_chains(cipher, keys, &mut ivs, run) };
            return;
        }
        let mut preceding = Preceding {
            ivs,
            last: 0,
            unit: run.unit / 16,
            left: 0,
            blocks: Zeros::BATCH,
        };
        let blocks = run.units * (run.unit / 16);
        // SAFETY: the caller promises the run.
        unsafe { transform::<C, PAIRS, false>(cipher, keys, &mut preceding, start(run), blocks) }
    }
}

/// Encrypts data units in CBC, a batch of them side by side, since each block of a unit waits for the one before.
///
/// # Safety
/// The run can be read and written.
#[inline(always)]
unsafe fn encrypt_chains<C: Cipher<PAIRS>, const PAIRS: usize>(
    cipher: C,
    keys: &C::Keys,
    ivs: &mut UnitIvs<'_, '_, PAIRS>,
    run: &RawRun,
) {
    let mut at = start(run);
    let mut left = run.units;
    let mut chain = Zeroizing::new(Zeros::BATCH);
    while left > 0 {
        let units = left.min(2 * PAIRS);
        for block in &mut blocks_of_mut(&mut chain)[..units] {
            *block = ivs.next(|_, _| {}).unwrap_or_default();
        }
        for place in (0..run.unit).step_by(16) {
            let mut blocks = Zeroizing::new([[0; 2]; PAIRS]);
            for (unit, block) in blocks.as_flattened_mut()[..units].iter_mut().enumerate() {
                // SAFETY: so many units are left.
                *block = unsafe {
                    at.source
                        .add(unit * run.unit + place)
                        .cast::<u128>()
                        .read_unaligned()
                };
            }
            for (chain, block) in blocks_of_mut(&mut chain)
                .iter_mut()
                .zip(blocks.as_flattened())
            {
                *chain ^= *block;
            }
            in_place::<C, PAIRS, true>(cipher, keys, &mut chain, units);
            for (unit, block) in blocks_of(&chain)[..units].iter().enumerate() {
                // SAFETY: as above.
                unsafe {
                    at.destination
                        .add(unit * run.unit + place)
                        .cast::<u128>()
                        .write_unaligned(*block);
                };
            }
        }
        // SAFETY: as above.
        at = unsafe { at.add(units * run.unit) };
        left -= units;
    }
}

/// The blocks of a batch, as bytes in the order of memory.
fn bytes_of_mut<const PAIRS: usize>(batch: &mut Batch<PAIRS>) -> &mut [Block] {
    // SAFETY: as many bytes, of no less alignment; any pattern of bits is a value, and the borrow remains exclusive.
    unsafe { core::slice::from_raw_parts_mut(batch.as_mut_ptr().cast(), 2 * PAIRS) }
}
