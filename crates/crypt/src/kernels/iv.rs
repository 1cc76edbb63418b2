//! IVs made from sector numbers: 16 bytes each, for XTS the tweak before encryption, and 32 bytes for
//! Adiantum. The names and layouts are dm-crypt's (kernel documentation, admin-guide/device-mapper/dm-crypt).
//!
//! The interface of kernels, [`SectorKernel`], is here too: a kernel takes IVs, and ESSIV and EBOIV make
//! IVs with a kernel.

use super::run::Run;
use crate::sector::{Geometry, IvSector};
use crate::spec::IvMode;

/// One cipher block's worth of bytes.
pub(crate) type Block = [u8; 16];

/// An IV of Adiantum.
pub(crate) type WideIv = [u8; 32];

/// A key, expanded for one kernel. `ivs` gives the IV of each data unit of `run` in turn; kernels
/// of modes without IVs disregard it. All IVs that a key gets for units of one length follow one rule
/// with one step, so equal positions mean equal IVs.
///
/// `encrypt` reads each byte of a source that is not also the destination once, since others may be
/// changing it. `decrypt` may read one more than once.
pub(crate) trait SectorKernel: Send + Sync {
    fn encrypt(&self, ivs: Ivs<'_>, run: Run<'_>);
    fn decrypt(&self, ivs: Ivs<'_>, run: Run<'_>);
}

/// The IVs of consecutive data units, in order and without end.
///
/// `next`, which every call writes, is not beside a field that a kernel loads together with it: such a
/// load cannot be forwarded from the store, stalls until the store has retired, and the work of two
/// calls would not overlap.
#[derive(Clone)]
#[repr(C)]
pub(crate) struct Ivs<'a> {
    next: u64,
    rule: Rule,
    step: u64,
    seal: Option<Seal<'a>>,
}

/// Encryption of IVs, so that they cannot be predicted. It encrypts data units of one block only, and
/// kernels that keep tweaks between calls rely on that.
#[derive(Clone, Copy)]
pub(crate) enum Seal<'a> {
    /// Each IV is encrypted by this kernel, which is the cipher in ECB with a key of its own.
    Essiv(&'a dyn SectorKernel),
    /// Each IV is a block of zeros that this kernel, the data's own, encrypted with the IV that it
    /// replaces.
    Eboiv(&'a dyn SectorKernel),
}

#[derive(Clone, Copy)]
enum Rule {
    /// The same IV for all.
    Constant(Block),
    /// The bits of the number that are set in this mask, little endian.
    Little(u64),
    /// The number, big endian, in the last 8 bytes.
    Plain64be,
    /// The number shifted by this number of bits, plus 1, big endian, in the last 8 bytes.
    Benbi(u32),
    /// The number times this number of bytes, little endian.
    ByteOffset(u64),
}

impl Ivs<'static> {
    /// Makes the IVs of a run that starts at `first`. The numbers wrap after 2⁶⁴ - 1, as dm-crypt's do.
    pub(crate) fn new(mode: IvMode, first: IvSector, geometry: Geometry) -> Self {
        Self {
            rule: match mode {
                IvMode::Null => Rule::Constant([0; 16]),
                IvMode::Plain => Rule::Little(u64::from(u32::MAX)),
                IvMode::Plain64 => Rule::Little(u64::MAX),
                IvMode::Plain64be => Rule::Plain64be,
                IvMode::Benbi => Rule::Benbi(512_u32.ilog2() - 16_u32.ilog2()),
                IvMode::BenbiOfBytes => Rule::Benbi(512_u32.ilog2()),
                IvMode::Eboiv => Rule::ByteOffset(geometry.sector_size.bytes() as u64),
            },
            next: first.0,
            step: geometry.iv_step(),
            seal: None,
        }
    }

    /// The same IV for every data unit.
    pub(crate) fn constant(iv: Block) -> Self {
        Self {
            rule: Rule::Constant(iv),
            next: 0,
            step: 0,
            seal: None,
        }
    }
}

