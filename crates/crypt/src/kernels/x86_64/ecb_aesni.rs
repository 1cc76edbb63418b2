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

use super::RawRun;
use super::aesni::{Keyed, Keys, load, store};
use super::cpu::AesNi;
use super::lanes::{GROUP, in_groups, turn, zero};
use super::opaque::opaque;
use crate::iv::Ivs;
use crate::kernels::{Kernel, SectorKernel};
use crate::run::Run;
use crate::spec::Algorithm;

pub(crate) const ECB_AESNI: Kernel = Kernel {
    algorithm: Algorithm::AesEcb,
    driver: "ecb-aes-aesni",
    family: "aesni",
    priority: 400,
    constant_time: true,
    features: AesNi::FEATURES,
    runs_here: || AesNi::detect().is_some(),
    set_up: |key| {
        let proof = AesNi::detect()?;
        match key.len() {
            16 => Some(Box::new(Ecb::<10>(Keyed::new::<10>(proof, key)))),
            24 => Some(Box::new(Ecb::<12>(Keyed::new::<12>(proof, key)))),
            32 => Some(Box::new(Ecb::<14>(Keyed::new::<14>(proof, key)))),
            _ => None,
        }
    },
};

struct Ecb<const ROUNDS: usize>(Keyed);

impl<const ROUNDS: usize> SectorKernel for Ecb<ROUNDS> {
    fn encrypt(&self, _: Ivs<'_>, run: Run<'_>) {
        // SAFETY: `Keyed` has the proof that the CPU has AES-NI; `run`, and with it the memory that
        // the pointers point to, is borrowed until this returns.
        unsafe { transform::<ROUNDS, true>(&self.0.keys, &run.into()) }
    }

    fn decrypt(&self, _: Ivs<'_>, run: Run<'_>) {
        // SAFETY: as for `encrypt`.
        unsafe { transform::<ROUNDS, false>(&self.0.keys, &run.into()) }
    }
}

/// # Safety
/// `run` keeps the promises of [`RawRun`].
#[target_feature(enable = "aes")]
unsafe fn transform<const ROUNDS: usize, const ENCRYPT: bool>(keys: &Keys, run: &RawRun) {
    in_groups!(run.units * (run.unit / 16), at, LANES => {
        // SAFETY: blocks `at` to `at + LANES` are in the run.
        unsafe {
            let (source, destination) = (run.source.add(16 * at), run.destination.add(16 * at));
            group::<ROUNDS, ENCRYPT, LANES>(keys, source, destination);
        }
    });
}

/// Transforms `LANES` blocks.
///
/// # Safety
/// So many can be read at `source` and written at `destination`, the same or others.
#[inline]
#[target_feature(enable = "aes")]
unsafe fn group<const ROUNDS: usize, const ENCRYPT: bool, const LANES: usize>(
    keys: &Keys,
    source: *const u8,
    destination: *mut u8,
) {
    let rounds = opaque(keys).rounds::<ENCRYPT>();
    let mut data = [zero(); GROUP];
    for (index, block) in data[..LANES].iter_mut().enumerate() {
        // SAFETY: the caller promises these blocks.
        *block = unsafe { load(source, index) };
    }
    turn::<ROUNDS, ENCRYPT, LANES>(rounds, &mut data);
    for (index, block) in data[..LANES].iter().enumerate() {
        // SAFETY: as for the loads.
        unsafe { store(destination, index, *block) };
    }
}
