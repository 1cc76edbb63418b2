//! AES-ECB with AES-NI.
//!
//! | | |
//! |---|---|
//! | for | every x86-64 with AES-NI; no AVX needed |
//! | width | 8 blocks of 128 bits in flight, for a latency of up to 4 cycles at 2 AESENC a cycle |
//! | registers | 8 of data, 1 round key |
//! | bound | at 2 AESENC a cycle 0.4375 cycles a byte for AES-256, 0.3125 for AES-128 |
//! | constant time | yes |
//! | why | makes the IVs of ESSIV; as a mode of its own only for volumes that exist |
//!
//! Blocks know nothing of data units, so the run is taken as a whole.

use super::aesni::{Schedule, load, store};
use super::cpu::AesNi;
use super::cursor::Cursor;
use super::lanes::{GROUP, in_groups, turn, zero};
use super::mode::{Mode, set_up};
use super::opaque::opaque;
use super::wide::Schedules;
use crate::kernels::descriptor::Kernel;
use crate::kernels::iv::Ivs;
use crate::spec::Algorithm;

pub(crate) const ECB_AESNI: Kernel = Kernel {
    algorithm: Algorithm::AesEcb,
    driver: "ecb-aes-aesni",
    family: "aesni",
    priority: 400,
    constant_time: true,
    features: AesNi::FEATURES,
    runs_here: || AesNi::detect().is_some(),
    set_up: |key| set_up::<Ecb>(AesNi::detect()?, key),
};

struct Ecb;

impl Mode for Ecb {
    type Width = AesNi;

    /// # Safety
    /// As the trait says.
    #[inline]
    unsafe fn transform<const ROUNDS: usize, const ENCRYPT: bool>(
        _: AesNi,
        keys: &Schedules<AesNi>,
        _: Ivs<'_>,
        at: Cursor,
        unit: usize,
        units: usize,
    ) {
        // SAFETY: the token shows that the CPU has AES-NI; the rest is the caller's.
        unsafe { transform::<ROUNDS, ENCRYPT>(keys.of::<ENCRYPT>(), at, units * (unit / 16)) }
    }
}

/// # Safety
/// So many blocks can be read and written at `start`.
#[target_feature(enable = "aes")]
unsafe fn transform<const ROUNDS: usize, const ENCRYPT: bool>(
    keys: &Schedule,
    start: Cursor,
    blocks: usize,
) {
    in_groups!(blocks, index, LANES => {
        // SAFETY: blocks `index` to `index + LANES` are among them.
        unsafe { group::<ROUNDS, ENCRYPT, LANES>(keys, start.add(16 * index)) };
    });
}

/// Transforms `LANES` blocks.
///
/// # Safety
/// So many can be read and written `at`.
#[inline]
#[target_feature(enable = "aes")]
unsafe fn group<const ROUNDS: usize, const ENCRYPT: bool, const LANES: usize>(
    keys: &Schedule,
    at: Cursor,
) {
    let mut data = [zero(); GROUP];
    for (index, block) in data[..LANES].iter_mut().enumerate() {
        // SAFETY: the caller promises these blocks.
        *block = unsafe { load(at.source, index) };
    }
    turn::<ROUNDS, ENCRYPT, LANES>(opaque(keys), &mut data);
    for (index, block) in data[..LANES].iter().enumerate() {
        // SAFETY: as for the loads.
        unsafe { store(at.destination, index, *block) };
    }
}