impl<'a> Ivs<'a> {
    /// The IVs of a run that starts at `first`, encrypted if there is a `seal`.
    #[inline]
    pub(crate) fn starting_at<'b>(&self, first: IvSector, seal: Option<Seal<'b>>) -> Ivs<'b> {
        Ivs {
            next: first.0,
            rule: self.rule,
            step: self.step,
            seal,
        }
    }

    /// The same IVs as plain numbers; `None` if they are anything else.
    #[inline]
    pub(crate) fn numbers(&self) -> Option<Numbers> {
        match (&self.rule, &self.seal) {
            (Rule::Little(bits), None) => Some(Numbers {
                bits: *bits,
                next: self.next,
                step: self.step,
            }),
            _ => None,
        }
    }

    /// The next `ivs.len()` IVs.
    #[inline]
    pub(crate) fn fill(&mut self, ivs: &mut [Block]) {
        match self.seal {
            None => self.fill_open(ivs),
            Some(seal) => self.fill_sealed(seal, ivs),
        }
    }

    /// The next IV, in 32 bytes: numbers that are little endian are at its start, and numbers that are big endian at its
    /// end. No such IV is sealed.
    #[inline]
    pub(crate) fn next_wide(&mut self) -> WideIv {
        let mut iv = [[0; 16]; 2];
        let place = match self.rule {
            Rule::Plain64be | Rule::Benbi(_) => 1,
            Rule::Constant(_) | Rule::Little(_) | Rule::ByteOffset(_) => 0,
        };
        self.fill_open(std::slice::from_mut(&mut iv[place]));
        let mut wide = [0; 32];
        wide.copy_from_slice(iv.as_flattened());
        wide
    }

    #[inline]
    fn fill_open(&mut self, ivs: &mut [Block]) {
        // A loop for each rule, as they would not be made of one.
        match self.rule {
            Rule::Constant(iv) => self.fill_by(ivs, |_| iv),
            Rule::Little(bits) => self.fill_by(ivs, |number| little(number & bits)),
            Rule::Plain64be => self.fill_by(ivs, big),
            Rule::Benbi(shift) => {
                self.fill_by(ivs, |number| big((number << shift).wrapping_add(1)));
            }
            Rule::ByteOffset(unit) => {
                self.fill_by(ivs, |number| little(number.wrapping_mul(unit)));
            }
        }
    }

    #[inline(always)]
    fn fill_by(&mut self, ivs: &mut [Block], iv: impl Fn(u64) -> Block) {
        for place in ivs {
            *place = iv(self.next);
            self.next = self.next.wrapping_add(self.step);
        }
    }

    #[inline(never)]
    fn fill_sealed(&mut self, seal: Seal<'_>, ivs: &mut [Block]) {
        match seal {
            Seal::Essiv(cipher) => {
                self.fill_open(ivs);
                let run = Run::in_place(16, ivs.as_flattened_mut());
                cipher.encrypt(Ivs::constant([0; 16]), run);
            }
            Seal::Eboiv(cipher) => {
                let open = Self {
                    seal: None,
                    ..self.clone()
                };
                let steps = self.step.wrapping_mul(ivs.len() as u64);
                self.next = self.next.wrapping_add(steps);
                ivs.fill([0; 16]);
                cipher.encrypt(open, Run::in_place(16, ivs.as_flattened_mut()));
            }
        }
    }
}

/// The IVs of `plain` and `plain64`, which volumes nearly always have: numbers of at most 64 bits, little
/// endian. They are made without a call, around which a kernel would have to spill its registers, and
/// without memory: a load that is wider than the store before it cannot be forwarded, and stalls until
/// the store has retired.
#[derive(Clone, Copy)]
pub(crate) struct Numbers {
    bits: u64,
    next: u64,
    step: u64,
}

