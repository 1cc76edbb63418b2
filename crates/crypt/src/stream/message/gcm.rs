//! AES-GCM (NIST SP 800-38D) in parts, with nonces of 96 bits.

use ghash::GHash;
use ghash::universal_hash::UniversalHash;
use scrim_sys::memory::Locked;

use super::Session;
use crate::kernels::iv::SectorKernel;
use crate::kernels::iv::{Block, Ivs};
use crate::kernels::run::{Run, UNIT_MAX};
use crate::registry;
use crate::stream::NONCE;

/// An expanded key.
pub(super) struct GcmKey {
    counter_mode: Box<dyn SectorKernel>,
    /// GHASH before any input.
    hash: Locked<GHash>,
}

impl GcmKey {
    /// Runs in a stack frame of its own, which the caller wipes. `None` without a driver for `key`.
    #[inline(never)]
    pub(super) fn new(key: &[u8]) -> Option<Self> {
        let counter_mode = registry::counter_mode()?.set_up(key)?;
        // The encrypted zero block (section 7.1, step 1).
        let hash = stream(&*counter_mode, [0; 16]);
        Some(Self {
            counter_mode,
            hash: Locked::new(|| GHash::new(&hash.into())),
        })
    }

    /// Runs in a stack frame of its own, which the caller wipes.
    #[inline(never)]
    pub(super) fn session(&self, nonce: [u8; NONCE]) -> Gcm<'_> {
        Gcm {
            key: self,
            hash: Locked::new(|| self.hash.clone()),
            nonce,
        }
    }
}

pub(super) struct Gcm<'a> {
    key: &'a GcmKey,
    hash: Locked<GHash>,
    nonce: [u8; NONCE],
}

impl Gcm<'_> {
    /// The counter block of this number: 1 masks the tag, those from 2 on the message.
    fn counter(&self, number: u32) -> Block {
        let mut block = [0; 16];
        block[..NONCE].copy_from_slice(&self.nonce);
        block[NONCE..].copy_from_slice(&number.to_be_bytes());
        block
    }
}

impl Session for Gcm<'_> {
    #[inline(never)]
    fn restart(&mut self) {
        *self.hash = self.key.hash.clone();
    }

    #[inline(never)]
    fn absorb(&mut self, bytes: &[u8]) {
        self.hash.update_padded(bytes);
    }

    #[inline(never)]
    fn state(&self) -> [u8; 16] {
        self.hash.clone().finalize().into()
    }

    #[inline(never)]
    fn tag(&mut self, additional: u64, message: u64) -> [u8; 16] {
        let bits = |bytes: u64| bytes.wrapping_mul(8).to_be_bytes();
        self.absorb([bits(additional), bits(message)].as_flattened());
        let mask = stream(&*self.key.counter_mode, self.counter(1));
        let hash = u128::from_ne_bytes(self.state());
        (hash ^ u128::from_ne_bytes(mask)).to_ne_bytes()
    }

    /// A message's blocks are fewer than the counter has numbers, so that no carry leaves it.
    #[inline(never)]
    fn decrypt(&mut self, at: u64, bytes: &mut [u8]) {
        let first = u128::from_be_bytes(self.counter(2)) + u128::from(at / 16);
        let whole = bytes.len() / UNIT_MAX * UNIT_MAX;
        let (units, rest) = bytes.split_at_mut(whole);
        let blocks = (UNIT_MAX / 16) as u64;
        let ivs = Ivs::counters(first.to_be_bytes(), blocks);
        let kernel = &self.key.counter_mode;
        kernel.decrypt(ivs, Run::in_place(UNIT_MAX, units));
        if !rest.is_empty() {
            let first = first + (whole / 16) as u128;
            let ivs = Ivs::constant(first.to_be_bytes());
            kernel.decrypt(ivs, Run::in_place(rest.len(), rest));
        }
    }
}

/// The block of the key stream at `counter`.
fn stream(counter_mode: &dyn SectorKernel, counter: Block) -> Block {
    let mut block = [0; 16];
    counter_mode.encrypt(Ivs::constant(counter), Run::in_place(16, &mut block));
    block
}
