//! Pseudorandom content for tests.

use scrim_seeded::Random;

/// Bytes that look random and are the same for the same seed.
pub(crate) fn noise(len: usize, seed: u64) -> Vec<u8> {
    Random::new(seed).bytes(len)
}
