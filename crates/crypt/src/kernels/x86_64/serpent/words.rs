//! Words of several blocks side by side, a lane for each block.

use core::arch::x86_64::*;
use core::ops::{BitAnd, BitOr, BitXor, BitXorAssign, Not};

use super::super::cpu::{Avx2, Avx2Avx512};

/// The four words of a block, each with that of some blocks.
pub(super) type State<W> = [W; 4];

/// The same word of each of some blocks.
pub(super) trait Words:
    Copy
    + BitAnd<Output = Self>
    + BitOr<Output = Self>
    + BitXor<Output = Self>
    + BitXorAssign
    + Not<Output = Self>
{
    /// Rotates to the left by `LEFT` bits, which are 32 less `RIGHT`.
    fn rotate<const LEFT: i32, const RIGHT: i32>(self) -> Self;

    fn shift_left<const BITS: i32>(self) -> Self;
}

impl Words for u32 {
    #[inline(always)]
    fn rotate<const LEFT: i32, const RIGHT: i32>(self) -> Self {
        self << LEFT | self >> RIGHT
    }

    #[inline(always)]
    fn shift_left<const BITS: i32>(self) -> Self {
        self << BITS
    }
}

/// Words of eight blocks. A value can only be had where the CPU has AVX2.
#[derive(Clone, Copy)]
pub(super) struct Eight(__m256i);

impl Eight {
    /// `_width` proves that there is AVX2.
    #[inline(always)]
    pub(super) fn new(_width: Avx2, words: __m256i) -> Self {
        Self(words)
    }

    /// The same word for all blocks.
    #[inline(always)]
    pub(super) fn all(_width: Avx2, word: u32) -> Self {
        // SAFETY: the token shows that the CPU has AVX2.
        Self(unsafe { _mm256_set1_epi32(word.cast_signed()) })
    }

    #[inline(always)]
    pub(super) fn register(self) -> __m256i {
        self.0
    }
}

/// Words of sixteen blocks. A value can only be had where the CPU has AVX-512.
#[derive(Clone, Copy)]
pub(super) struct Sixteen(__m512i);

impl Sixteen {
    /// `_width` proves that there is AVX-512.
    #[inline(always)]
    pub(super) fn new(_width: Avx2Avx512, words: __m512i) -> Self {
        Self(words)
    }

    /// The same word for all blocks.
    #[inline(always)]
    pub(super) fn all(_width: Avx2Avx512, word: u32) -> Self {
        // SAFETY: the token shows that the CPU has AVX-512.
        Self(unsafe { _mm512_set1_epi32(word.cast_signed()) })
    }

    #[inline(always)]
    pub(super) fn register(self) -> __m512i {
        self.0
    }
}

/// Each operation is one instruction, or a part of one.
macro_rules! operations {
    ($words:ident: $($operation:ident, $method:ident, $intrinsic:ident;)*) => {
        $(
            impl $operation for $words {
                type Output = Self;

                #[inline(always)]
                fn $method(self, other: Self) -> Self {
                    // SAFETY: there is a value only where the CPU has the instruction.
                    Self(unsafe { $intrinsic(self.0, other.0) })
                }
            }
        )*

        impl BitXorAssign for $words {
            #[inline(always)]
            fn bitxor_assign(&mut self, other: Self) {
                *self = *self ^ other;
            }
        }
    };
}

operations! {
    Eight:
    BitAnd, bitand, _mm256_and_si256;
    BitOr, bitor, _mm256_or_si256;
    BitXor, bitxor, _mm256_xor_si256;
}

// The compiler joins two of these into one instruction, VPTERNLOGD.
operations! {
    Sixteen:
    BitAnd, bitand, _mm512_and_si512;
    BitOr, bitor, _mm512_or_si512;
    BitXor, bitxor, _mm512_xor_si512;
}

/// The compiler makes one instruction of this and the AND around it.
impl Not for Eight {
    type Output = Self;

    #[inline(always)]
    fn not(self) -> Self {
        // SAFETY: as above.
        Self(unsafe { _mm256_xor_si256(self.0, _mm256_set1_epi32(-1)) })
    }
}

impl Not for Sixteen {
    type Output = Self;

    #[inline(always)]
    fn not(self) -> Self {
        // SAFETY: there is a value only where the CPU has AVX-512.
        Self(unsafe { _mm512_xor_si512(self.0, _mm512_set1_epi32(-1)) })
    }
}

impl Words for Sixteen {
    #[inline(always)]
    fn rotate<const LEFT: i32, const RIGHT: i32>(self) -> Self {
        const { assert!(LEFT + RIGHT == 32) };
        // SAFETY: as above.
        Self(unsafe { _mm512_rol_epi32::<LEFT>(self.0) })
    }

    #[inline(always)]
    fn shift_left<const BITS: i32>(self) -> Self {
        // SAFETY: as above. The compiler makes a shift by a constant of it.
        Self(unsafe { _mm512_sllv_epi32(self.0, _mm512_set1_epi32(BITS)) })
    }
}

impl Words for Eight {
    #[inline(always)]
    fn rotate<const LEFT: i32, const RIGHT: i32>(self) -> Self {
        const { assert!(LEFT + RIGHT == 32) };
        // SAFETY: as above.
        let right = unsafe { _mm256_srli_epi32::<RIGHT>(self.0) };
        self.shift_left::<LEFT>() | Self(right)
    }

    #[inline(always)]
    fn shift_left<const BITS: i32>(self) -> Self {
        // SAFETY: as above. An addition has more execution units than a shift.
        Self(unsafe {
            match BITS {
                1 => _mm256_add_epi32(self.0, self.0),
                _ => _mm256_slli_epi32::<BITS>(self.0),
            }
        })
    }
}
