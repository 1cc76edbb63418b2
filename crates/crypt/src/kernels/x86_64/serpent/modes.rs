//! Modes of operation with Serpent.

use core::arch::x86_64::*;
use core::marker::PhantomData;

use scrim_sys::memory::Locked;
use zeroize::{Zeroize, Zeroizing};

use super::batch::{
    BLOCKS, Batch, Masks, Nothing, Width, ZEROS, blocks_of, blocks_of_mut, in_place, transform,
};
use super::rounds::{Schedule, Schedules};
use crate::kernels::cursor::{Cursor, RawRun};
use crate::kernels::iv::{Ivs, SectorKernel};
use crate::kernels::run::Run;

/// A mode of operation.
pub(super) trait Mode: 'static {
    /// Number of Serpent keys, all of one length, that a key of the mode consists of.
    const KEYS: usize;

    /// Transforms a run of data units. Names no CPU feature, and is inlined where AVX2 is enabled.
    ///
    /// # Safety
    /// The run can be read and written.
    unsafe fn transform<W: Width, const ENCRYPT: bool>(
        width: W,
        keys: &[Schedules; 2],
        ivs: &mut Ivs<'_>,
        run: &RawRun,
    );
}

/// A kernel with `key` expanded; `None` for a key of another cipher.
pub(super) fn set_up<W: Width, M: Mode>(key: &[u8]) -> Option<Box<dyn SectorKernel>> {
    let width = W::detect()?;
    if !key.len().is_multiple_of(M::KEYS) || ![16, 24, 32].contains(&(key.len() / M::KEYS)) {
        return None;
    }
    let mut keys = Locked::new(|| [Schedules::EMPTY; 2]);
    for (schedules, key) in keys.iter_mut().zip(key.chunks(key.len() / M::KEYS)) {
        schedules.expand(key);
    }
    let mode = PhantomData::<fn() -> M>;
    Some(Box::new(Keyed { width, keys, mode }))
}

struct Keyed<W, M> {
    width: W,
    /// The key of the data, and of XTS that of the tweaks.
    keys: Locked<[Schedules; 2]>,
    mode: PhantomData<fn() -> M>,
}

impl<W: Width, M: Mode> SectorKernel for Keyed<W, M> {
    fn encrypt(&self, mut ivs: Ivs<'_>, run: Run<'_>) {
        self.transform::<true>(&mut ivs, run);
    }

    fn decrypt(&self, mut ivs: Ivs<'_>, run: Run<'_>) {
        self.transform::<false>(&mut ivs, run);
    }
}

impl<W: Width, M: Mode> Keyed<W, M> {
    fn transform<const ENCRYPT: bool>(&self, ivs: &mut Ivs<'_>, run: Run<'_>) {
        /// # Safety
        /// As for [`Mode::transform`].
        #[target_feature(enable = "avx2")]
        unsafe fn transform<W: Width, M: Mode, const ENCRYPT: bool>(
            width: W,
            keys: &[Schedules; 2],
            ivs: &mut Ivs<'_>,
            run: &RawRun,
        ) {
            // SAFETY: the caller promises the run.
            unsafe { M::transform::<W, ENCRYPT>(width, keys, ivs, run) }
        }
        let run = RawRun::from(run);
        // SAFETY: the token shows that the CPU has AVX2, as every width has. The pointers are of memory that `run` was
        // made of, and that is borrowed for longer than this call takes.
        unsafe { transform::<W, M, ENCRYPT>(self.width, &self.keys, ivs, &run) }
    }
}

fn start(run: &RawRun) -> Cursor {
    Cursor {
        source: run.source,
        destination: run.destination,
    }
}

/// IVs of data units, one by one, made for a batch of units at a time.
struct UnitIvs<'i, 'a> {
    ivs: &'i mut Ivs<'a>,
    batch: Batch,
    /// Index of the next one, and number of those in the batch.
    next: usize,
    made: usize,
    /// Number of data units whose IVs are not made yet.
    unmade: usize,
}

impl<'i, 'a> UnitIvs<'i, 'a> {
    fn new(ivs: &'i mut Ivs<'a>, units: usize) -> Self {
        Self {
            ivs,
            batch: ZEROS,
            next: 0,
            made: 0,
            unmade: units,
        }
    }

    /// The next IV, as `prepare` has changed some of them; `None` after the last.
    #[inline(always)]
    fn next(&mut self, prepare: impl Fn(&mut Batch, usize)) -> Option<u128> {
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
        self.made = self.unmade.min(BLOCKS);
        self.unmade -= self.made;
        self.next = 0;
        let mut ivs = [[0; 16]; BLOCKS];
        self.ivs.fill(&mut ivs[..self.made]);
        *blocks_of_mut(&mut self.batch) = ivs.map(u128::from_le_bytes);
        (self.made > 0).then_some(())
    }
}

impl Drop for UnitIvs<'_, '_> {
    fn drop(&mut self) {
        self.batch.zeroize();
    }
}

