//! A key that is forgotten, and can be recognised.

use std::sync::{Arc, Weak};

use scrim_luks::VolumeKey;
use scrim_luks::kdf::{Hash, Kdf};
use scrim_sys::memory::SecretBytes;

use crate::target::Target;

/// Recogniser of a key that is forgotten, by the ciphertext that it makes.
///
/// The cipher, which keeps its keys in memory for secrets, encrypts a sector of zeros behind the volume's end, and the
/// digest of that is kept. No hash ever sees the key itself, of which it would leave a copy on the stack.
pub(crate) struct ForgottenKey {
    /// Index of the target whose key it is.
    target: usize,
    /// Offset from the target's start, in bytes, at which the volume has no data.
    offset: u64,
    key_len: usize,
    digest: [u8; 32],
    /// Alive while any part is left of the mapping that had the key.
    remains: Weak<()>,
}

impl ForgottenKey {
    /// Makes the recogniser of the key of `targets[index]` in a volume of `size` bytes; `None` where its digest cannot
    /// be computed. `alive` lives as long as anything that has the key.
    pub(super) fn of(
        targets: &[Target],
        index: usize,
        key: &VolumeKey,
        size: u64,
        alive: &Arc<()>,
    ) -> Option<Self> {
        let target = targets.get(index)?;
        let end = size.saturating_sub(target.range.start);
        let offset = end.checked_next_multiple_of(target.unit() as u64)?;
        Some(Self {
            target: index,
            offset,
            key_len: key.len(),
            digest: digest(target, offset)?,
            remains: Arc::downgrade(alive),
        })
    }

    /// Tells whether `key` may be the one: it has the same length.
    pub(crate) fn fits(&self, key: &VolumeKey) -> bool {
        key.len() == self.key_len
    }

    /// Tells whether `targets`, which are the same but for their key, have this key.
    pub(super) fn is_of(&self, targets: &[Target]) -> bool {
        let target = targets.get(self.target);
        target.and_then(|target| digest(target, self.offset)) == Some(self.digest)
    }

    /// Tells whether any thread still has the key in memory.
    pub(crate) fn remains(&self) -> bool {
        self.remains.strong_count() > 0
    }
}

/// Returns a digest of zeros that are encrypted for `offset`. With a stream cipher such a sector, were it kept
/// itself, would reveal every sector with the same IV to its reader.
fn digest(target: &Target, offset: u64) -> Option<[u8; 32]> {
    let len = target.unit();
    let mut sealed = SecretBytes::zeroed(len);
    target.encrypt(offset, &vec![0; len], sealed.expose_mut());
    let derivation = Kdf::Pbkdf2 {
        hash: Hash::Sha256,
        iterations: 1000,
    };
    let mut digest = [0; 32];
    derivation
        .derive(sealed.expose(), b"scrim forgotten key", &mut digest)
        .ok()?;
    Some(digest)
}
