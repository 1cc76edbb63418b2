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
use super::lanes::{GROUP, all_rounds, in_groups, zero};
use super::mode::kernel;
use super::opaque::opaque;
use super::wide::{Mode, Schedules};
use crate::kernels::descriptor::Kernel;
use crate::kernels::iv::Ivs;
use crate::spec::Algorithm;

pub(crate) const ECB_AESNI: Kernel = kernel::<Ecb, AesNi>(Algorithm::AesEcb, "ecb-aes-aesni");

struct Ecb;

impl Mode<AesNi> for Ecb {
    type Keys = Schedules<AesNi>;

    /// # Safety
    /// As the trait says.
    #[inline(always)]
    unsafe fn transform<const ROUNDS: usize, const ENCRYPT: bool>(
        _: AesNi,
        keys: &Schedules<AesNi>,
        _: &mut Ivs<'_>,
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
#[inline]
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
    all_rounds::<ROUNDS, ENCRYPT, LANES>(opaque(keys), &mut data);
    for (index, block) in data[..LANES].iter().enumerate() {
        // SAFETY: as for the loads.
        unsafe { store(at.destination, index, *block) };
    }
}
