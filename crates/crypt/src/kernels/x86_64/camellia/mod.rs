//! Camellia with AVX-512, AVX2, VAES and AES-NI.
//!
//! | | |
//! |---|---|
//! | for | CPUs with GFNI and AVX-512 (Ice Lake, Zen 4) or AVX2 (Alder Lake), with VAES (Zen 3), or with AES-NI and AVX |
//! | width | 64 blocks in registers of 512 bits, 32 in registers of 256 bits, 16 in registers of 128 bits |
//! | registers | 16 of data, each with one byte of every block; 8 of what F computes; the rest are maps of S-boxes |
//! | bound | with GFNI 42 operations a round, or with AVX2 48; with VAES 136, with three vector units 2.1 cycles a byte of a key of 256 bits |
//! | constant time | yes: S-boxes are inversions in the field of AES, by instructions, between affine maps; GFNI has those too, otherwise they are looked up by half-bytes in registers |
//! | why | 16 to 64 blocks an instruction, while the portable code looks up tables for one |
//!
//! [`boxes`] has the maps, which the compiler computes, [`rounds`] the cipher for registers of any width, and [`width`]
//! the instructions of each. The key schedule takes its S-boxes from there, too.

mod boxes;
mod cipher;
mod keys;
mod rounds;
#[cfg(test)]
mod tests;
mod width;

use self::cipher::{Camellia, Cpu};
use super::batch::{Cbc, Ctr, Ecb, Mode, Xts, set_up};
use super::cpu::{AesAvx, Gfni2, Gfni512, Vaes2};
use crate::kernels::descriptor::Kernel;
use crate::spec::Algorithm;

/// Kernels of a kind of CPU, one for each mode.
macro_rules! kernels {
    ($($cpu:ident, $pairs:literal, $family:literal, $priority:literal: $xts:ident $cbc:ident $ctr:ident $ecb:ident)*) => {$(
        pub(crate) const $xts: Kernel = kernel::<$cpu, $pairs, Xts>(
            Algorithm::CamelliaXts,
            concat!("xts-camellia-", $family),
            $family,
            || $priority,
        );
        pub(crate) const $cbc: Kernel = kernel::<$cpu, $pairs, Cbc>(
            Algorithm::CamelliaCbc,
            concat!("cbc-camellia-", $family),
            $family,
            || $priority,
        );
        pub(crate) const $ctr: Kernel = kernel::<$cpu, $pairs, Ctr>(
            Algorithm::CamelliaCtr,
            concat!("ctr-camellia-", $family),
            $family,
            || $priority,
        );
        pub(crate) const $ecb: Kernel = kernel::<$cpu, $pairs, Ecb>(
            Algorithm::CamelliaEcb,
            concat!("ecb-camellia-", $family),
            $family,
            || $priority,
        );
    )*};
}

kernels! {
    Gfni512, 32, "avx512", 600: XTS_AVX512 CBC_AVX512 CTR_AVX512 ECB_AVX512
    Gfni2, 16, "avx2", 550: XTS_AVX2 CBC_AVX2 CTR_AVX2 ECB_AVX2
    Vaes2, 16, "vaes2", 500: XTS_VAES2 CBC_VAES2 CTR_VAES2 ECB_VAES2
    AesAvx, 8, "aesni", 400: XTS_AESNI CBC_AESNI CTR_AESNI ECB_AESNI
}

const fn kernel<P: Cpu, const PAIRS: usize, M: Mode>(
    algorithm: Algorithm,
    driver: &'static str,
    family: &'static str,
    priority: fn() -> u32,
) -> Kernel {
    Kernel {
        algorithm,
        driver,
        family,
        priority,
        constant_time: true,
        features: P::FEATURES,
        runs_here: || P::detect().is_some(),
        set_up: set_up::<Camellia<P>, PAIRS, M>,
    }
}
