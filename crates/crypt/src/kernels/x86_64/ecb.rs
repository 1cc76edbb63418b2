//! AES-ECB at any width. Blocks know nothing of data units, so the run is taken as a whole.
//!
//! | | 128-bit registers | 256-bit registers | 512-bit registers |
//! |---|---|---|---|
//! | for | every x86-64 with AES-NI; no AVX needed | CPUs with VAES but without AVX-512: Zen 3, Alder Lake and later | Ice Lake and Sapphire Rapids, Zen 4, and later |
//! | width | 8 blocks in flight, for a latency of up to 4 cycles at 2 AESENC a cycle | 8 registers of 2 blocks, likewise | 8 registers of 4 blocks |
//! | registers | 8 of data, 1 round key | likewise | likewise |
//! | bound for AES-256 | at two AESENC a cycle 0.4375 cycles a byte | at two VAESENC of 32 bytes a cycle 0.219 | at a VAESENC of 64 bytes a cycle 0.219 |
//! | bound for AES-128 | 0.3125 | 0.156 | 0.156 |
//! | constant time | yes | yes | yes |
//! | why | makes the IVs of ESSIV; as a mode of its own only for volumes that exist | likewise | likewise |

use super::aes::{Aes, WIDTH, in_groups_of_registers, rounds};
use super::cpu::{AesNi, Vaes2, Vaes512};
use super::mode::kernel;
use super::wide::{Mode, Schedule, Schedules};
use crate::kernels::cursor::Cursor;
use crate::kernels::descriptor::Kernel;
use crate::kernels::iv::Ivs;
use crate::kernels::opaque::opaque;
use crate::spec::Algorithm;

pub(crate) const ECB_AESNI: Kernel = kernel::<Ecb, AesNi>(Algorithm::AesEcb, "ecb-aes-aesni");
pub(crate) const ECB_VAES2: Kernel = kernel::<Ecb, Vaes2>(Algorithm::AesEcb, "ecb-aes-vaes2");
pub(crate) const ECB_VAES512: Kernel = kernel::<Ecb, Vaes512>(Algorithm::AesEcb, "ecb-aes-vaes512");

struct Ecb;

impl<W: Aes> Mode<W> for Ecb {
    type Keys = Schedules<W>;

    /// # Safety
    /// As the trait says.
    #[inline(always)]
    unsafe fn transform<const ROUNDS: usize, const ENCRYPT: bool>(
        width: W,
        keys: &Schedules<W>,
        _: &mut Ivs<'_>,
        at: Cursor,
        unit: usize,
        units: usize,
    ) {
        let blocks = units * (unit / 16);
        // SAFETY: the caller promises what is to be read and written.
        unsafe { transform::<W, ROUNDS, ENCRYPT>(width, keys.of::<ENCRYPT>(), at, blocks) }
    }
}

/// # Safety
/// `blocks` blocks can be read and written at `start`.
#[inline(always)]
unsafe fn transform<W: Aes, const ROUNDS: usize, const ENCRYPT: bool>(
    width: W,
    keys: &Schedule<W>,
    start: Cursor,
    blocks: usize,
) {
    in_groups_of_registers!(W::LANES, blocks, |index, N, WHOLE, len| {
        // SAFETY: blocks `index` to `index + len` are among them.
        unsafe {
            let at = start.add(16 * index);
            at.prefetch(16 * len, 16 * (blocks - index));
            group::<W, ROUNDS, ENCRYPT, N, WHOLE>(width, keys, at, len);
        }
    });
}

/// Transforms `N` registers of blocks, or the first `blocks` blocks of one.
///
/// # Safety
/// They can be read and written `at`.
#[inline(always)]
unsafe fn group<
    W: Aes,
    const ROUNDS: usize,
    const ENCRYPT: bool,
    const N: usize,
    const WHOLE: bool,
>(
    width: W,
    keys: &Schedule<W>,
    at: Cursor,
    blocks: usize,
) {
    let keys = opaque(keys);
    let bytes = 16 * W::LANES;
    let mut data = [W::ZERO; WIDTH];
    for (index, register) in data[..N].iter_mut().enumerate() {
        // SAFETY: the caller promises the blocks.
        let input = unsafe { width.load::<WHOLE>(at.source.wrapping_add(bytes * index), blocks) };
        *register = width.xor(input, keys[0]);
    }
    rounds::<W, ROUNDS, ENCRYPT, N>(width, keys, &mut data);
    for (index, register) in data[..N].iter().enumerate() {
        let output = width.last_round::<ENCRYPT>(*register, keys[ROUNDS]);
        // SAFETY: as for the loads.
        unsafe {
            let to = at.destination.wrapping_add(bytes * index);
            width.store::<WHOLE>(to, blocks, output);
        }
    }
}
