//! Serpent with AVX-512 and AVX2.
//!
//! | | |
//! |---|---|
//! | for | CPUs with AVX-512, or with AVX2: Haswell and Zen, and later |
//! | width | 16 blocks: in four registers of 512 bits, or of 256 bits in two sets of four, so that one is computed while the other waits |
//! | registers | 4 or 8 of data, 1 or 2 of what S-boxes compute on the way, 1 round key |
//! | bound | AVX-512: 26 operations a round, with two vector units 1.6 cycles a byte; AVX2: 45 a round and set, with four vector units 2.8 |
//! | constant time | yes: bitsliced, no table |
//! | why | sixteen or eight blocks an instruction, while the portable code computes one |
//!
//! S-boxes are Boolean functions ([`boxes`]), written once for words of any width, and so are the rounds: the key
//! schedule, and runs of a few blocks, compute them in words of 32 bits.

mod boxes;
mod rounds;
mod sixteen;
#[cfg(test)]
mod tests;
mod words;

use self::sixteen::{Serpent, Width};
use super::batch::{Cbc, Ctr, Ecb, Lrw, Mode, Xts, set_up};
use super::cpu::{Avx2, Avx2Avx512};
use crate::kernels::descriptor::Kernel;
use crate::spec::Algorithm;

pub(crate) const XTS_AVX512: Kernel =
    with_avx512::<Xts>(Algorithm::SerpentXts, "xts-serpent-avx512");
pub(crate) const CBC_AVX512: Kernel =
    with_avx512::<Cbc>(Algorithm::SerpentCbc, "cbc-serpent-avx512");
pub(crate) const CTR_AVX512: Kernel =
    with_avx512::<Ctr>(Algorithm::SerpentCtr, "ctr-serpent-avx512");
pub(crate) const ECB_AVX512: Kernel =
    with_avx512::<Ecb>(Algorithm::SerpentEcb, "ecb-serpent-avx512");
pub(crate) const LRW_AVX512: Kernel =
    with_avx512::<Lrw>(Algorithm::SerpentLrw, "lrw-serpent-avx512");
pub(crate) const XTS: Kernel = with_avx2::<Xts>(Algorithm::SerpentXts, "xts-serpent-avx2");
pub(crate) const CBC: Kernel = with_avx2::<Cbc>(Algorithm::SerpentCbc, "cbc-serpent-avx2");
pub(crate) const CTR: Kernel = with_avx2::<Ctr>(Algorithm::SerpentCtr, "ctr-serpent-avx2");
pub(crate) const LRW: Kernel = with_avx2::<Lrw>(Algorithm::SerpentLrw, "lrw-serpent-avx2");
pub(crate) const ECB: Kernel = with_avx2::<Ecb>(Algorithm::SerpentEcb, "ecb-serpent-avx2");

const fn with_avx512<M: Mode>(algorithm: Algorithm, driver: &'static str) -> Kernel {
    Kernel {
        family: "avx512",
        priority: || 600,
        ..kernel::<Avx2Avx512, M>(algorithm, driver)
    }
}

const fn with_avx2<M: Mode>(algorithm: Algorithm, driver: &'static str) -> Kernel {
    kernel::<Avx2, M>(algorithm, driver)
}

const fn kernel<W: Width, M: Mode>(algorithm: Algorithm, driver: &'static str) -> Kernel {
    Kernel {
        algorithm,
        driver,
        family: "avx2",
        priority: || 500,
        constant_time: true,
        features: W::FEATURES,
        runs_here: || W::detect().is_some(),
        set_up: set_up::<Serpent<W>, _, M>,
    }
}
