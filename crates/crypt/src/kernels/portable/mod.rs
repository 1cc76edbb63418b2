//! Every mode and cipher in safe code.
//!
//! | | |
//! |---|---|
//! | for | every CPU; also the fallback when the others are disabled |
//! | width | 4 KiB at a time: as many blocks as the cipher takes in one call |
//! | state | tweaks, counters or ciphertext of those blocks, on the stack, wiped after each call |
//! | constant time | as the table of kernels says: AES is bitsliced in software, Serpent too, all else of them is arithmetic; Twofish and Camellia look up tables |
//! | why | correct where nothing else runs, and the second opinion on every other kernel |
//!
//! Block ciphers are those of RustCrypto, and a Twofish of our own. The `aes` crate uses AES instructions where it finds
//! them. `RUSTFLAGS='--cfg aes_backend="soft"'` builds it without. A mode is written once, for each [`blocks::Family`] of
//! block ciphers; AES-GCM has GHASH by multiplications of integers. A wide kernel for one of them is a row in a table of
//! its own, as `x86_64` has for AES, Serpent and Camellia.

mod adiantum;
mod blocks;
mod cbc;
mod ctr;
mod ecb;
mod families;
mod gcm;
mod ghash;
mod lrw;
mod null;
#[cfg(test)]
mod tests;
mod twofish;
mod xts;

use self::families::{Aes, Camellia, Serpent, Twofish};
use super::descriptor::Kernel;
use super::gcm::Gcm;
use super::iv::SectorKernel;
use crate::spec::Algorithm;

/// Every portable sector kernel.
pub(crate) static KERNELS: &[Kernel] = &[
    AES_XTS,
    row(Algorithm::AesCbc, "cbc-aes-portable", cbc::set_up::<Aes>),
    row(Algorithm::AesCtr, "ctr-aes-portable", ctr::set_up::<Aes>),
    row(Algorithm::AesEcb, "ecb-aes-portable", ecb::set_up::<Aes>),
    row(Algorithm::AesLrw, "lrw-aes-portable", lrw::set_up::<Aes>),
    row(
        Algorithm::SerpentXts,
        "xts-serpent-portable",
        xts::set_up::<Serpent>,
    ),
    row(
        Algorithm::SerpentCbc,
        "cbc-serpent-portable",
        cbc::set_up::<Serpent>,
    ),
    row(
        Algorithm::SerpentCtr,
        "ctr-serpent-portable",
        ctr::set_up::<Serpent>,
    ),
    row(
        Algorithm::SerpentEcb,
        "ecb-serpent-portable",
        ecb::set_up::<Serpent>,
    ),
    row(
        Algorithm::SerpentLrw,
        "lrw-serpent-portable",
        lrw::set_up::<Serpent>,
    ),
    row(
        Algorithm::TwofishXts,
        "xts-twofish-portable",
        xts::set_up::<Twofish>,
    )
    .by_tables(),
    row(
        Algorithm::TwofishCbc,
        "cbc-twofish-portable",
        cbc::set_up::<Twofish>,
    )
    .by_tables(),
    row(
        Algorithm::TwofishCtr,
        "ctr-twofish-portable",
        ctr::set_up::<Twofish>,
    )
    .by_tables(),
    row(
        Algorithm::TwofishEcb,
        "ecb-twofish-portable",
        ecb::set_up::<Twofish>,
    )
    .by_tables(),
    row(
        Algorithm::TwofishLrw,
        "lrw-twofish-portable",
        lrw::set_up::<Twofish>,
    )
    .by_tables(),
    row(
        Algorithm::CamelliaXts,
        "xts-camellia-portable",
        xts::set_up::<Camellia>,
    )
    .by_tables(),
    row(
        Algorithm::CamelliaCbc,
        "cbc-camellia-portable",
        cbc::set_up::<Camellia>,
    )
    .by_tables(),
    row(
        Algorithm::CamelliaCtr,
        "ctr-camellia-portable",
        ctr::set_up::<Camellia>,
    )
    .by_tables(),
    row(
        Algorithm::CamelliaEcb,
        "ecb-camellia-portable",
        ecb::set_up::<Camellia>,
    )
    .by_tables(),
    row(
        Algorithm::CamelliaLrw,
        "lrw-camellia-portable",
        lrw::set_up::<Camellia>,
    )
    .by_tables(),
    row(
        Algorithm::Adiantum12,
        "adiantum-xchacha12-aes-portable",
        super::adiantum::set_up::<adiantum::Portable<chacha20::XChaCha12>>,
    ),
    row(
        Algorithm::Adiantum20,
        "adiantum-xchacha20-aes-portable",
        super::adiantum::set_up::<adiantum::Portable<chacha20::XChaCha20>>,
    ),
    null::NULL,
];

/// Every portable kernel of AES-GCM.
pub(crate) static GCM: &[Gcm] = &[gcm::GCM];

pub(crate) const AES_XTS: Kernel = row(Algorithm::AesXts, "xts-aes-portable", xts::set_up::<Aes>);

/// Describes a kernel that takes constant time.
const fn row(
    algorithm: Algorithm,
    driver: &'static str,
    set_up: fn(&[u8]) -> Option<Box<dyn SectorKernel>>,
) -> Kernel {
    Kernel {
        algorithm,
        driver,
        family: "portable",
        priority: || 100,
        constant_time: true,
        features: &[],
        runs_here: || true,
        set_up,
    }
}

impl Kernel {
    /// Describes a kernel that looks up tables by key and data.
    const fn by_tables(self) -> Self {
        Self {
            constant_time: false,
            ..self
        }
    }
}
