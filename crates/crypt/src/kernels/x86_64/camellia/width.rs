//! Registers of bytes of each width, and the S-boxes on them.

use core::arch::x86_64::*;

use super::super::cpu::{AesAvx, Gfni2, Gfni512, Vaes2};
use super::boxes::{
    AFTER_CONSTANTS, AROUND_AES, AROUND_AES_INVERSE, BEFORE_CONSTANT, MAPS, Nibbles,
};

/// Registers that hold one byte of each of 16 blocks, or of a multiple of that.
///
/// # Safety
/// A value can only be had where the CPU has all that the methods use.
pub(super) unsafe trait Width: Copy + Send + Sync + 'static {
    type Register: Copy;
    /// Number of 16 bytes in a register.
    const LANES: usize;
    /// True if the sum of three registers takes one instruction.
    const SUMS_OF_THREE: bool;

    /// Reads a register.
    ///
    /// # Safety
    /// It can be read at `from`.
    unsafe fn load(self, from: *const u8) -> Self::Register;

    /// Writes a register.
    ///
    /// # Safety
    /// It can be written at `to`.
    unsafe fn store(self, to: *mut u8, register: Self::Register);

    /// Repeats a word as often as a register has room.
    fn repeated(self, word: u32) -> Self::Register;

    fn first_byte(self, register: Self::Register) -> u8;

    fn xor(self, a: Self::Register, b: Self::Register) -> Self::Register;

    fn and(self, a: Self::Register, b: Self::Register) -> Self::Register;

    fn or(self, a: Self::Register, b: Self::Register) -> Self::Register;

    /// Bytes of `a` shifted to the left by a bit, with the first bit of those of `b` at their end.
    fn shifted(self, a: Self::Register, b: Self::Register) -> Self::Register;

    /// The first eight bytes of each lane of both, by turns.
    fn low(self, a: Self::Register, b: Self::Register) -> Self::Register;

    /// The last eight bytes of each lane of both, by turns.
    fn high(self, a: Self::Register, b: Self::Register) -> Self::Register;

    /// Exchanges the bytes of each lane as [`substitute`](Self::substitute) does when it is `FIRST`.
    fn moved(self, a: Self::Register) -> Self::Register;

    /// Moves bytes back after [`moved`](Self::moved).
    fn moved_back(self, a: Self::Register) -> Self::Register;

    /// S-box `BOX`, counted from 0. Bytes are [`moved`](Self::moved) too when it is `FIRST`, otherwise moved back.
    fn substitute<const BOX: usize, const FIRST: bool>(self, a: Self::Register) -> Self::Register;
}

/// Implements [`Width`], but for the S-boxes, by intrinsics.
macro_rules! by_intrinsics {
    (
        $register:ty, $lanes:literal, $sums_of_three:literal;
        $load:ident $store:ident $set:ident $xor:ident $and:ident $or:ident
        $add:ident $right:ident $low:ident $high:ident $first:ident
    ) => {
        type Register = $register;
        const LANES: usize = $lanes;
        const SUMS_OF_THREE: bool = $sums_of_three;

        /// # Safety
        /// As the trait says.
        #[inline(always)]
        unsafe fn load(self, from: *const u8) -> $register {
            // SAFETY: `self` shows that the CPU has the instruction; the caller promises what is read.
            unsafe { $load(from.cast()) }
        }

        /// # Safety
        /// As the trait says.
        #[inline(always)]
        unsafe fn store(self, to: *mut u8, register: $register) {
            // SAFETY: as above; the caller promises what is written.
            unsafe { $store(to.cast(), register) }
        }

        #[inline(always)]
        fn repeated(self, word: u32) -> $register {
            // SAFETY: as above.
            unsafe { $set(word.cast_signed()) }
        }

        #[inline(always)]
        fn first_byte(self, register: $register) -> u8 {
            // SAFETY: as above.
            let [first, ..] = unsafe { $first(register) }.to_le_bytes();
            first
        }

        #[inline(always)]
        fn xor(self, a: $register, b: $register) -> $register {
            // SAFETY: as above.
            unsafe { $xor(a, b) }
        }

        #[inline(always)]
        fn and(self, a: $register, b: $register) -> $register {
            // SAFETY: as above.
            unsafe { $and(a, b) }
        }

        #[inline(always)]
        fn or(self, a: $register, b: $register) -> $register {
            // SAFETY: as above.
            unsafe { $or(a, b) }
        }

        #[inline(always)]
        fn shifted(self, a: $register, b: $register) -> $register {
            // SAFETY: as above.
            let carried = unsafe { $right::<7>(b) };
            let carried = self.and(carried, self.repeated(0x0101_0101));
            // SAFETY: as above.
            self.or(unsafe { $add(a, a) }, carried)
        }

        #[inline(always)]
        fn low(self, a: $register, b: $register) -> $register {
            // SAFETY: as above.
            unsafe { $low(a, b) }
        }

        #[inline(always)]
        fn high(self, a: $register, b: $register) -> $register {
            // SAFETY: as above.
            unsafe { $high(a, b) }
        }
    };
}

