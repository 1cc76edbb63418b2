//! The volume key in locked memory.

use scrim_sys::memory::SecretBytes;

use crate::random::{self, RandomError};

/// The key that encrypts the data segment, in locked memory, wiped when dropped.
///
/// It has no `Debug`, `Clone` or `Display`: looking at it is the named act [`VolumeKey::expose`].
pub struct VolumeKey(SecretBytes);

impl VolumeKey {
    /// A new random key of `len` bytes.
    ///
    /// # Errors
    /// When the operating system gives no random bytes.
    pub fn generate(len: usize) -> Result<Self, RandomError> {
        let mut key = SecretBytes::zeroed(len);
        random::fill(key.expose_mut())?;
        Ok(Self(key))
    }

    /// A key that came from elsewhere, such as a volume key file.
    #[must_use]
    pub fn new(key: SecretBytes) -> Self {
        Self(key)
    }

    /// The bytes of the key, which no log may show.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        self.0.expose()
    }

    /// Length of the key in bytes.
    #[must_use]
    #[expect(
        clippy::len_without_is_empty,
        reason = "only the null cipher has an empty key"
    )]
    pub fn len(&self) -> usize {
        self.0.len()
    }
}
