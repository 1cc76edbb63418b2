//! AES-ECB with VAES on 512-bit registers.
//!
//! | | |
//! |---|---|
//! | for | Ice Lake and Sapphire Rapids, Zen 4, and later |
//! | width | 8 registers of 4 blocks in flight: 512 bytes, the smallest sector |
//! | registers | 8 of data, 1 round key |
//! | bound | at a VAESENC of 64 bytes a cycle 0.219 cycles a byte for AES-256, 0.156 for AES-128 |
//! | constant time | yes |
//! | why | makes the IVs of ESSIV; as a mode of its own only for volumes that exist |

use super::cpu::Vaes512;
use super::cursor::Cursor;
use super::ecb;
use super::mode::{Mode, set_up};
use super::wide::Schedules;
use crate::kernels::descriptor::Kernel;
use crate::kernels::iv::Ivs;
use crate::spec::Algorithm;

pub(crate) const ECB_VAES512: Kernel = Kernel {
    algorithm: Algorithm::AesEcb,
    driver: "ecb-aes-vaes512",
    family: "vaes512",
    priority: 800,
    constant_time: true,
    features: Vaes512::FEATURES,
    runs_here: || Vaes512::detect().is_some(),
    set_up: |key| set_up::<Ecb>(Vaes512::detect()?, key),
};

struct Ecb;

impl Mode for Ecb {
    type Width = Vaes512;

    /// # Safety
    /// As the trait says.
    #[inline]
    unsafe fn transform<const ROUNDS: usize, const ENCRYPT: bool>(
        width: Vaes512,
        keys: &Schedules<Vaes512>,
        _: Ivs<'_>,
        at: Cursor,
        unit: usize,
        units: usize,
    ) {
        // SAFETY: the token shows that the CPU has the features; the rest is the caller's.
        unsafe { transform::<ROUNDS, ENCRYPT>(width, keys, at, units * (unit / 16)) }
    }
}

/// # Safety
/// So many blocks can be read and written `at`.
#[target_feature(enable = "vaes,avx512f,avx512bw")]
unsafe fn transform<const ROUNDS: usize, const ENCRYPT: bool>(
    width: Vaes512,
    keys: &Schedules<Vaes512>,
    at: Cursor,
    blocks: usize,
) {
    // SAFETY: the caller promises what is to be read and written.
    unsafe { ecb::transform::<_, ROUNDS, ENCRYPT>(width, keys.of::<ENCRYPT>(), at, blocks) }
}
