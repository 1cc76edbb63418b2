//! What the AES-NI kernels of CBC, CTR and ECB share: one key, expanded for both directions.

use core::arch::x86_64::*;

use scrim_sys::memory::Locked;

use super::cpu::AesNi;
use super::key::{RoundKeys, expand, invert};
use super::lanes::zero;

/// An expanded key, with the proof that it may be used.
pub(super) struct Keyed {
    pub(super) keys: Locked<Keys>,
    /// What allows functions with AES-NI to be called.
    _proof: AesNi,
}

#[repr(C, align(64))]
pub(super) struct Keys {
    pub(super) encrypt: RoundKeys,
    pub(super) decrypt: RoundKeys,
}

impl Keyed {
    /// `ROUNDS` is 10 for a key of 16 bytes, 12 for one of 24, 14 for one of 32.
    pub(super) fn new<const ROUNDS: usize>(proof: AesNi, key: &[u8]) -> Self {
        let mut keys = Locked::new(|| Keys {
            encrypt: [zero(); 15],
            decrypt: [zero(); 15],
        });
        // SAFETY: `proof` shows that the CPU has AES-NI.
        unsafe { keys.expand::<ROUNDS>(key) };
        Self {
            keys,
            _proof: proof,
        }
    }
}

impl Keys {
    #[target_feature(enable = "aes")]
    fn expand<const ROUNDS: usize>(&mut self, key: &[u8]) {
        expand::<ROUNDS>(key, &mut self.encrypt);
        invert::<ROUNDS>(&self.encrypt, &mut self.decrypt);
    }

    #[inline]
    pub(super) fn rounds<const ENCRYPT: bool>(&self) -> &RoundKeys {
        if ENCRYPT {
            &self.encrypt
        } else {
            &self.decrypt
        }
    }
}

/// # Safety
/// 16 bytes can be read at block `index` from `source`.
#[inline]
#[target_feature(enable = "sse2")]
pub(super) unsafe fn load(source: *const u8, index: usize) -> __m128i {
    // SAFETY: the caller promises them.
    unsafe { _mm_loadu_si128(source.add(16 * index).cast()) }
}

/// # Safety
/// 16 bytes can be written at block `index` from `destination`.
#[inline]
#[target_feature(enable = "sse2")]
pub(super) unsafe fn store(destination: *mut u8, index: usize, block: __m128i) {
    // SAFETY: the caller promises them.
    unsafe { _mm_storeu_si128(destination.add(16 * index).cast(), block) }
}
