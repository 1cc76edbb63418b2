//! aws-lc, linked in. Its functions have a prefix of their own, so that they and OpenSSL's do not
//! meet.

use aws_lc_sys as ffi;

use super::evp::evp;
use crate::rival::{Library, tagged};
use crate::work::{NONCE, nonce};

evp!(ffi);

pub(crate) const AWS_LC: Library = Library {
    name: "awslc",
    version: || {
        let number = ffi::AWSLC_VERSION_NUMBER_STRING.strip_suffix(&[0]);
        let number = String::from_utf8_lossy(number.unwrap_or_default());
        Ok(format!("AWS-LC {number}"))
    },
    set_up,
};

fn set_up(work: Work) -> SetUp {
    // SAFETY: these functions return constants.
    let cipher = unsafe {
        match work.cipher {
            Cipher::Aes256Xts => ffi::EVP_aes_256_xts(),
            // aws-lc does not have these.
            Cipher::Aes128Xts
            | Cipher::Serpent256Xts
            | Cipher::Camellia256Xts
            | Cipher::Adiantum12 => return Ok(None),
            Cipher::Aes256CbcEssiv => ffi::EVP_aes_256_cbc(),
            Cipher::Aes128Cbc => ffi::EVP_aes_128_cbc(),
            Cipher::Aes128Ctr => ffi::EVP_aes_128_ctr(),
            Cipher::Aes128Ecb => ffi::EVP_aes_128_ecb(),
            Cipher::Aes128Gcm | Cipher::Aes256Gcm => {
                return Ok(Some(Box::new(Records::new(work)?)));
            }
        }
    };
    // SAFETY: the cipher that goes with the key.
    unsafe { set_up_sectors(cipher, work) }
}

/// GCM by the `EVP_AEAD` interface.
struct Records {
    context: NonNull<ffi::EVP_AEAD_CTX>,
    work: Work,
}

impl Records {
    fn new(work: Work) -> Result<Self, Fault> {
        let key = work.cipher.key();
        // SAFETY: AES-GCM with its key and the usual length of a tag.
        let context = unsafe {
            let cipher = match work.cipher {
                Cipher::Aes256Gcm => ffi::EVP_aead_aes_256_gcm(),
                _ => ffi::EVP_aead_aes_128_gcm(),
            };
            ffi::EVP_AEAD_CTX_new(cipher, key.as_ptr(), key.len(), BLOCK)
        };
        let context = NonNull::new(context).ok_or(Fault::of("EVP_AEAD_CTX_new"))?;
        Ok(Self { context, work })
    }
}

impl Records {
    fn seal(
        &self,
        nonce: &[u8; NONCE],
        data: &mut [u8],
        tag: &mut [u8; BLOCK],
    ) -> Result<(), Fault> {
        let (at, mut tag_len) = (data.as_mut_ptr(), 0);
        // SAFETY: in place over the data, a nonce of 12 bytes, room for a tag of 16, no further
        // input and no associated data.
        let status = unsafe {
            ffi::EVP_AEAD_CTX_seal_scatter(
                self.context.as_ptr(),
                at,
                tag.as_mut_ptr(),
                &raw mut tag_len,
                tag.len(),
                nonce.as_ptr(),
                nonce.len(),
                at,
                data.len(),
                null(),
                0,
                null(),
                0,
            )
        };
        Fault::unless(1, "EVP_AEAD_CTX_seal_scatter", status)
    }

    fn open(&self, nonce: &[u8; NONCE], data: &mut [u8], tag: &[u8; BLOCK]) -> Result<(), Fault> {
        let at = data.as_mut_ptr();
        // SAFETY: in place over the data, a nonce of 12 bytes, a tag of 16 and no associated data.
        let status = unsafe {
            ffi::EVP_AEAD_CTX_open_gather(
                self.context.as_ptr(),
                at,
                nonce.as_ptr(),
                nonce.len(),
                at,
                data.len(),
                tag.as_ptr(),
                tag.len(),
                null(),
                0,
            )
        };
        Fault::unless(1, "EVP_AEAD_CTX_open_gather", status)
    }
}

impl Turns for Records {
    fn turn(&mut self, direction: Direction, first: u64, run: &mut [u8]) -> Result<(), Fault> {
        for (number, record) in self.work.units(first, run) {
            let (data, tag) = tagged(record)?;
            match direction {
                Direction::Encrypt => self.seal(&nonce(number), data, tag)?,
                Direction::Decrypt => self.open(&nonce(number), data, tag)?,
            }
        }
        Ok(())
    }
}

impl Drop for Records {
    fn drop(&mut self) {
        // SAFETY: the context is ours, and is used no more.
        unsafe { ffi::EVP_AEAD_CTX_free(self.context.as_ptr()) };
    }
}
