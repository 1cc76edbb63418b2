//! libgcrypt, from its `gcrypt.h` of version 1.10; the interface is the same since 1.8.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr::{NonNull, null, null_mut};

use super::library::{Shared, functions, text};
use crate::restriction::Restriction;
use crate::rival::{Fault, Library, Missing, SetUp};
use crate::serial::{self, Sector};
use crate::work::{BLOCK, Cipher, Direction, Work};

pub(crate) const GCRYPT: Library = Library {
    name: "gcrypt",
    version: || Functions::ready().map(|(_, version)| version),
    set_up,
};

const AES128: c_int = 7;
const AES256: c_int = 9;
const SERPENT256: c_int = 306;
const CAMELLIA256: c_int = 312;
const MODE_ECB: c_int = 1;
const MODE_CBC: c_int = 3;
const MODE_CTR: c_int = 6;
const MODE_XTS: c_int = 13;

const DISABLE_HWF: c_int = 63;
const INITIALIZATION_FINISHED: c_int = 38;
const INITIALIZATION_FINISHED_P: c_int = 39;

/// `struct gcry_cipher_handle`, which is opaque.
type Handle = c_void;

functions! {
    struct Functions("gcry_") {
        fn check_version(*const c_char) -> *const c_char;
        fn cipher_open(*mut *mut Handle, c_int, c_int, c_uint) -> u32;
        fn cipher_close(*mut Handle);
        fn cipher_setkey(*mut Handle, *const c_void, usize) -> u32;
        fn cipher_setiv(*mut Handle, *const c_void, usize) -> u32;
        fn cipher_setctr(*mut Handle, *const c_void, usize) -> u32;
        fn cipher_encrypt(*mut Handle, *mut c_void, usize, *const c_void, usize) -> u32;
        fn cipher_decrypt(*mut Handle, *mut c_void, usize, *const c_void, usize) -> u32;
    }
}

impl Functions {
    /// Loads, restricts and initialises the library, in the order that libgcrypt's manual asks for;
    /// returns the functions and the version.
    fn ready() -> Result<(Self, String), Missing> {
        let package = "install libgcrypt20";
        let library = Shared::open(&["libgcrypt.so.20"], package)?;
        let functions = Self::load(library)?;
        // SAFETY: as the header declares it.
        let control: unsafe extern "C" fn(c_int, ...) -> u32 =
            unsafe { library.function(c"gcry_control")? };
        // SAFETY: takes no argument.
        let initialised = unsafe { control(INITIALIZATION_FINISHED_P) } != 0;
        if !initialised {
            for feature in Restriction::current().gcrypt_features() {
                // SAFETY: takes a string and a null; a feature that this version does not know
                // only gives an error.
                unsafe { control(DISABLE_HWF, feature.as_ptr(), null::<c_char>()) };
            }
        }
        // SAFETY: without a wanted version it returns a constant string.
        let version = unsafe { text((functions.check_version)(null())) };
        if !initialised {
            // SAFETY: takes an integer that it disregards.
            unsafe { control(INITIALIZATION_FINISHED, 0) };
        }
        Ok((functions, format!("libgcrypt {version}")))
    }
}

fn set_up(work: Work) -> SetUp {
    let Ok((functions, _)) = Functions::ready() else {
        return Ok(None);
    };
    let (algorithm, mode) = match work.cipher {
        Cipher::Aes256Xts => (AES256, MODE_XTS),
        Cipher::Aes128Xts => (AES128, MODE_XTS),
        Cipher::Aes256CbcEssiv => (AES256, MODE_CBC),
        Cipher::Aes128Ctr => (AES128, MODE_CTR),
        Cipher::Aes128Ecb => (AES128, MODE_ECB),
        Cipher::Serpent256Xts => (SERPENT256, MODE_XTS),
        Cipher::Camellia256Xts => (CAMELLIA256, MODE_XTS),
        Cipher::Aes128Cbc | Cipher::Adiantum12 | Cipher::Aes128Gcm | Cipher::Aes256Gcm => {
            return Ok(None);
        }
    };
    let key = Key::new(functions, algorithm, mode, work.cipher.key())?;
    serial::set_up(work, key, |key| Key::new(functions, AES256, MODE_ECB, key))
}

/// A handle with its key, which serves both directions.
struct Key {
    functions: Functions,
    handle: NonNull<Handle>,
    mode: c_int,
}

impl Key {
    fn new(functions: Functions, algorithm: c_int, mode: c_int, key: &[u8]) -> Result<Self, Fault> {
        let mut handle = null_mut();
        // SAFETY: room for the handle, and no flags.
        let status = unsafe { (functions.cipher_open)(&raw mut handle, algorithm, mode, 0) };
        Fault::unless(0, "gcry_cipher_open", status)?;
        let handle = NonNull::new(handle).ok_or(Fault::of("gcry_cipher_open"))?;
        let opened = Self {
            functions,
            handle,
            mode,
        };
        // SAFETY: the handle is open; the key is copied.
        let status =
            unsafe { (functions.cipher_setkey)(handle.as_ptr(), key.as_ptr().cast(), key.len()) };
        Fault::unless(0, "gcry_cipher_setkey", status)?;
        Ok(opened)
    }
}

impl Sector for Key {
    fn turn_sector(
        &mut self,
        direction: Direction,
        iv: &[u8; BLOCK],
        sector: &mut [u8],
    ) -> Result<(), Fault> {
        let (call, set) = match self.mode {
            MODE_CTR => ("gcry_cipher_setctr", self.functions.cipher_setctr),
            _ => ("gcry_cipher_setiv", self.functions.cipher_setiv),
        };
        let handle = self.handle.as_ptr();
        // SAFETY: the handle is open; the IV is copied.
        let status = unsafe { set(handle, iv.as_ptr().cast(), iv.len()) };
        Fault::unless(0, call, status)?;
        let (call, turn) = match direction {
            Direction::Encrypt => ("gcry_cipher_encrypt", self.functions.cipher_encrypt),
            Direction::Decrypt => ("gcry_cipher_decrypt", self.functions.cipher_decrypt),
        };
        let at = sector.as_mut_ptr().cast();
        // SAFETY: the handle is open; an input of null and 0 means in place.
        let status = unsafe { turn(handle, at, sector.len(), null(), 0) };
        Fault::unless(0, call, status)
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        // SAFETY: the handle is ours, and is used no more.
        unsafe { (self.functions.cipher_close)(self.handle.as_ptr()) };
    }
}
