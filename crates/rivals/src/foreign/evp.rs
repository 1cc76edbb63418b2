//! The interface that OpenSSL and aws-lc share, written once for both.

/// Contexts, each with one key and for one direction, and the modes of disk sectors on them.
///
/// Documentation of both: `EVP_CipherInit_ex(ctx, NULL, NULL, NULL, iv, -1)` sets a new IV and keeps
/// the key schedule.
macro_rules! evp {
    ($library:ident) => {
        use std::ffi::c_int;
        use std::ptr::{NonNull, null, null_mut};

        use $crate::rival::{Fault, SetUp, Turns};
        use $crate::serial::{self, Sector};
        use $crate::work::{BLOCK, Cipher, Direction, Work};

        /// An `EVP_CIPHER_CTX` with one key, for one direction.
        struct Context(NonNull<$library::EVP_CIPHER_CTX>);

        impl Context {
            /// # Safety
            /// `cipher` is null or one of the library's own; `key` is as long as it wants.
            unsafe fn new(
                cipher: *const $library::EVP_CIPHER,
                key: &[u8],
                direction: Direction,
            ) -> Result<Self, Fault> {
                // SAFETY: no arguments.
                let context = NonNull::new(unsafe { $library::EVP_CIPHER_CTX_new() })
                    .map(Self)
                    .ok_or(Fault::of("EVP_CIPHER_CTX_new"))?;
                if cipher.is_null() {
                    return Err(Fault::of("EVP_aes"));
                }
                let encrypt = c_int::from(direction == Direction::Encrypt);
                let at = context.0.as_ptr();
                // SAFETY: the context is new, the cipher the library's, the key of its length; the
                // IV comes later.
                let status = unsafe {
                    $library::EVP_CipherInit_ex(
                        at,
                        cipher,
                        null_mut(),
                        key.as_ptr(),
                        null(),
                        encrypt,
                    )
                };
                Fault::unless(1, "EVP_CipherInit_ex", status)?;
                // SAFETY: the context has its cipher.
                let status = unsafe { $library::EVP_CIPHER_CTX_set_padding(at, 0) };
                Fault::unless(1, "EVP_CIPHER_CTX_set_padding", status)?;
                Ok(context)
            }

            fn set_iv(&mut self, iv: &[u8; BLOCK]) -> Result<(), Fault> {
                // SAFETY: the context has its cipher and key; no cipher here has a longer IV.
                let status = unsafe {
                    $library::EVP_CipherInit_ex(
                        self.0.as_ptr(),
                        null(),
                        null_mut(),
                        null(),
                        iv.as_ptr(),
                        -1,
                    )
                };
                Fault::unless(1, "EVP_CipherInit_ex", status)
            }

            /// Turns whole blocks in place.
            fn update(&mut self, data: &mut [u8]) -> Result<(), Fault> {
                let len = c_int::try_from(data.len()).map_err(|_| Fault::of("c_int"))?;
                let mut turned = 0;
                let at = data.as_mut_ptr();
                // SAFETY: whole blocks without padding come out as long as they go in, and both
                // libraries allow input and output to be the same.
                let status = unsafe {
                    $library::EVP_CipherUpdate(self.0.as_ptr(), at, &raw mut turned, at, len)
                };
                Fault::unless(1, "EVP_CipherUpdate", status)?;
                Fault::unless(len, "EVP_CipherUpdate", turned)
            }
        }

        impl Drop for Context {
            fn drop(&mut self) {
                // SAFETY: the context is ours, and is used no more.
                unsafe { $library::EVP_CIPHER_CTX_free(self.0.as_ptr()) };
            }
        }

        /// A context for each direction, with the same key.
        struct Keys {
            encrypt: Context,
            decrypt: Context,
        }

        impl Keys {
            /// # Safety
            /// As [`Context::new`].
            unsafe fn new(cipher: *const $library::EVP_CIPHER, key: &[u8]) -> Result<Self, Fault> {
                // SAFETY: the caller's promise.
                let context = |direction| unsafe { Context::new(cipher, key, direction) };
                Ok(Self {
                    encrypt: context(Direction::Encrypt)?,
                    decrypt: context(Direction::Decrypt)?,
                })
            }
        }

        impl Sector for Keys {
            fn turn_sector(
                &mut self,
                direction: Direction,
                iv: &[u8; BLOCK],
                sector: &mut [u8],
            ) -> Result<(), Fault> {
                let context = match direction {
                    Direction::Encrypt => &mut self.encrypt,
                    Direction::Decrypt => &mut self.decrypt,
                };
                context.set_iv(iv)?;
                context.update(sector)
            }
        }

        /// # Safety
        /// `cipher` is one of the library's that takes `work`'s key.
        unsafe fn set_up_sectors(cipher: *const $library::EVP_CIPHER, work: Work) -> SetUp {
            // SAFETY: the caller's promise.
            let keys = unsafe { Keys::new(cipher, work.cipher.key())? };
            serial::set_up(work, keys, |key| {
                // SAFETY: AES-256 takes this key of 32 bytes.
                unsafe { Keys::new($library::EVP_aes_256_ecb(), key) }
            })
        }
    };
}

pub(super) use evp;