/// Blocks that each follow from the one before in a data unit, as tweaks and counters do, made a batch ahead: they are
/// written in halves, and a load of whole registers would wait for that.
struct Chain<'i, 'a> {
    ivs: UnitIvs<'i, 'a>,
    block: u128,
    /// Blocks of a data unit, and how many of them the current unit lacks yet.
    unit: usize,
    left: usize,
    batches: [Batch; 2],
    /// Index of the current batch.
    now: usize,
}

impl<'i, 'a> Chain<'i, 'a> {
    fn new(ivs: &'i mut Ivs<'a>, run: &RawRun) -> Self {
        Self {
            ivs: UnitIvs::new(ivs, run.units),
            block: 0,
            unit: run.unit / 16,
            left: 0,
            batches: [ZEROS; 2],
            now: 0,
        }
    }

    fn current(&self) -> &Batch {
        &self.batches[self.now]
    }

    /// Makes the batch after the current one. `prepare` changes some IVs, `first` makes the first block of each unit,
    /// `after` each that follows, and `written` what is written of a block.
    #[inline(always)]
    fn make(
        &mut self,
        prepare: impl Fn(&mut Batch, usize),
        first: impl Fn(u128) -> u128,
        after: impl Fn(u128) -> u128,
        written: impl Fn(u128) -> u128,
    ) {
        let mut places = &mut blocks_of_mut(&mut self.batches[self.now ^ 1])[..];
        while !places.is_empty() {
            if self.left == 0 {
                let Some(iv) = self.ivs.next(&prepare) else {
                    return;
                };
                self.block = first(iv);
                self.left = self.unit;
            }
            let here = self.left.min(places.len());
            let (now, later) = places.split_at_mut(here);
            // In registers: each waits for the one before.
            let mut block = self.block;
            for place in now {
                *place = written(block);
                block = after(block);
            }
            self.block = block;
            self.left -= here;
            places = later;
        }
    }
}

impl Drop for Chain<'_, '_> {
    fn drop(&mut self) {
        self.batches.zeroize();
        self.block.zeroize();
    }
}

pub(super) struct Xts;

/// Tweaks, each the one before times α (IEEE Std 1619, 5.2).
struct Tweaks<'k, 'i, 'a, W> {
    width: W,
    key: &'k Schedule,
    chain: Chain<'i, 'a>,
}

impl<W: Width> Tweaks<'_, '_, '_, W> {
    #[inline(always)]
    fn make(&mut self) {
        let (width, key) = (self.width, self.key);
        let times_alpha =
            |tweak: u128| tweak << 1 ^ (tweak.cast_signed() >> 127).cast_unsigned() & 0x87;
        self.chain.make(
            |ivs, count| in_place::<W, true>(width, key, ivs, count),
            |iv| iv,
            times_alpha,
            |tweak| tweak,
        );
    }
}

impl<W: Width> Masks for Tweaks<'_, '_, '_, W> {
    /// # Safety
    /// As the trait says.
    #[inline(always)]
    unsafe fn next(&mut self, _: *const u8, _: usize) {
        self.chain.now ^= 1;
        self.make();
    }

    #[inline(always)]
    fn before(&self) -> &Batch {
        self.chain.current()
    }

    #[inline(always)]
    fn after(&self) -> &Batch {
        self.chain.current()
    }
}

impl Mode for Xts {
    const KEYS: usize = 2;

    /// # Safety
    /// As the trait says.
    #[inline(always)]
    unsafe fn transform<W: Width, const ENCRYPT: bool>(
        width: W,
        [data, tweak]: &[Schedules; 2],
        ivs: &mut Ivs<'_>,
        run: &RawRun,
    ) {
        let chain = Chain::new(ivs, run);
        let key = tweak.of::<true>();
        let mut tweaks = Tweaks { width, key, chain };
        tweaks.make();
        let blocks = run.units * (run.unit / 16);
        // SAFETY: the caller promises the run.
        unsafe {
            transform::<W, ENCRYPT>(width, data.of::<ENCRYPT>(), &mut tweaks, start(run), blocks);
        }
    }
}

pub(super) struct Ctr;

/// Counters, big endian, and the data that their ciphertext is added to.
struct Counters<'i, 'a> {
    chain: Chain<'i, 'a>,
    data: Zeroizing<Batch>,
}

impl Counters<'_, '_> {
    #[inline(always)]
    fn make(&mut self) {
        self.chain.make(
            |_, _| {},
            u128::swap_bytes,
            |counter| counter.wrapping_add(1),
            u128::swap_bytes,
        );
    }
}

impl Masks for Counters<'_, '_> {
    /// # Safety
    /// As the trait says.
    #[inline(always)]
    unsafe fn next(&mut self, source: *const u8, _: usize) {
        self.chain.now ^= 1;
        self.make();
        for (index, register) in self.data.iter_mut().enumerate() {
            // SAFETY: the caller promises a batch; it is only called where there is AVX2.
            *register = unsafe { _mm256_loadu_si256(source.add(32 * index).cast()) };
        }
    }

