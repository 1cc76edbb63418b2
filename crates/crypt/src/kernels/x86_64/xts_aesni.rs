//! AES-XTS with AES-NI.
//!
//! | | |
//! |---|---|
//! | for | every x86-64 with AES-NI and PCLMULQDQ, from Westmere and Goldmont on; no AVX needed |
//! | width | 8 blocks of 128 bits in flight, for a latency of up to 4 cycles at 2 AESENC a cycle |
//! | registers | 8 of data, 1 round key, 1 of input; 4 general ones for tweaks, which rest in L1 |
//! | bound | at 2 AESENC a cycle 0.4375 cycles a byte for AES-256, 0.3125 for AES-128 |
//! | constant time | yes |
//! | why | the kernel for CPUs with AES-NI but without VAES |
//!
//! Vector arithmetic competes with AESENC for units, so the tweaks of blocks are made in general registers
//! ([`super::xts_scalar`]).
//!
//! The tweaks of data units are encryptions of their own, whose rounds wait for each other. Those of 4 units are encrypted
//! together, as soon as the last of the 4 before is taken, and are done before they are needed; also between two calls
//! (see [`super::ahead`]).

use core::arch::x86_64::*;

use super::aesni::Schedule;
use super::ahead::BATCH;
use super::cpu::AesNi;
use super::lanes::{all_rounds, zero};
use super::mode::kernel;
use super::xts::{WideXts, Xts};
use super::xts_scalar::Scalar;
use crate::kernels::descriptor::Kernel;
use crate::spec::Algorithm;

pub(crate) const XTS_AESNI: Kernel =
    kernel::<Xts<Scalar>, AesNi>(Algorithm::AesXts, "xts-aes-aesni");

impl WideXts for AesNi {
    #[inline(always)]
    fn encrypt_ivs<const ROUNDS: usize>(
        self,
        keys: &Schedule,
        ivs: [__m128i; BATCH],
    ) -> [__m128i; BATCH] {
        // SAFETY: the token shows that the CPU has the feature.
        unsafe { encrypt_ivs::<ROUNDS>(keys, ivs) }
    }
}

/// Encrypts IVs, side by side.
#[inline]
#[target_feature(enable = "aes")]
fn encrypt_ivs<const ROUNDS: usize>(keys: &Schedule, ivs: [__m128i; BATCH]) -> [__m128i; BATCH] {
    let [a, b, c, d] = ivs;
    let mut tweaks = [a, b, c, d, zero(), zero(), zero(), zero()];
    all_rounds::<ROUNDS, true, BATCH>(keys, &mut tweaks);
    let [a, b, c, d, ..] = tweaks;
    [a, b, c, d]
}
