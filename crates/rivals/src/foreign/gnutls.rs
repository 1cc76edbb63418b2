//! GnuTLS, from its `gnutls/crypto.h` of version 3.7.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr::{NonNull, null, null_mut};

use super::library::{Shared, functions, text};
use crate::rival::{Fault, Library, Missing, SetUp};
use crate::serial::{self, Sector, encrypt_blocks_by_cbc};
use crate::work::{BLOCK, Cipher, Direction, Work};

pub(crate) const GNUTLS: Library = Library {
    name: "gnutls",
    version: || {
        let functions = Functions::ready()?;
        // SAFETY: without a wanted version it returns a constant string.
        let version = unsafe { text((functions.check_version)(null())) };
        Ok(format!("GnuTLS {version}"))
    },
    set_up,
};

const AES_256_CBC: c_int = 5;
const AES_128_XTS: c_int = 32;
const AES_256_XTS: c_int = 33;

/// `struct api_cipher_hd_st`, which is opaque.
type Handle = c_void;

/// `gnutls_datum_t` of the C interface.
#[repr(C)]
struct Datum {
    data: *mut u8,
    size: c_uint,
}

impl Datum {
    /// Points to these bytes as long as they are there.
    fn of(bytes: &mut [u8]) -> Result<Self, Fault> {
        let size = c_uint::try_from(bytes.len());
        Ok(Self {
            data: bytes.as_mut_ptr(),
            size: size.map_err(|_| Fault::of("gnutls_datum_t"))?,
        })
    }
}

functions! {
    struct Functions("gnutls_") {
        fn check_version(*const c_char) -> *const c_char;
        fn cipher_init(*mut *mut Handle, c_int, *const Datum, *const Datum) -> c_int;
        fn cipher_deinit(*mut Handle);
        fn cipher_set_iv(*mut Handle, *mut c_void, usize);
        fn cipher_encrypt2(*mut Handle, *const c_void, usize, *mut c_void, usize) -> c_int;
        fn cipher_decrypt2(*mut Handle, *const c_void, usize, *mut c_void, usize) -> c_int;
    }
}

impl Functions {
    fn ready() -> Result<Self, Missing> {
        Self::load(Shared::open(
            &["libgnutls.so.30"],
            "install libgnutls30, or libgnutls30t64",
        )?)
    }
}

fn set_up(work: Work) -> SetUp {
    let Ok(functions) = Functions::ready() else {
        return Ok(None);
    };
    let algorithm = match work.cipher {
        Cipher::Aes256Xts => AES_256_XTS,
        Cipher::Aes128Xts => AES_128_XTS,
        Cipher::Aes256CbcEssiv => AES_256_CBC,
        _ => return Ok(None),
    };
    let key = Key::new(functions, algorithm, work.cipher.key())?;
    serial::set_up(work, key, |key| Key::new(functions, AES_256_CBC, key))
}

/// A handle with its key, which serves both directions.
struct Key {
    functions: Functions,
    handle: NonNull<Handle>,
}

impl Key {
    fn new(functions: Functions, algorithm: c_int, key: &[u8]) -> Result<Self, Fault> {
        // It takes keys by a pointer that is not to const.
        let mut key = key.to_vec();
        let mut iv = [0; BLOCK];
        let (key, iv) = (Datum::of(&mut key)?, Datum::of(&mut iv)?);
        let mut handle = null_mut();
        // SAFETY: room for the handle; key and IV are of the cipher's lengths, are copied, and live
        // until then.
        let status = unsafe { (functions.cipher_init)(&raw mut handle, algorithm, &key, &iv) };
        Fault::unless(0, "gnutls_cipher_init", status)?;
        let handle = NonNull::new(handle).ok_or(Fault::of("gnutls_cipher_init"))?;
        Ok(Self { functions, handle })
    }
}

impl Sector for Key {
    fn turn_sector(
        &mut self,
        direction: Direction,
        iv: &[u8; BLOCK],
        sector: &mut [u8],
    ) -> Result<(), Fault> {
        let (call, turn) = match direction {
            Direction::Encrypt => ("gnutls_cipher_encrypt2", self.functions.cipher_encrypt2),
            Direction::Decrypt => ("gnutls_cipher_decrypt2", self.functions.cipher_decrypt2),
        };
        let (handle, mut iv) = (self.handle.as_ptr(), *iv);
        let (at, len) = (sector.as_mut_ptr().cast::<c_void>(), sector.len());
        // SAFETY: the handle is open; the IV is copied; input and output may be the same.
        let status = unsafe {
            (self.functions.cipher_set_iv)(handle, iv.as_mut_ptr().cast(), iv.len());
            turn(handle, at, len, at, len)
        };
        Fault::unless(0, call, status)
    }

    fn encrypt_blocks(&mut self, blocks: &mut [[u8; BLOCK]]) -> Result<(), Fault> {
        encrypt_blocks_by_cbc(self, blocks)
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        // SAFETY: the handle is ours, and is used no more.
        unsafe { (self.functions.cipher_deinit)(self.handle.as_ptr()) };
    }
}
