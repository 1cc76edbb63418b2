//! AES-CBC with VAES on 256-bit registers.
//!
//! | | |
//! |---|---|
//! | for | CPUs with VAES but without AVX-512: Zen 3, Alder Lake and later |
//! | width | encryption: 16 data units side by side in 8 registers; decryption: 8 registers of 2 blocks |
//! | registers | 8 of data, 1 round key, 2 of ciphertext or 4 to transpose |
//! | bound | at two VAESENC of 32 bytes a cycle 0.219 cycles a byte for AES-256, 0.156 for AES-128 |
//! | constant time | yes |
//! | why | twice as much an instruction as AES-NI |
//!
//! See [`super::cbc`] for what is done; here is how blocks change their places.

use core::arch::x86_64::*;

use super::cbc::{Cbc, Lines, WideCbc};
use super::cpu::Vaes2;
use super::mode::kernel;
use super::vaes2::{load, store, words};
use super::wide::Wide;
use crate::kernels::descriptor::Kernel;
use crate::spec::Algorithm;

pub(crate) const CBC_VAES2: Kernel = kernel::<Cbc, Vaes2>(Algorithm::AesCbc, "cbc-aes-vaes2");

impl WideCbc for Vaes2 {
    #[inline(always)]
    fn preceding(self, before: __m256i, blocks: __m256i) -> __m256i {
        // SAFETY: the token shows that the CPU has the features, here and below.
        unsafe { _mm256_permute2x128_si256::<0x21>(before, blocks) }
    }

    /// # Safety
    /// As the trait says.
    #[inline(always)]
    unsafe fn gather<const WHOLE: bool>(
        self,
        source: *const u8,
        offsets: &[usize],
        blocks: usize,
    ) -> Lines<Self> {
        let mut lines = [Self::ZERO; 4];
        for half in 0..2 {
            let [a, b] = [0, 1].map(|lane| source.wrapping_add(offsets[lane] + 32 * half));
            // SAFETY: as above; the caller promises what is read.
            let [first, second] = unsafe {
                let words = words(half, blocks);
                transposed([load::<WHOLE>(a, words), load::<WHOLE>(b, words)])
            };
            lines[2 * half] = first;
            lines[2 * half + 1] = second;
        }
        lines
    }

    /// # Safety
    /// As the trait says.
    #[inline(always)]
    unsafe fn scatter<const WHOLE: bool>(
        self,
        destination: *mut u8,
        offsets: &[usize],
        blocks: usize,
        lines: Lines<Self>,
    ) {
        for half in 0..2 {
            let [a, b] = [0, 1].map(|lane| destination.wrapping_add(offsets[lane] + 32 * half));
            // SAFETY: as above; the caller promises what is written.
            unsafe {
                let words = words(half, blocks);
                let [first, second] = transposed([lines[2 * half], lines[2 * half + 1]]);
                store::<WHOLE>(a, words, first);
                store::<WHOLE>(b, words, second);
            }
        }
    }
}

/// Rows of blocks as columns, and columns as rows.
#[inline]
#[target_feature(enable = "avx2")]
fn transposed([a, b]: [__m256i; 2]) -> [__m256i; 2] {
    [
        _mm256_permute2x128_si256::<0x20>(a, b),
        _mm256_permute2x128_si256::<0x31>(a, b),
    ]
}
