//! Serpent with AVX2.
//!
//! | | |
//! |---|---|
//! | for | CPUs with AVX2: Haswell and Zen, and later |
//! | width | 16 blocks: eight in each set of four registers, and two sets, so that one is computed while the other waits |
//! | registers | 8 of data, 2 of what S-boxes compute on the way, 1 round key for both sets |
//! | bound | 45 operations a round and set: with four vector units 2.8 cycles a byte |
//! | constant time | yes: bitsliced, no table |
//! | why | eight blocks an instruction, while the portable code computes one |
//!
//! S-boxes are Boolean functions ([`boxes`]), written once for words of any width, and so are the rounds: the key
//! schedule, and runs of a few blocks, compute them in words of 32 bits.

mod batch;
mod boxes;
mod modes;
mod rounds;
#[cfg(test)]
mod tests;
mod words;

use super::cpu::{Avx2, Proof};
use crate::kernels::descriptor::Kernel;
use crate::spec::Algorithm;

pub(crate) const XTS: Kernel = kernel::<modes::Xts>(Algorithm::SerpentXts, "xts-serpent-avx2");
pub(crate) const CBC: Kernel = kernel::<modes::Cbc>(Algorithm::SerpentCbc, "cbc-serpent-avx2");
pub(crate) const CTR: Kernel = kernel::<modes::Ctr>(Algorithm::SerpentCtr, "ctr-serpent-avx2");
pub(crate) const ECB: Kernel = kernel::<modes::Ecb>(Algorithm::SerpentEcb, "ecb-serpent-avx2");

const fn kernel<M: modes::Mode>(algorithm: Algorithm, driver: &'static str) -> Kernel {
    Kernel {
        algorithm,
        driver,
        family: "avx2",
        priority: || 500,
        constant_time: true,
        features: Avx2::FEATURES,
        runs_here: || Avx2::detect().is_some(),
        set_up: modes::set_up::<M>,
    }
}