/// Bytes as AESENCLAST moves them (ShiftRows of FIPS 197): the one at `n` comes from there.
const SHIFT_ROWS: [u8; 16] = {
    let mut from = [0; 16];
    let mut at = 0;
    while at < 16 {
        from[at as usize] = at % 4 + 4 * ((at / 4 + at % 4) % 4);
        at += 1;
    }
    from
};

/// The reverse of [`SHIFT_ROWS`].
const SHIFT_ROWS_BACK: [u8; 16] = {
    let mut from = [0; 16];
    let mut at = 0;
    while at < 16 {
        from[SHIFT_ROWS[at as usize] as usize] = at;
        at += 1;
    }
    from
};

/// Maps by tables of half-bytes, for `boxes_by_aes`.
macro_rules! maps_by_tables {
    ($width:ident: $register:ty; $look_up:ident $repeat:ident $right:ident) => {
        impl $width {
            #[inline(always)]
            fn mapped(self, a: $register, [low, high]: &Nibbles) -> $register {
                let nibbles = self.repeated(0x0f0f_0f0f);
                let lower = self.and(a, nibbles);
                // SAFETY: `self` shows that the CPU has the instructions; a table has 16 bytes.
                unsafe {
                    let upper = self.and($right::<4>(a), nibbles);
                    let lower = $look_up($repeat(_mm_loadu_si128(low.as_ptr().cast())), lower);
                    let upper = $look_up($repeat(_mm_loadu_si128(high.as_ptr().cast())), upper);
                    self.xor(lower, upper)
                }
            }
        }
    };
}

/// S-boxes by AESENCLAST and AESDECLAST, between maps that are looked up by half-bytes.
macro_rules! boxes_by_aes {
    (
        $register:ty;
        $look_up:ident $repeat:ident $zero:ident $encrypt:ident $decrypt:ident
    ) => {
        #[inline(always)]
        fn moved(self, a: $register) -> $register {
            // SAFETY: `self` shows that the CPU has the instructions.
            unsafe { $look_up(a, $repeat(_mm_loadu_si128(SHIFT_ROWS.as_ptr().cast()))) }
        }

        #[inline(always)]
        fn moved_back(self, a: $register) -> $register {
            // SAFETY: as above.
            unsafe { $look_up(a, $repeat(_mm_loadu_si128(SHIFT_ROWS_BACK.as_ptr().cast()))) }
        }

        #[inline(always)]
        fn substitute<const BOX: usize, const FIRST: bool>(self, a: $register) -> $register {
            let [before, after] = if FIRST {
                const { &AROUND_AES[BOX].nibbles() }
            } else {
                const { &AROUND_AES_INVERSE[BOX].nibbles() }
            };
            let a = self.mapped(a, before);
            // SAFETY: as above.
            let a = unsafe {
                if FIRST {
                    $encrypt(a, $zero())
                } else {
                    $decrypt(a, $zero())
                }
            };
            self.mapped(a, after)
        }
    };
}

/// S-boxes by GFNI, which moves no bytes.
macro_rules! boxes_by_gfni {
    ($register:ty; $map:ident $invert_and_map:ident $set:ident) => {
        #[inline(always)]
        fn moved(self, a: $register) -> $register {
            a
        }

        #[inline(always)]
        fn moved_back(self, a: $register) -> $register {
            a
        }

        #[inline(always)]
        fn substitute<const BOX: usize, const FIRST: bool>(self, a: $register) -> $register {
            // SAFETY: `self` shows that the CPU has GFNI.
            unsafe {
                let before = $set(const { MAPS[BOX].before.matrix() });
                let after = $set(const { MAPS[BOX].after.matrix() });
                let a = $map::<BEFORE_CONSTANT>(a, before);
                match BOX {
                    1 => $invert_and_map::<{ AFTER_CONSTANTS[1] }>(a, after),
                    2 => $invert_and_map::<{ AFTER_CONSTANTS[2] }>(a, after),
                    _ => $invert_and_map::<{ AFTER_CONSTANTS[0] }>(a, after),
                }
            }
        }
    };
}

