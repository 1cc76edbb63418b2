//! Expanded keys: of AES-GCM by a kernel of this crate, where one runs here, and otherwise by AWS-LC.

use aws_lc_rs::aead::{
    AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey,
};

use super::aead::{Aead, NONCE, TAG};
use super::error::StreamError;
use crate::kernels::gcm::GcmKernel;
use crate::kernels::run::Data;
use crate::registry::set_up_gcm;
use crate::wipe;

/// An expanded key, and whose code uses it.
pub(super) enum Key {
    Kernel(Box<dyn GcmKernel>),
    Library(LessSafeKey),
}

impl Key {
    /// Expands `key` for the best code, or the driver that is named, and wipes what that leaves on the stack.
    pub(super) fn expand(
        aead: Aead,
        driver: Option<&str>,
        key: &[u8],
    ) -> Result<Self, StreamError> {
        if key.len() != aead.key_size() {
            let bytes = key.len();
            return Err(StreamError::KeySize { aead, bytes });
        }
        let kernel = match aead {
            Aead::Aes128Gcm | Aead::Aes256Gcm => set_up_gcm(key, driver).map(Self::Kernel),
            Aead::ChaCha20Poly1305 => None,
        };
        let expanded = match (kernel, driver) {
            (Some(kernel), _) => Ok(kernel),
            (None, Some(_)) => Err(StreamError::DriverNotReady { aead }),
            (None, None) => by_library(aead, key),
        };
        wipe::stack();
        expanded
    }

    /// Encrypts `content` in place, and writes its tag. No nonce may be used twice.
    #[inline]
    pub(super) fn seal(
        &self,
        nonce: [u8; NONCE],
        additional: &[u8],
        content: &mut [u8],
        tag: &mut [u8; TAG],
    ) -> Result<(), StreamError> {
        match self {
            Self::Kernel(kernel) => {
                *tag = kernel.seal(&nonce, additional, Data::InPlace(content));
                Ok(())
            }
            Self::Library(key) => {
                let nonce = Nonce::assume_unique_for_key(nonce);
                key.seal_in_place_scatter(nonce, Aad::from(additional), content, &[], tag)
                    .map_err(|_| StreamError::Library)
            }
        }
    }

    /// Decrypts `content` in place if its tag is right; otherwise leaves zeros and returns false.
    #[inline]
    pub(super) fn open(
        &self,
        nonce: [u8; NONCE],
        additional: &[u8],
        content: &mut [u8],
        tag: &[u8; TAG],
    ) -> bool {
        match self {
            Self::Kernel(kernel) => {
                let expected = kernel.open(&nonce, additional, Data::InPlace(content));
                let is_right = are_equal(expected, *tag);
                if !is_right {
                    content.fill(0);
                }
                is_right
            }
            Self::Library(key) => {
                let nonce = Nonce::assume_unique_for_key(nonce);
                key.open_in_place_separate_tag(nonce, Aad::from(additional), tag, content)
                    .is_ok()
            }
        }
    }
}

fn by_library(aead: Aead, key: &[u8]) -> Result<Key, StreamError> {
    let algorithm = match aead {
        Aead::Aes128Gcm => &AES_128_GCM,
        Aead::Aes256Gcm => &AES_256_GCM,
        Aead::ChaCha20Poly1305 => &CHACHA20_POLY1305,
    };
    let key = UnboundKey::new(algorithm, key).map_err(|_| StreamError::Library)?;
    Ok(Key::Library(LessSafeKey::new(key)))
}

/// Compares two tags. Its time does not tell where they differ.
fn are_equal(one: [u8; TAG], other: [u8; TAG]) -> bool {
    let differing = u128::from_ne_bytes(one) ^ u128::from_ne_bytes(other);
    std::hint::black_box(differing) == 0
}
