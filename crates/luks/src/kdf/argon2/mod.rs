//! Argon2 (RFC 9106), version 1.3.
//!
//! Argon2 is limited by memory, and what makes it fast is how it treats memory: huge pages, first
//! touched by the threads that will use them; blocks that are asked for before they are needed; and
//! several lanes in turn on one thread, so that one computes while another waits.

mod blake2b;
mod fill;

use scrim_crypt::argon2::Block;
use scrim_sys::memory::HugeSlice;
use zeroize::Zeroizing;

use self::blake2b::{blake2b, length, long_hash};
use self::fill::{Matrix, SLICES};
use super::error::{KdfError, check};
use super::guard::Watch;
use super::input::Input;
use super::machine::MachineLimits;
use super::parameters::{Argon2Cost, Argon2Kind};

/// Bytes of a block.
const BLOCK_BYTES: usize = size_of::<Block>();

/// Most memory, in KiB: 4 GiB, as much as cryptsetup ever asks for.
const MAX_MEMORY_KIB: u32 = 4 << 20;

/// Most passes, times KiB of memory: a thousand times the usual four passes over 1 GiB, which takes
/// half an hour.
pub(super) const MAX_WORK_KIB: u64 = 1 << 32;

/// Most lanes. Cryptsetup never asks for more than 4; each takes some memory of its own here.
const MAX_LANES: u32 = 256;

/// Bytes of salt that the reference implementation takes at least.
const MIN_SALT: u64 = 8;

/// The length fields of the first hash have 32 bits.
const MAX_LENGTH: u64 = u32::MAX as u64;

impl Argon2Kind {
    /// y in section 3.2.
    fn number(self) -> u32 {
        match self {
            Self::Argon2i => 1,
            Self::Argon2id => 2,
        }
    }
}

/// Fills `out` with the tag of `passphrase` and `salt`.
pub(super) fn derive(
    kind: Argon2Kind,
    cost: Argon2Cost,
    limits: &MachineLimits,
    watch: &Watch<'_>,
    input: Input<'_>,
    out: &mut [u8],
) -> Result<(), KdfError> {
    let Input { passphrase, salt } = input;
    cost.check(limits)?;
    check(
        "bytes of passphrase",
        passphrase.len() as u64,
        0,
        MAX_LENGTH,
    )?;
    check("bytes of salt", salt.len() as u64, MIN_SALT, MAX_LENGTH)?;
    check("bytes of key", out.len() as u64, 4, MAX_LENGTH)?;

    let seed = seed(kind, cost, passphrase, salt, out)?;
    let matrix = Matrix::new(kind, cost);
    tag(&matrix, &seed, limits.cpus, watch, out)
}

/// Computes the tag from `seed`: it depends on nothing else.
fn tag(
    matrix: &Matrix,
    seed: &[u8; 64],
    cpus: usize,
    watch: &Watch<'_>,
    out: &mut [u8],
) -> Result<(), KdfError> {
    let need_kib = matrix.blocks() as u64;
    let mut memory =
        HugeSlice::zeroed(matrix.blocks()).ok_or(KdfError::MemoryRefused { need_kib })?;
    start_lanes(matrix, &mut memory, seed)?;
    matrix.fill(&mut memory, cpus, watch)?;
    finish(matrix, &memory, out)
}

impl Argon2Cost {
    /// Refuses what is not Argon2, what would not end, and what this machine has no memory for.
    pub(super) fn check(self, limits: &MachineLimits) -> Result<(), KdfError> {
        let memory_kib = u64::from(self.memory_kib);
        check("lanes", self.lanes.into(), 1, MAX_LANES.into())?;
        let least = 8 * u64::from(self.lanes);
        check("KiB of memory", memory_kib, least, MAX_MEMORY_KIB.into())?;
        check("passes", self.time.into(), 1, MAX_WORK_KIB / memory_kib)?;
        if memory_kib > limits.available_kib {
            return Err(KdfError::Memory {
                need_kib: memory_kib,
                have_kib: limits.available_kib,
            });
        }
        Ok(())
    }
}

/// H₀ (section 3.2, step 1). Neither secret value nor associated data: LUKS2 has none.
fn seed(
    kind: Argon2Kind,
    cost: Argon2Cost,
    passphrase: &[u8],
    salt: &[u8],
    out: &[u8],
) -> Result<Zeroizing<[u8; 64]>, KdfError> {
    const VERSION: u32 = 0x13;
    let mut seed = Zeroizing::new([0; 64]);
    blake2b(
        &[
            &cost.lanes.to_le_bytes(),
            &length(out),
            &cost.memory_kib.to_le_bytes(),
            &cost.time.to_le_bytes(),
            &VERSION.to_le_bytes(),
            &kind.number().to_le_bytes(),
            &length(passphrase),
            passphrase,
            &length(salt),
            salt,
            &length(&[]),
            &length(&[]),
        ],
        &mut *seed,
    )?;
    Ok(seed)
}

/// The first two blocks of every lane (section 3.2, steps 3 and 4).
fn start_lanes(matrix: &Matrix, memory: &mut [Block], seed: &[u8; 64]) -> Result<(), KdfError> {
    let mut bytes = Zeroizing::new([0; BLOCK_BYTES]);
    for (number, lane) in (0u32..).zip(matrix.segments_of(memory, 0)) {
        for (column, block) in (0u32..2).zip(lane) {
            long_hash(
                &[seed, &column.to_le_bytes(), &number.to_le_bytes()],
                &mut *bytes,
            )?;
            for (word, bytes) in block.iter_mut().zip(bytes.as_chunks().0) {
                *word = u64::from_le_bytes(*bytes);
            }
        }
    }
    Ok(())
}

/// The tag, from the exclusive or of the last blocks of all lanes (section 3.2, steps 7 and 8).
fn finish(matrix: &Matrix, memory: &[Block], out: &mut [u8]) -> Result<(), KdfError> {
    let mut bytes = Zeroizing::new([0; BLOCK_BYTES]);
    for lane in 0..matrix.lanes() {
        let last = &memory[matrix.last_block(SLICES - 1, lane)];
        for (bytes, word) in bytes.as_chunks_mut().0.iter_mut().zip(last) {
            *bytes = (u64::from_le_bytes(*bytes) ^ word).to_le_bytes();
        }
    }
    long_hash(&[&*bytes], out)
}

#[cfg(test)]
mod tests;
