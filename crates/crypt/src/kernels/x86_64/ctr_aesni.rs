//! AES-CTR with AES-NI.
//!
//! | | |
//! |---|---|
//! | for | every x86-64 with AES-NI; no AVX needed |
//! | width | 8 blocks of 128 bits in flight, for a latency of up to 4 cycles at 2 AESENC a cycle |
//! | registers | 8 of key stream, 1 round key |
//! | bound | at 2 AESENC a cycle 0.4375 cycles a byte for AES-256, 0.3125 for AES-128 |
//! | constant time | yes |
//! | why | the kernel for CPUs with AES-NI but without VAES |
//!
//! See [`super::ctr`] for what is done; here is how registers count.

use core::arch::x86_64::*;

use super::cpu::{AesAvx, AesNi};
use super::ctr::{Ctr, WideCtr};
use super::mode::kernel;
use crate::kernels::descriptor::Kernel;
use crate::spec::Algorithm;

pub(crate) const CTR_AESNI: Kernel = kernel::<Ctr, AesNi>(Algorithm::AesCtr, "ctr-aes-aesni");

macro_rules! counters_by_blocks {
    ($width:ident) => {
        impl WideCtr for $width {
            #[inline(always)]
            fn counters(self, first: __m128i, index: usize) -> __m128i {
                // SAFETY: the token shows that the CPU has the feature.
                unsafe { counters(first, index) }
            }
        }
    };
}

counters_by_blocks!(AesNi);
counters_by_blocks!(AesAvx);

#[inline]
#[target_feature(enable = "ssse3")]
fn counters(first: __m128i, index: usize) -> __m128i {
    reversed(_mm_add_epi64(first, _mm_set_epi64x(0, index as i64)))
}

/// The block with its bytes in reverse order.
#[inline]
#[target_feature(enable = "ssse3")]
pub(super) fn reversed(block: __m128i) -> __m128i {
    let order = _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    _mm_shuffle_epi8(block, order)
}
