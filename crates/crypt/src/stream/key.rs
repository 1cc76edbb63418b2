//! Expanded keys: by a kernel of this crate, or by AWS-LC.

use aws_lc_rs::aead::{
    AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey,
};

use super::aead::{Aead, NONCE, TAG};
use super::error::StreamError;
use crate::kernels::gcm::GcmKernel;
use crate::kernels::run::Data;
use crate::registry::{Implementation, best_gcm, gcm_by_driver, is_disabled};
use crate::wipe;

/// Name of AWS-LC's own AES-GCM, for `SCRIM_DISABLE`.
const AWS_LC: &str = "awslc";

/// Rank of AWS-LC's own AES-GCM: above that of the portable kernel, below that of kernels for processors.
const AWS_LC_PRIORITY: u32 = 200;

/// More of the stack than AWS-LC takes for a message, in bytes: its ChaCha20 leaves the key there.
const LIBRARY_STACK_BYTES: usize = 4 << 10;

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
        let expanded = match (aead, driver) {
            (Aead::ChaCha20Poly1305, None) => by_library(aead, key),
            (Aead::ChaCha20Poly1305, Some(_)) => Err(StreamError::DriverNotReady { aead }),
            (_, None) => by_best(aead, key),
            (_, Some(driver)) => by_kernel(aead, key, gcm_by_driver(driver)),
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
                let additional = Aad::from(additional);
                let sealed = key.seal_in_place_scatter(nonce, additional, content, &[], tag);
                wipe::below::<LIBRARY_STACK_BYTES>();
                sealed.map_err(|_| StreamError::Library)
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
                let additional = Aad::from(additional);
                let opened = key.open_in_place_separate_tag(nonce, additional, tag, content);
                wipe::below::<LIBRARY_STACK_BYTES>();
                opened.is_ok()
            }
        }
    }
}

/// Code that computes an AEAD.
enum Code {
    Kernel(&'static Implementation),
    Library,
}

/// Name of the code that computes `aead` where no driver is named: a driver's, or `awslc`. `None` where `SCRIM_DISABLE`
/// names all of it.
#[must_use]
pub fn code_for(aead: Aead) -> Option<&'static str> {
    let code = match aead {
        Aead::Aes128Gcm | Aead::Aes256Gcm => best()?,
        Aead::ChaCha20Poly1305 => Code::Library,
    };
    Some(match code {
        Code::Kernel(row) => row.driver,
        Code::Library => AWS_LC,
    })
}

/// The code for AES-GCM where no driver is named.
fn best() -> Option<Code> {
    let is_left = !is_disabled(AWS_LC);
    match best_gcm() {
        Some(row) if row.priority > AWS_LC_PRIORITY || !is_left => Some(Code::Kernel(row)),
        _ => is_left.then_some(Code::Library),
    }
}

/// AES-GCM by the code that is chosen where no driver is named.
fn by_best(aead: Aead, key: &[u8]) -> Result<Key, StreamError> {
    match best() {
        Some(Code::Kernel(row)) => by_kernel(aead, key, Some(row)),
        Some(Code::Library) => by_library(aead, key),
        None => Err(StreamError::NoCode { aead }),
    }
}

/// AES-GCM by this kernel, if there is one and it can be used here.
fn by_kernel(aead: Aead, key: &[u8], row: Option<&Implementation>) -> Result<Key, StreamError> {
    let kernel = row.and_then(|row| row.set_up_gcm(key));
    let kernel = kernel.ok_or(StreamError::DriverNotReady { aead })?;
    Ok(Key::Kernel(kernel))
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