/// Defines a width that a CPU with any of some tokens has.
macro_rules! widths {
    ($($(#[$doc:meta])* $width:ident from $($token:ident)*: $basics:tt $boxes:ident! $of_boxes:tt)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(super) struct $width(());

        $(
            impl From<$token> for $width {
                #[inline(always)]
                fn from(_: $token) -> Self {
                    Self(())
                }
            }
        )*

        // SAFETY: a value is made of a token only, and each has the instructions.
        unsafe impl Width for $width {
            by_intrinsics! $basics
            $boxes! $of_boxes
        }
    )*};
}

widths! {
    /// AES-NI on 128-bit registers.
    AesOne from AesAvx Vaes2: {
        __m128i, 1, false;
        _mm_loadu_si128 _mm_storeu_si128 _mm_set1_epi32 _mm_xor_si128 _mm_and_si128 _mm_or_si128
        _mm_add_epi8 _mm_srli_epi32 _mm_unpacklo_epi8 _mm_unpackhi_epi8 _mm_cvtsi128_si32
    }
    boxes_by_aes! {
        __m128i;
        _mm_shuffle_epi8 same _mm_setzero_si128
        _mm_aesenclast_si128 _mm_aesdeclast_si128
    }

    /// VAES on 256-bit registers.
    AesTwo from Vaes2: {
        __m256i, 2, false;
        _mm256_loadu_si256 _mm256_storeu_si256 _mm256_set1_epi32 _mm256_xor_si256 _mm256_and_si256
        _mm256_or_si256 _mm256_add_epi8 _mm256_srli_epi32 _mm256_unpacklo_epi8 _mm256_unpackhi_epi8
        _mm256_cvtsi256_si32
    }
    boxes_by_aes! {
        __m256i;
        _mm256_shuffle_epi8 _mm256_broadcastsi128_si256 _mm256_setzero_si256
        _mm256_aesenclast_epi128 _mm256_aesdeclast_epi128
    }

    /// GFNI on 128-bit registers.
    GfniOne from Gfni2 Gfni512: {
        __m128i, 1, false;
        _mm_loadu_si128 _mm_storeu_si128 _mm_set1_epi32 _mm_xor_si128 _mm_and_si128 _mm_or_si128
        _mm_add_epi8 _mm_srli_epi32 _mm_unpacklo_epi8 _mm_unpackhi_epi8 _mm_cvtsi128_si32
    }
    boxes_by_gfni! { __m128i; _mm_gf2p8affine_epi64_epi8 _mm_gf2p8affineinv_epi64_epi8 _mm_set1_epi64x }

    /// GFNI on 256-bit registers.
    GfniTwo from Gfni2: {
        __m256i, 2, false;
        _mm256_loadu_si256 _mm256_storeu_si256 _mm256_set1_epi32 _mm256_xor_si256 _mm256_and_si256
        _mm256_or_si256 _mm256_add_epi8 _mm256_srli_epi32 _mm256_unpacklo_epi8 _mm256_unpackhi_epi8
        _mm256_cvtsi256_si32
    }
    boxes_by_gfni! {
        __m256i;
        _mm256_gf2p8affine_epi64_epi8 _mm256_gf2p8affineinv_epi64_epi8 _mm256_set1_epi64x
    }

    /// GFNI on 512-bit registers.
    GfniFour from Gfni512: {
        __m512i, 4, true;
        _mm512_loadu_si512 _mm512_storeu_si512 _mm512_set1_epi32 _mm512_xor_si512 _mm512_and_si512
        _mm512_or_si512 _mm512_add_epi8 _mm512_srli_epi32 _mm512_unpacklo_epi8 _mm512_unpackhi_epi8
        _mm512_cvtsi512_si32
    }
    boxes_by_gfni! {
        __m512i;
        _mm512_gf2p8affine_epi64_epi8 _mm512_gf2p8affineinv_epi64_epi8 _mm512_set1_epi64
    }
}

maps_by_tables! { AesOne: __m128i; _mm_shuffle_epi8 same _mm_srli_epi32 }
maps_by_tables! { AesTwo: __m256i; _mm256_shuffle_epi8 _mm256_broadcastsi128_si256 _mm256_srli_epi32 }

/// The register of one lane that repeats `register`.
#[inline(always)]
fn same(register: __m128i) -> __m128i {
    register
}
