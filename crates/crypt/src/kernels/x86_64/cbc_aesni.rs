//! AES-CBC with AES-NI.
//!
//! | | |
//! |---|---|
//! | for | every x86-64 with AES-NI; no AVX needed |
//! | width | encryption: 8 data units side by side; decryption: 8 blocks of one unit |
//! | registers | 8 of data, 1 round key; decryption 1 more |
//! | bound | at 2 AESENC a cycle 0.4375 cycles a byte for AES-256, 0.3125 for AES-128 |
//! | constant time | yes |
//! | why | the kernel for CPUs with AES-NI but without VAES |
//!
//! Within a data unit each block's encryption waits for the one before, so that one alone uses an
//! eighth of the CPU's AES units. Of a run of several, 8 go in step, and of the last ones 4, 2 and
//! 1. Decryption has no such chain.

use core::arch::x86_64::*;

use super::RawRun;
use super::aesni::{Keyed, Keys, load, store};
use super::cpu::AesNi;
use super::lanes::{GROUP, Group, in_groups, turn, zero};
use super::opaque::opaque;
use crate::iv::{Ivs, OneByOne};
use crate::kernels::{Kernel, SectorKernel};
use crate::run::Run;
use crate::spec::Algorithm;

pub(crate) const CBC_AESNI: Kernel = Kernel {
    algorithm: Algorithm::AesCbc,
    driver: "cbc-aes-aesni",
    family: "aesni",
    priority: 400,
    constant_time: true,
    features: AesNi::FEATURES,
    runs_here: || AesNi::detect().is_some(),
    set_up: |key| {
        let proof = AesNi::detect()?;
        match key.len() {
            16 => Some(Box::new(Cbc::<10>(Keyed::new::<10>(proof, key)))),
            24 => Some(Box::new(Cbc::<12>(Keyed::new::<12>(proof, key)))),
            32 => Some(Box::new(Cbc::<14>(Keyed::new::<14>(proof, key)))),
            _ => None,
        }
    },
};

struct Cbc<const ROUNDS: usize>(Keyed);

impl<const ROUNDS: usize> SectorKernel for Cbc<ROUNDS> {
    fn encrypt(&self, ivs: Ivs<'_>, run: Run<'_>) {
        // SAFETY: `Keyed` has the proof that the CPU has AES-NI; `run`, and with it the memory that
        // the pointers point to, is borrowed until this returns.
        unsafe { encrypt::<ROUNDS>(&self.0.keys, ivs, &run.into()) }
    }

    fn decrypt(&self, ivs: Ivs<'_>, run: Run<'_>) {
        // SAFETY: as for `encrypt`.
        unsafe { decrypt::<ROUNDS>(&self.0.keys, ivs, &run.into()) }
    }
}

/// # Safety
/// `run` keeps the promises of [`RawRun`].
#[target_feature(enable = "aes")]
unsafe fn encrypt<const ROUNDS: usize>(keys: &Keys, mut ivs: Ivs<'_>, run: &RawRun) {
    in_groups!(run.units, at, LANES => {
        let at = at * run.unit;
        // SAFETY: `LANES` data units from byte `at` on are in the run.
        unsafe {
            let (source, destination) = (run.source.add(at), run.destination.add(at));
            units::<ROUNDS, LANES>(keys, &mut ivs, run.unit, source, destination);
        }
    });
}

/// Encrypts `LANES` data units of `unit` bytes side by side.
///
/// # Safety
/// So many can be read at `source` and written at `destination`, the same or others.
#[inline(never)]
#[target_feature(enable = "aes")]
unsafe fn units<const ROUNDS: usize, const LANES: usize>(
    keys: &Keys,
    ivs: &mut Ivs<'_>,
    unit: usize,
    source: *const u8,
    destination: *mut u8,
) {
    let mut first = [[0; 16]; GROUP];
    ivs.fill(&mut first[..LANES]);
    let mut chain: Group = [zero(); GROUP];
    for (block, iv) in chain[..LANES].iter_mut().zip(&first) {
        // SAFETY: an IV is 16 readable bytes.
        *block = unsafe { load(iv.as_ptr(), 0) };
    }
    for at in (0..unit).step_by(16) {
        let rounds = opaque(keys).rounds::<true>();
        for (lane, block) in chain[..LANES].iter_mut().enumerate() {
            // SAFETY: the caller promises these data units; `at` is a block within one.
            let plain = unsafe { load(source.add(lane * unit + at), 0) };
            *block = _mm_xor_si128(*block, plain);
        }
        turn::<ROUNDS, true, LANES>(rounds, &mut chain);
        for (lane, block) in chain[..LANES].iter().enumerate() {
            // SAFETY: as for the loads.
            unsafe { store(destination.add(lane * unit + at), 0, *block) };
        }
    }
}

/// # Safety
/// `run` keeps the promises of [`RawRun`].
#[target_feature(enable = "aes")]
unsafe fn decrypt<const ROUNDS: usize>(keys: &Keys, ivs: Ivs<'_>, run: &RawRun) {
    let mut ivs = OneByOne::new(ivs, run.units);
    for unit in 0..run.units {
        let iv = ivs.next();
        // SAFETY: an IV is 16 readable bytes.
        let mut before = unsafe { load(iv.as_ptr(), 0) };
        in_groups!(run.unit / 16, at, LANES => {
            let at = unit * run.unit + 16 * at;
            // SAFETY: `LANES` blocks from byte `at` on are in this data unit of the run.
            unsafe {
                let (source, destination) = (run.source.add(at), run.destination.add(at));
                before = group::<ROUNDS, LANES>(keys, before, source, destination);
            }
        });
    }
}

/// Decrypts `LANES` blocks that follow the ciphertext block `before`; returns the last ciphertext
/// block.
///
/// # Safety
/// So many can be read at `source` and written at `destination`, the same or others.
#[inline]
#[target_feature(enable = "aes")]
unsafe fn group<const ROUNDS: usize, const LANES: usize>(
    keys: &Keys,
    before: __m128i,
    source: *const u8,
    destination: *mut u8,
) -> __m128i {
    let rounds = opaque(keys).rounds::<false>();
    let mut data = [zero(); GROUP];
    for (index, block) in data[..LANES].iter_mut().enumerate() {
        // SAFETY: the caller promises these blocks.
        *block = unsafe { load(source, index) };
    }
    let last = data[LANES - 1];
    turn::<ROUNDS, false, LANES>(rounds, &mut data);
    // Backwards: in place, each block's predecessor must still be ciphertext.
    for index in (0..LANES).rev() {
        // SAFETY: as for the loads above.
        unsafe {
            let chained = if index == 0 {
                before
            } else {
                load(source, index - 1)
            };
            store(destination, index, _mm_xor_si128(data[index], chained));
        }
    }
    last
}
