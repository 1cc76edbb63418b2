//! Camellia as a cipher on batches of blocks.

use super::super::batch::{Batch, Cipher};
use super::super::cpu::{AesAvx, Gfni2, Gfni512, Proof, Vaes2};
use super::keys::{Schedule, Schedules};
use super::rounds;
use super::width::{AesOne, AesTwo, GfniFour, GfniOne, GfniTwo, Width};
use crate::kernels::cursor::Cursor;

/// Blocks in registers of 128 bits.
const NARROW: usize = 16;

/// Camellia on CPUs of a kind.
#[derive(Clone, Copy)]
pub(super) struct Camellia<P>(P);

impl<P: Proof> Proof for Camellia<P> {
    const FEATURES: &[&str] = P::FEATURES;

    fn detect() -> Option<Self> {
        P::detect().map(Self)
    }
}

/// CPUs of a kind: their widest registers, and those of 128 bits, for a few blocks.
pub(super) trait Cpu: Proof {
    /// Number of blocks in the widest registers.
    const BLOCKS: usize;

    /// Transforms as many blocks as registers hold, with those at `masks` added before the cipher and after it.
    ///
    /// # Safety
    /// They can be read and written `at`, and as many read at both of `masks`. They are 16 blocks, or with `WIDE` those
    /// of the widest registers.
    unsafe fn transform<const WIDE: bool>(self, keys: &Schedule, at: Cursor, masks: [*const u8; 2]);

    /// The function F without its subkey.
    fn f(self, number: u64) -> u64;
}

// SAFETY: every CPU of the table below has AVX; the numbers of blocks are asserted.
unsafe impl<const PAIRS: usize, P: Cpu> Cipher<PAIRS> for Camellia<P> {
    type Keys = Schedules;
    const NO_KEYS: Schedules = Schedules::EMPTY;
    const FEW: usize = if 2 * PAIRS > NARROW { NARROW } else { 0 };

    fn expand(self, key: &[u8], keys: &mut Schedules) {
        keys.expand(key, |number| self.0.f(number));
    }

    /// # Safety
    /// As the trait says.
    #[inline(always)]
    unsafe fn all_rounds<const ENCRYPT: bool>(
        self,
        keys: &Schedules,
        at: Cursor,
        before: &Batch<PAIRS>,
        after: &Batch<PAIRS>,
    ) {
        const { assert!(2 * PAIRS == P::BLOCKS) };
        let masks = [before, after].map(|batch| batch.as_ptr().cast());
        // SAFETY: the caller promises the blocks, and a batch of masks has as many.
        unsafe { self.0.transform::<true>(keys.of::<ENCRYPT>(), at, masks) }
    }

    #[inline(always)]
    fn few<const ENCRYPT: bool>(
        self,
        keys: &Schedules,
        input: Option<&Batch<PAIRS>>,
        masks: [&Batch<PAIRS>; 2],
        blocks: &mut Batch<PAIRS>,
        _: usize,
    ) {
        const { assert!(2 * PAIRS >= NARROW) };
        let destination = blocks.as_mut_ptr().cast::<u8>();
        let source = input.map_or(destination.cast_const(), |input| input.as_ptr().cast());
        let at = Cursor {
            source,
            destination,
        };
        let masks = masks.map(|batch| batch.as_ptr().cast());
        // SAFETY: batches have 16 blocks, or more.
        unsafe {
            self.0.transform::<false>(keys.of::<ENCRYPT>(), at, masks);
        }
    }
}

/// A row for each kind of CPU: its token, its widest registers and those of 128 bits, and the features that both need.
macro_rules! cpus {
    ($($token:ident: $wide:ident, $wide_features:literal; $narrow:ident, $narrow_features:literal;)*) => {$(
        impl Cpu for $token {
            const BLOCKS: usize = NARROW * <$wide as Width>::LANES;

            /// # Safety
            /// As the trait says.
            #[inline(always)]
            unsafe fn transform<const WIDE: bool>(
                self,
                keys: &Schedule,
                at: Cursor,
                masks: [*const u8; 2],
            ) {
                /// # Safety
                /// As for [`Cpu::transform`], and the CPU has the features.
                #[inline(never)]
                #[target_feature(enable = $wide_features)]
                unsafe fn wide(width: $wide, keys: &Schedule, at: Cursor, masks: [*const u8; 2]) {
                    // SAFETY: the caller promises the blocks.
                    unsafe { rounds::transform(width, keys, at, masks) }
                }
                /// # Safety
                /// As for [`Cpu::transform`], and the CPU has the features.
                #[inline(never)]
                #[target_feature(enable = $narrow_features)]
                unsafe fn narrow(width: $narrow, keys: &Schedule, at: Cursor, masks: [*const u8; 2]) {
                    // SAFETY: the caller promises the blocks.
                    unsafe { rounds::transform(width, keys, at, masks) }
                }
                // SAFETY: the token shows that the CPU has the features; the caller promises the blocks.
                unsafe {
                    if WIDE {
                        wide(self.into(), keys, at, masks);
                    } else {
                        narrow(self.into(), keys, at, masks);
                    }
                }
            }

            fn f(self, number: u64) -> u64 {
                #[inline(never)]
                #[target_feature(enable = $narrow_features)]
                fn f(width: $narrow, number: u64) -> u64 {
                    rounds::f(width, number)
                }
                // SAFETY: the token shows that the CPU has the features.
                unsafe { f(self.into(), number) }
            }
        }
    )*};
}

cpus! {
    Gfni512: GfniFour, "gfni,avx512f,avx512bw"; GfniOne, "gfni,avx2";
    Gfni2: GfniTwo, "gfni,avx2"; GfniOne, "gfni,avx2";
    Vaes2: AesTwo, "vaes,avx2"; AesOne, "aes,avx2";
    AesAvx: AesOne, "aes,avx"; AesOne, "aes,avx";
}