impl Numbers {
    /// Number that tells the next IV from the others of the same cipher.
    #[cfg(any(test, target_arch = "x86_64"))]
    #[inline]
    pub(crate) fn position(self) -> u64 {
        self.next
    }

    /// Leaves out `count` IVs, if those that follow are at `position`; tells whether they were.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    pub(crate) fn skip_to(&mut self, position: u64, count: usize) -> bool {
        let found = self.after(count) == position;
        if found {
            self.next = position;
        }
        found
    }

    /// The next `N` IVs: the low half of each, as the high one is 0.
    #[inline]
    pub(crate) fn next<const N: usize>(&mut self) -> [u64; N] {
        let numbers = core::array::from_fn(|index| self.after(index) & self.bits);
        self.next = self.after(N);
        numbers
    }

    /// The number that is `count` further on.
    #[inline]
    fn after(self, count: usize) -> u64 {
        self.next.wrapping_add(self.step.wrapping_mul(count as u64))
    }
}

#[inline]
fn little(number: u64) -> Block {
    u128::from(number).to_le_bytes()
}

#[inline]
fn big(number: u64) -> Block {
    u128::from(number).to_be_bytes()
}

/// The IVs of a run, `N` at a time and made ahead.
///
/// A load that is wider than a store just before it cannot be forwarded, and stalls until the store has
/// retired. Kernels load several IVs at once, and so does the kernel that encrypts IVs for ESSIV. So the
/// batch after the one that is returned is always made already, from plain IVs that were written one
/// batch earlier still.
pub(crate) struct Batches<'i, 'a, const N: usize> {
    ivs: &'i mut Ivs<'a>,
    /// Number of IVs that are in no batch yet.
    left: usize,
    begun: bool,
    /// The next ones that ESSIV is to encrypt.
    open: [Block; N],
    /// The batch that was given out last, and the one after it.
    batches: [[Block; N]; 2],
    /// Index of the batch that was given out last.
    last: usize,
}

impl<'i, 'a, const N: usize> Batches<'i, 'a, N> {
    #[inline]
    pub(crate) fn new(ivs: &'i mut Ivs<'a>, units: usize) -> Self {
        Self {
            ivs,
            left: units,
            begun: false,
            open: [[0; 16]; N],
            batches: [[[0; 16]; N]; 2],
            last: 1,
        }
    }

    /// The next batch. The last one is filled up with the IV of the last data unit.
    #[inline]
    pub(crate) fn next(&mut self) -> &[Block; N] {
        self.last ^= 1;
        if self.left > 0 {
            self.go_on();
        }
        self.last()
    }

    /// The batch that [`next`](Self::next) has returned last.
    #[inline]
    fn last(&self) -> &[Block; N] {
        &self.batches[self.last % 2]
    }

    /// Makes the batch after the last one, in a function outside the kernel's loop.
    #[inline(never)]
    fn go_on(&mut self) {
        if !self.begun {
            self.begun = true;
            self.open();
            self.make(self.last);
        }
        if self.left > 0 {
            self.make(self.last ^ 1);
        }
    }

    fn make(&mut self, number: usize) {
        let count = self.left.min(N);
        let (batch, missing) = self.batches[number % 2].split_at_mut(count);
        self.left -= count;
        if let Some(Seal::Essiv(cipher)) = self.ivs.seal {
            let open = self.open[..count].as_flattened();
            let run = Run::copy(16, open, batch.as_flattened_mut());
            cipher.encrypt(Ivs::constant([0; 16]), run);
        } else {
            self.ivs.fill(batch);
        }
        if let Some(last) = batch.last() {
            missing.fill(*last);
        }
        self.open();
    }

    fn open(&mut self) {
        if let Some(Seal::Essiv(_)) = self.ivs.seal {
            let count = self.left.min(N);
            self.ivs.fill_open(&mut self.open[..count]);
        }
    }
}