    #[inline(always)]
    fn input(&self) -> Option<&Batch> {
        Some(self.chain.current())
    }

    #[inline(always)]
    fn before(&self) -> &Batch {
        &ZEROS
    }

    #[inline(always)]
    fn after(&self) -> &Batch {
        &self.data
    }
}

impl Mode for Ctr {
    const KEYS: usize = 1;

    /// # Safety
    /// As the trait says.
    #[inline(always)]
    unsafe fn transform<W: Width, const ENCRYPT: bool>(
        width: W,
        [key, _]: &[Schedules; 2],
        ivs: &mut Ivs<'_>,
        run: &RawRun,
    ) {
        let chain = Chain::new(ivs, run);
        let data = Zeroizing::new(ZEROS);
        let mut counters = Counters { chain, data };
        counters.make();
        let blocks = run.units * (run.unit / 16);
        // SAFETY: the caller promises the run.
        unsafe { transform::<W, true>(width, key.of::<true>(), &mut counters, start(run), blocks) }
    }
}

pub(super) struct Ecb;

impl Mode for Ecb {
    const KEYS: usize = 1;

    /// # Safety
    /// As the trait says.
    #[inline(always)]
    unsafe fn transform<W: Width, const ENCRYPT: bool>(
        width: W,
        [key, _]: &[Schedules; 2],
        _: &mut Ivs<'_>,
        run: &RawRun,
    ) {
        let blocks = run.units * (run.unit / 16);
        // SAFETY: the caller promises the run.
        unsafe {
            transform::<W, ENCRYPT>(width, key.of::<ENCRYPT>(), &mut Nothing, start(run), blocks);
        }
    }
}

pub(super) struct Cbc;

/// For each block the ciphertext before it.
struct Preceding<'i, 'a> {
    ivs: UnitIvs<'i, 'a>,
    /// The last block of the batch before this one.
    last: u128,
    /// Blocks of a data unit, and how many of them the current unit lacks yet.
    unit: usize,
    left: usize,
    blocks: Batch,
}

impl Masks for Preceding<'_, '_> {
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
            // SAFETY: as above; it is only called where there is AVX2.
            *register = unsafe { _mm256_loadu_si256(source.add(32 * index - 16).cast()) };
        }
        let mut first = [self.last, load(0)];
        self.last = load(BLOCKS - 1);
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
    fn before(&self) -> &Batch {
        &ZEROS
    }

    #[inline(always)]
    fn after(&self) -> &Batch {
        &self.blocks
    }
}

impl Mode for Cbc {
    const KEYS: usize = 1;

    /// # Safety
    /// As the trait says.
    #[inline(always)]
    unsafe fn transform<W: Width, const ENCRYPT: bool>(
        width: W,
        [key, _]: &[Schedules; 2],
        ivs: &mut Ivs<'_>,
        run: &RawRun,
    ) {
        let keys = key.of::<ENCRYPT>();
        let mut ivs = UnitIvs::new(ivs, run.units);
        if ENCRYPT {
            // SAFETY: the caller promises the run.
            unsafe { encrypt_chains(width, keys, &mut ivs, run) };
            return;
        }
        let mut preceding = Preceding {
            ivs,
            last: 0,
            unit: run.unit / 16,
            left: 0,
            blocks: ZEROS,
        };
        let blocks = run.units * (run.unit / 16);
        // SAFETY: the caller promises the run.
        unsafe { transform::<W, false>(width, keys, &mut preceding, start(run), blocks) }
    }
}

/// Encrypts data units in CBC, sixteen side by side, since each block of a unit waits for the one before.
///
/// # Safety
/// The run can be read and written.
#[inline(always)]
unsafe fn encrypt_chains<W: Width>(
    width: W,
    keys: &Schedule,
    ivs: &mut UnitIvs<'_, '_>,
    run: &RawRun,
) {
    let mut at = start(run);
    let mut left = run.units;
    let mut chain = Zeroizing::new(ZEROS);
    while left > 0 {
        let units = left.min(BLOCKS);
        for block in &mut blocks_of_mut(&mut chain)[..units] {
            *block = ivs.next(|_, _| {}).unwrap_or_default();
        }
        for place in (0..run.unit).step_by(16) {
            let mut blocks = Zeroizing::new([0; BLOCKS]);
            for (unit, block) in blocks[..units].iter_mut().enumerate() {
                // SAFETY: so many units are left.
                *block = unsafe {
                    at.source
                        .add(unit * run.unit + place)
                        .cast::<u128>()
                        .read_unaligned()
                };
            }
            for (chain, block) in blocks_of_mut(&mut chain).iter_mut().zip(*blocks) {
                *chain ^= block;
            }
            in_place::<W, true>(width, keys, &mut chain, units);
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
