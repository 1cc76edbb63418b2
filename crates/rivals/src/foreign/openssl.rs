//! OpenSSL, built from its own sources and linked in.

use std::ffi::c_void;

use openssl_sys as ffi;

use super::evp::evp;
use super::library::text;
use crate::rival::{Library, tagged};
use crate::work::{NONCE, nonce};

evp!(ffi);

pub(crate) const OPENSSL: Library = Library {
    name: "openssl",
    version: || {
        // SAFETY: OpenSSL's version is a constant string.
        Ok(unsafe { text(ffi::OpenSSL_version(ffi::OPENSSL_VERSION)) })
    },
    set_up,
};

fn set_up(work: Work) -> SetUp {
    // SAFETY: these functions return constants.
    let cipher = unsafe {
        match work.cipher {
            Cipher::Aes256Xts => ffi::EVP_aes_256_xts(),
            Cipher::Aes128Xts => ffi::EVP_aes_128_xts(),
            Cipher::Aes256CbcEssiv => ffi::EVP_aes_256_cbc(),
            Cipher::Aes128Cbc => ffi::EVP_aes_128_cbc(),
            Cipher::Aes128Ctr => ffi::EVP_aes_128_ctr(),
            Cipher::Aes128Ecb => ffi::EVP_aes_128_ecb(),
            Cipher::Aes128Gcm => ffi::EVP_aes_128_gcm(),
            Cipher::Aes256Gcm => ffi::EVP_aes_256_gcm(),
            Cipher::Serpent256Xts | Cipher::Camellia256Xts | Cipher::Adiantum12 => return Ok(None),
        }
    };
    if work.is_tagged() {
        // SAFETY: the cipher that goes with the key.
        let keys = unsafe { Keys::new(cipher, work.cipher.key())? };
        return Ok(Some(Box::new(Records { keys, work })));
    }
    // SAFETY: the cipher that goes with the key.
    unsafe { set_up_sectors(cipher, work) }
}

/// GCM, of which each message has a nonce and a tag.
struct Records {
    keys: Keys,
    work: Work,
}

impl Context {
    fn set_nonce(&mut self, nonce: [u8; NONCE]) -> Result<(), Fault> {
        let mut iv = [0; BLOCK];
        iv[..NONCE].copy_from_slice(&nonce);
        self.set_iv(&iv)
    }

    fn control(
        &mut self,
        call: &'static str,
        control: c_int,
        tag: &mut [u8; BLOCK],
    ) -> Result<(), Fault> {
        let at = tag.as_mut_ptr().cast::<c_void>();
        // SAFETY: both controls take the address of a tag of 16 bytes.
        let status = unsafe { ffi::EVP_CIPHER_CTX_ctrl(self.0.as_ptr(), control, 16, at) };
        Fault::unless(1, call, status)
    }

    fn finish(&mut self) -> Result<(), Fault> {
        let mut none = [0; BLOCK];
        let mut len = 0;
        // SAFETY: GCM writes nothing here; there is room for a block.
        let status =
            unsafe { ffi::EVP_CipherFinal(self.0.as_ptr(), none.as_mut_ptr(), &raw mut len) };
        Fault::unless(1, "EVP_CipherFinal", status)
    }
}

impl Turns for Records {
    fn turn(&mut self, direction: Direction, first: u64, run: &mut [u8]) -> Result<(), Fault> {
        let Keys { encrypt, decrypt } = &mut self.keys;
        for (number, record) in self.work.units(first, run) {
            let (data, tag) = tagged(record)?;
            match direction {
                Direction::Encrypt => {
                    encrypt.set_nonce(nonce(number))?;
                    encrypt.update(data)?;
                    encrypt.finish()?;
                    encrypt.control("EVP_CTRL_GCM_GET_TAG", ffi::EVP_CTRL_GCM_GET_TAG, tag)?;
                }
                Direction::Decrypt => {
                    decrypt.set_nonce(nonce(number))?;
                    decrypt.update(data)?;
                    decrypt.control("EVP_CTRL_GCM_SET_TAG", ffi::EVP_CTRL_GCM_SET_TAG, tag)?;
                    decrypt.finish()?;
                }
            }
        }
        Ok(())
    }
}
