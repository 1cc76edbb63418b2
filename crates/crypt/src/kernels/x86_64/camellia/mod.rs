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
use super::batch::{Cbc, Ctr, Ecb, Lrw, Mode, Xts, set_up};
use super::cpu::{AesAvx, Gfni2, Gfni512, Vaes2};
use crate::kernels::descriptor::Kernel;
use crate::spec::Algorithm;

/// Kernels of a kind of CPU: the pairs of blocks in a batch, their family and priority, and a name for each mode.
macro_rules! kernels {
    (
        $($cpu:ident, $pairs:literal, $family:literal, $priority:literal {
            $($name:ident $mode:ident $prefix:literal $algorithm:ident;)*
        })*
    ) => {$($(
        pub(crate) const $name: Kernel = kernel::<$cpu, $pairs, $mode>(
            Algorithm::$algorithm,
            concat!($prefix, $family),
            $family,
            || $priority,
        );
    )*)*};
}

kernels! {
    Gfni512, 32, "avx512", 600 {
        XTS_AVX512 Xts "xts-camellia-" CamelliaXts;
        CBC_AVX512 Cbc "cbc-camellia-" CamelliaCbc;
        CTR_AVX512 Ctr "ctr-camellia-" CamelliaCtr;
        ECB_AVX512 Ecb "ecb-camellia-" CamelliaEcb;
        LRW_AVX512 Lrw "lrw-camellia-" CamelliaLrw;
    }

    Gfni2, 16, "avx2", 550 {
        XTS_AVX2 Xts "xts-camellia-" CamelliaXts;
        CBC_AVX2 Cbc "cbc-camellia-" CamelliaCbc;
        CTR_AVX2 Ctr "ctr-camellia-" CamelliaCtr;
        ECB_AVX2 Ecb "ecb-camellia-" CamelliaEcb;
        LRW_AVX2 Lrw "lrw-camellia-" CamelliaLrw;
    }

    Vaes2, 16, "vaes2", 500 {
        XTS_VAES2 Xts "xts-camellia-" CamelliaXts;
        CBC_VAES2 Cbc "cbc-camellia-" CamelliaCbc;
        CTR_VAES2 Ctr "ctr-camellia-" CamelliaCtr;
        ECB_VAES2 Ecb "ecb-camellia-" CamelliaEcb;
        LRW_VAES2 Lrw "lrw-camellia-" CamelliaLrw;
    }

    AesAvx, 8, "aesni", 400 {
        XTS_AESNI Xts "xts-camellia-" CamelliaXts;
        CBC_AESNI Cbc "cbc-camellia-" CamelliaCbc;
        CTR_AESNI Ctr "ctr-camellia-" CamelliaCtr;
        ECB_AESNI Ecb "ecb-camellia-" CamelliaEcb;
        LRW_AESNI Lrw "lrw-camellia-" CamelliaLrw;
    }
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