/// The IVs of a run one by one, as little-endian numbers, which fit into registers.
#[expect(
    clippy::large_enum_variant,
    reason = "there is one at a time, on the stack"
)]
pub(crate) enum OneByOne<'i, 'a> {
    Numbers(Numbers),
    Others {
        batches: Batches<'i, 'a, BATCH>,
        /// Number of IVs of the last batch that were given out.
        taken: usize,
    },
}

const BATCH: usize = 8;

impl<'i, 'a> OneByOne<'i, 'a> {
    #[inline]
    pub(crate) fn new(ivs: &'i mut Ivs<'a>, units: usize) -> Self {
        match ivs.numbers() {
            Some(numbers) => Self::Numbers(numbers),
            None => Self::Others {
                batches: Batches::new(ivs, units),
                taken: BATCH,
            },
        }
    }

    /// The IV of the next data unit; after the last one, an arbitrary value.
    #[inline]
    pub(crate) fn next(&mut self) -> u128 {
        match self {
            Self::Numbers(numbers) => {
                let [low] = numbers.next();
                u128::from(low)
            }
            Self::Others { batches, taken } => {
                if *taken == BATCH {
                    batches.next();
                    *taken = 0;
                }
                // The remainder is the number itself, and spares the check.
                let iv = batches.last()[*taken % BATCH];
                *taken += 1;
                u128::from_le_bytes(iv)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sector::SectorSize;

    fn three(mode: IvMode, first: u64, bytes: u32) -> [Block; 3] {
        let geometry = Geometry::new(SectorSize::new(bytes).unwrap());
        let mut ivs = Ivs::new(mode, IvSector(first), geometry);
        let mut out = [[0xff; 16]; 3];
        let (first, rest) = out.split_at_mut(1);
        ivs.fill(first);
        ivs.fill(rest);
        out
    }

    #[test]
    fn null_is_zero() {
        assert_eq!(three(IvMode::Null, 77, 512), [[0; 16]; 3]);
    }

    #[test]
    fn plain_wraps_at_32_bits() {
        let ivs = three(IvMode::Plain, 0x7_ffff_fff8, 4096);
        assert_eq!(ivs[0][..5], [0xf8, 0xff, 0xff, 0xff, 0]);
        assert_eq!(ivs[1], [0; 16]);
        assert_eq!(ivs[2][..5], [8, 0, 0, 0, 0]);
    }

    #[test]
    fn plain64_is_little_endian_and_wraps_at_64_bits() {
        let ivs = three(IvMode::Plain64, u64::MAX, 512);
        assert_eq!(ivs[0][..8], [0xff; 8]);
        assert_eq!(ivs[0][8..], [0; 8]);
        assert_eq!(ivs[1], [0; 16]);
        assert_eq!(ivs[2][..2], [1, 0]);
        assert_eq!(three(IvMode::Plain64, 0x0102, 512)[0][..3], [2, 1, 0]);
    }

    #[test]
    fn plain64be_is_big_endian_in_the_last_half() {
        let ivs = three(IvMode::Plain64be, 0x0102_0304_0506_0708, 2048);
        assert_eq!(ivs[0], [0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(ivs[1][15], 12);
        assert_eq!(ivs[2][15], 16);
    }

    #[test]
    fn benbi_counts_blocks_from_one_and_wraps() {
        let ivs = three(IvMode::Benbi, 1, 512);
        assert_eq!((&ivs[0][..15], ivs[0][15]), (&[0; 15][..], 33));
        assert_eq!(ivs[1][15], 65);
        let ivs = three(IvMode::Benbi, 1 << 59, 512);
        assert_eq!(ivs[0][7..], [0, 0, 0, 0, 0, 0, 0, 0, 1]);
        let ivs = three(IvMode::BenbiOfBytes, 1, 512);
        assert_eq!(ivs[0][14..], [2, 1]);
    }

    #[test]
    fn wide_ivs_have_their_number_at_the_end_where_dm_crypt_has_it() {
        for (mode, place, byte) in [
            (IvMode::Plain, 0, 3),
            (IvMode::Plain64, 0, 3),
            (IvMode::Plain64be, 31, 3),
            (IvMode::Benbi, 31, 97),
        ] {
            let geometry = Geometry::new(SectorSize::S512);
            let mut ivs = Ivs::new(mode, IvSector(2), geometry);
            ivs.next_wide();
            let mut wanted = [0; 32];
            wanted[place] = byte;
            assert_eq!(ivs.next_wide(), wanted);
        }
        let geometry = Geometry::new(SectorSize::S512);
        assert_eq!(
            Ivs::new(IvMode::Null, IvSector(2), geometry).next_wide(),
            [0; 32]
        );
    }

    #[test]
    fn eboiv_counts_bytes_before_it_is_encrypted() {
        let ivs = three(IvMode::Eboiv, 3, 512);
        assert_eq!(ivs[0][..3], [0, 6, 0]);
        assert_eq!(ivs[1][..3], [0, 8, 0]);
        let ivs = three(IvMode::Eboiv, 8, 4096);
        assert_eq!(ivs[0][..3], [0, 0x80, 0]);
        assert_eq!(three(IvMode::Eboiv, 1 << 55, 512)[0], [0; 16]);
    }

    #[test]
    fn numbers_are_the_same() {
        for mode in [IvMode::Plain, IvMode::Plain64] {
            let geometry = Geometry::new(SectorSize::S4096);
            let mut ivs = Ivs::new(mode, IvSector(0xffff_fff0), geometry);
            let mut numbers = ivs.numbers().unwrap();
            let mut out = [[0; 16]; 3];
            ivs.fill(&mut out);
            let next: [u64; 3] = numbers.next();
            assert_eq!(out, next.map(|low| u128::from(low).to_le_bytes()));
            assert_eq!(numbers.position(), ivs.next);
        }
        let geometry = Geometry::new(SectorSize::S512);
        for mode in [
            IvMode::Null,
            IvMode::Plain64be,
            IvMode::Benbi,
            IvMode::Eboiv,
        ] {
            assert!(Ivs::new(mode, IvSector(0), geometry).numbers().is_none());
        }
    }

    #[test]
    fn large_sectors_step_by_one() {
        let geometry = Geometry {
            sector_size: SectorSize::S4096,
            iv_large_sectors: true,
        };
        let mut ivs = Ivs::new(IvMode::Plain64, IvSector(9), geometry);
        let mut out = [[0; 16]; 2];
        ivs.fill(&mut out);
        assert_eq!((out[0][0], out[1][0]), (9, 10));
    }

    #[test]
    fn one_by_one_they_are_the_same() {
        let geometry = Geometry::new(SectorSize::S512);
        for mode in [IvMode::Plain64, IvMode::Plain64be] {
            for units in [1, 7, 8, 9, 16, 17, 25] {
                let ivs = || Ivs::new(mode, IvSector(3), geometry);
                let mut together = vec![[0; 16]; units];
                ivs().fill(&mut together);
                let mut ivs = ivs();
                let mut single = OneByOne::new(&mut ivs, units);
                let mut next = || single.next().to_le_bytes();
                assert!(together.iter().all(|iv| *iv == next()));
            }
        }
    }

    #[test]
    fn a_batch_that_is_not_full_repeats_its_last_iv() {
        let geometry = Geometry::new(SectorSize::S512);
        let mut ivs = Ivs::new(IvMode::Plain64, IvSector(3), geometry);
        let mut batches = Batches::<4>::new(&mut ivs, 6);
        assert_eq!(batches.next().map(|iv| iv[0]), [3, 4, 5, 6]);
        assert_eq!(batches.next().map(|iv| iv[0]), [7, 8, 8, 8]);
    }
}
