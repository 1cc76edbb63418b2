//! ISA-L crypto, from its `aes_xts.h`, `aes_cbc.h` and `aes_keyexp.h` of version 2.25, which brought
//! functions with a status.

use std::ffi::{c_char, c_int};

use super::library::{Shared, functions, text};
use crate::restriction::Restriction;
use crate::rival::{Fault, Library, Missing, SetUp};
use crate::serial::{self, Sector, encrypt_blocks_by_cbc};
use crate::work::{BLOCK, Cipher, Direction, Work};

pub(crate) const ISA_L: Library = Library {
    name: "isal",
    version: || {
        Restriction::must_be_none()?;
        let functions = Functions::ready()?;
        // SAFETY: no arguments; it returns a constant string.
        Ok(unsafe { text((functions.crypto_get_version_str)()) })
    },
    set_up,
};

/// An expanded key of AES-256 or less.
#[repr(C, align(16))]
#[derive(Clone, Copy)]
struct Schedule([u8; 16 * 15]);

/// An IV where CBC wants it.
#[repr(C, align(16))]
struct Iv([u8; BLOCK]);

type Expand = unsafe extern "C" fn(*const u8, *mut Schedule, *mut Schedule) -> c_int;
/// Tweak schedule, data schedule, tweak, length, source, destination.
type XtsFunction = unsafe extern "C" fn(
    *const Schedule,
    *const Schedule,
    *const u8,
    u64,
    *const u8,
    *mut u8,
) -> c_int;
/// Source, IV, schedule, destination, length.
type CbcFunction =
    unsafe extern "C" fn(*const u8, *const Iv, *const Schedule, *mut u8, u64) -> c_int;

functions! {
    struct Functions("isal_") {
        fn crypto_get_version_str() -> *const c_char;
        fn aes_keyexp_128(*const u8, *mut Schedule, *mut Schedule) -> c_int;
        fn aes_keyexp_256(*const u8, *mut Schedule, *mut Schedule) -> c_int;
        fn aes_xts_enc_128_expanded_key(*const Schedule, *const Schedule, *const u8, u64, *const u8, *mut u8) -> c_int;
        fn aes_xts_dec_128_expanded_key(*const Schedule, *const Schedule, *const u8, u64, *const u8, *mut u8) -> c_int;
        fn aes_xts_enc_256_expanded_key(*const Schedule, *const Schedule, *const u8, u64, *const u8, *mut u8) -> c_int;
        fn aes_xts_dec_256_expanded_key(*const Schedule, *const Schedule, *const u8, u64, *const u8, *mut u8) -> c_int;
        fn aes_cbc_enc_256(*const u8, *const Iv, *const Schedule, *mut u8, u64) -> c_int;
        fn aes_cbc_dec_256(*const u8, *const Iv, *const Schedule, *mut u8, u64) -> c_int;
    }
}

impl Functions {
    fn ready() -> Result<Self, Missing> {
        Self::load(Shared::open(
            &["libisal_crypto.so.2"],
            "Debian has no package of ISA-L crypto; build its version 2.25 or newer",
        )?)
    }
}

fn set_up(work: Work) -> SetUp {
    let Ok(isal) = Functions::ready() else {
        return Ok(None);
    };
    let key = work.cipher.key();
    match work.cipher {
        Cipher::Aes256Xts => {
            let xts = Xts {
                keys: Keys::of_halves(isal.aes_keyexp_256, key)?,
                encrypt: isal.aes_xts_enc_256_expanded_key,
                decrypt: isal.aes_xts_dec_256_expanded_key,
            };
            serial::set_up(work, xts, |_| Err(Fault::of("ESSIV")))
        }
        Cipher::Aes128Xts => {
            let xts = Xts {
                keys: Keys::of_halves(isal.aes_keyexp_128, key)?,
                encrypt: isal.aes_xts_enc_128_expanded_key,
                decrypt: isal.aes_xts_dec_128_expanded_key,
            };
            serial::set_up(work, xts, |_| Err(Fault::of("ESSIV")))
        }
        Cipher::Aes256CbcEssiv => {
            let cbc = |key: &[u8]| {
                Ok(Cbc {
                    keys: Keys::new(isal.aes_keyexp_256, key)?,
                    encrypt: isal.aes_cbc_enc_256,
                    decrypt: isal.aes_cbc_dec_256,
                })
            };
            serial::set_up(work, cbc(key)?, |key| cbc(key))
        }
        _ => Ok(None),
    }
}

/// A key expanded for both directions, and for XTS the tweak's beside it.
struct Keys {
    encrypt: Schedule,
    decrypt: Schedule,
    tweak: Schedule,
}

impl Keys {
    fn new(expand: Expand, key: &[u8]) -> Result<Self, Fault> {
        let zero = Schedule([0; _]);
        let (mut encrypt, mut decrypt) = (zero, zero);
        // SAFETY: the key is as long as the function's name says, a schedule has room for any.
        let status = unsafe { expand(key.as_ptr(), &raw mut encrypt, &raw mut decrypt) };
        Fault::unless(0, "isal_aes_keyexp", status)?;
        Ok(Self {
            encrypt,
            decrypt,
            tweak: zero,
        })
    }

    fn of_halves(expand: Expand, key: &[u8]) -> Result<Self, Fault> {
        let (data, tweak) = key.split_at(key.len() / 2);
        Ok(Self {
            tweak: Self::new(expand, tweak)?.encrypt,
            ..Self::new(expand, data)?
        })
    }

    fn of(&self, direction: Direction) -> &Schedule {
        match direction {
            Direction::Encrypt => &self.encrypt,
            Direction::Decrypt => &self.decrypt,
        }
    }
}

struct Xts {
    keys: Keys,
    encrypt: XtsFunction,
    decrypt: XtsFunction,
}

impl Sector for Xts {
    fn turn_sector(
        &mut self,
        direction: Direction,
        tweak: &[u8; BLOCK],
        sector: &mut [u8],
    ) -> Result<(), Fault> {
        let function = match direction {
            Direction::Encrypt => self.encrypt,
            Direction::Decrypt => self.decrypt,
        };
        let (tweak_key, key) = (&raw const self.keys.tweak, self.keys.of(direction));
        let (at, len) = (sector.as_mut_ptr(), sector.len() as u64);
        // SAFETY: schedules of the function's key size, a tweak of 16 bytes, in place.
        let status = unsafe { function(tweak_key, key, tweak.as_ptr(), len, at, at) };
        Fault::unless(0, "isal_aes_xts", status)
    }
}

struct Cbc {
    keys: Keys,
    encrypt: CbcFunction,
    decrypt: CbcFunction,
}

impl Sector for Cbc {
    fn turn_sector(
        &mut self,
        direction: Direction,
        iv: &[u8; BLOCK],
        sector: &mut [u8],
    ) -> Result<(), Fault> {
        let function = match direction {
            Direction::Encrypt => self.encrypt,
            Direction::Decrypt => self.decrypt,
        };
        let (key, iv) = (self.keys.of(direction), Iv(*iv));
        let (at, len) = (sector.as_mut_ptr(), sector.len() as u64);
        // SAFETY: a schedule of the function's key size and direction, which is aligned as it
        // wants, as is the IV; whole blocks, in place.
        let status = unsafe { function(at, &raw const iv, key, at, len) };
        Fault::unless(0, "isal_aes_cbc", status)
    }

    fn encrypt_blocks(&mut self, blocks: &mut [[u8; BLOCK]]) -> Result<(), Fault> {
        encrypt_blocks_by_cbc(self, blocks)
    }
}
