//! ChaCha20-Poly1305 (RFC 8439) in parts.

use chacha20::ChaCha20;
use chacha20::cipher::{KeyIvInit, StreamCipher, StreamCipherSeek};
use poly1305::Poly1305;
use poly1305::universal_hash::{KeyInit, UniversalHash};
use scrim_sys::memory::Locked;

use super::Session;
use crate::stream::NONCE;

pub(super) struct ChaChaKey(Locked<[u8; 32]>);

/// Length of a block of the key stream, in bytes. The first block is for Poly1305.
const BLOCK: u64 = 64;

impl ChaChaKey {
    pub(super) fn new(key: &[u8; 32]) -> Self {
        let mut locked = Locked::new(|| [0; 32]);
        locked.copy_from_slice(key);
        Self(locked)
    }

    /// Runs in a stack frame of its own, which the caller wipes.
    #[inline(never)]
    pub(super) fn session(&self, nonce: [u8; NONCE]) -> ChaChaPoly {
        let key = (&*self.0).into();
        let mut stream = Locked::new(|| ChaCha20::new(key, &nonce.into()));
        let mut one_time = Locked::new(|| [0; 32]);
        stream.unchecked_apply_keystream(&mut *one_time);
        let hash = || Locked::new(|| Poly1305::new((&*one_time).into()));
        ChaChaPoly {
            fresh: hash(),
            hash: hash(),
            stream,
        }
    }
}

pub(super) struct ChaChaPoly {
    stream: Locked<ChaCha20>,
    /// Poly1305 before any input.
    fresh: Locked<Poly1305>,
    hash: Locked<Poly1305>,
}

impl Session for ChaChaPoly {
    #[inline(never)]
    fn restart(&mut self) {
        *self.hash = self.fresh.clone();
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
        let lengths = [additional.to_le_bytes(), message.to_le_bytes()];
        self.absorb(lengths.as_flattened());
        self.state()
    }

    /// A message's blocks are fewer than the counter has numbers. That is the check left out here:
    /// the library's own refuses the last of them.
    #[inline(never)]
    fn decrypt(&mut self, at: u64, bytes: &mut [u8]) {
        self.stream.seek(BLOCK + at);
        self.stream.unchecked_apply_keystream(bytes);
    }
}
