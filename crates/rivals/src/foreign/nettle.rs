//! Nettle, from its headers of version 3.8: everything called `libnettle.so.8`.

use super::library::{Shared, functions};
use crate::rival::{Fault, Library, Missing, SetUp};
use crate::serial::{self, Sector};
use crate::work::{BLOCK, Cipher, Direction, Work};

pub(crate) const NETTLE: Library = Library {
    name: "nettle",
    version: || {
        let functions = Functions::ready()?;
        // SAFETY: no arguments.
        let version = unsafe { ((functions.version_major)(), (functions.version_minor)()) };
        Ok(format!("Nettle {}.{}", version.0, version.1))
    },
    set_up,
};

/// A structure of Nettle's with expanded keys. The largest here has two schedules of AES-256, 480
/// bytes.
#[repr(C, align(16))]
struct Context([u8; 1024]);

type SetKey = unsafe extern "C" fn(*mut Context, *const u8);
/// `nettle_cipher_func`: whole blocks, in place or not.
type Blocks = unsafe extern "C" fn(*const Context, usize, *mut u8, *const u8);
/// A message of XTS: context, tweak, length, destination, source.
type Message = unsafe extern "C" fn(*mut Context, *const u8, usize, *mut u8, *const u8);
/// A message of CBC or CTR, with the block cipher: context, cipher, block size, IV, length,
/// destination, source.
type Chain =
    unsafe extern "C" fn(*const Context, Blocks, usize, *mut u8, usize, *mut u8, *const u8);
/// CBC of one cipher: context, IV, length, destination, source.
type OwnChain = unsafe extern "C" fn(*const Context, *mut u8, usize, *mut u8, *const u8);

functions! {
    struct Functions("nettle_") {
        fn version_major() -> i32;
        fn version_minor() -> i32;
        fn xts_aes256_set_encrypt_key(*mut Context, *const u8);
        fn xts_aes256_set_decrypt_key(*mut Context, *const u8);
        fn xts_aes256_encrypt_message(*mut Context, *const u8, usize, *mut u8, *const u8);
        fn xts_aes256_decrypt_message(*mut Context, *const u8, usize, *mut u8, *const u8);
        fn xts_aes128_set_encrypt_key(*mut Context, *const u8);
        fn xts_aes128_set_decrypt_key(*mut Context, *const u8);
        fn xts_aes128_encrypt_message(*mut Context, *const u8, usize, *mut u8, *const u8);
        fn xts_aes128_decrypt_message(*mut Context, *const u8, usize, *mut u8, *const u8);
        fn aes256_set_encrypt_key(*mut Context, *const u8);
        fn aes256_set_decrypt_key(*mut Context, *const u8);
        fn aes256_encrypt(*const Context, usize, *mut u8, *const u8);
        fn aes256_decrypt(*const Context, usize, *mut u8, *const u8);
        fn aes128_set_encrypt_key(*mut Context, *const u8);
        fn aes128_set_decrypt_key(*mut Context, *const u8);
        fn aes128_encrypt(*const Context, usize, *mut u8, *const u8);
        fn aes128_decrypt(*const Context, usize, *mut u8, *const u8);
        fn cbc_aes256_encrypt(*const Context, *mut u8, usize, *mut u8, *const u8);
        fn cbc_decrypt(*const Context, Blocks, usize, *mut u8, usize, *mut u8, *const u8);
        fn serpent256_set_key(*mut Context, *const u8);
        fn serpent_encrypt(*const Context, usize, *mut u8, *const u8);
        fn serpent_decrypt(*const Context, usize, *mut u8, *const u8);
        fn camellia256_set_encrypt_key(*mut Context, *const u8);
        fn camellia256_set_decrypt_key(*mut Context, *const u8);
        fn camellia256_crypt(*const Context, usize, *mut u8, *const u8);
        fn xts_encrypt_message(*const Context, *const Context, Blocks, *const u8, usize, *mut u8, *const u8);
        fn xts_decrypt_message(*const Context, *const Context, Blocks, Blocks, *const u8, usize, *mut u8, *const u8);
        fn ctr_crypt(*const Context, Blocks, usize, *mut u8, usize, *mut u8, *const u8);
    }
}

impl Functions {
    fn ready() -> Result<Self, Missing> {
        Self::load(Shared::open(
            &["libnettle.so.8"],
            "install libnettle8, or libnettle8t64",
        )?)
    }
}

/// Way to encrypt or decrypt a sector.
enum Mode {
    Xts(Message),
    Ecb(Blocks),
    Chain(Chain, Blocks),
    OwnChain(OwnChain),
}

/// A key for one direction, with the way to turn a sector.
struct Key {
    context: Box<Context>,
    mode: Mode,
}

impl Key {
    /// # Safety
    /// `set_key` fills the context that `mode`'s functions read, from a key as long as `key`.
    unsafe fn new(set_key: SetKey, key: &[u8], mode: Mode) -> Self {
        let mut context = Box::new(Context([0; 1024]));
        // SAFETY: the caller's promise; the context has room for any structure of keys.
        unsafe { set_key(&raw mut *context, key.as_ptr()) };
        Self { context, mode }
    }

    fn turn(&mut self, mut iv: [u8; BLOCK], data: &mut [u8]) {
        let context = &raw mut *self.context;
        let (len, at) = (data.len(), data.as_mut_ptr());
        // SAFETY: the context was filled for these functions; whole blocks; all of them allow source
        // and destination to be the same.
        unsafe {
            match self.mode {
                Mode::Xts(message) => message(context, iv.as_ptr(), len, at, at),
                Mode::Ecb(blocks) => blocks(context, len, at, at),
                Mode::OwnChain(chain) => chain(context, iv.as_mut_ptr(), len, at, at),
                Mode::Chain(chain, blocks) => {
                    chain(context, blocks, BLOCK, iv.as_mut_ptr(), len, at, at);
                }
            }
        }
    }
}

/// Keys for both directions.
struct Keys {
    encrypt: Key,
    decrypt: Key,
}

impl Sector for Keys {
    fn turn_sector(
        &mut self,
        direction: Direction,
        iv: &[u8; BLOCK],
        sector: &mut [u8],
    ) -> Result<(), Fault> {
        let key = match direction {
            Direction::Encrypt => &mut self.encrypt,
            Direction::Decrypt => &mut self.decrypt,
        };
        key.turn(*iv, sector);
        Ok(())
    }
}

/// A direction of a block cipher with keys of 32 bytes: what expands a key, and what transforms blocks with it.
type HalfCipher = (SetKey, Blocks);

/// A block cipher in XTS, which Nettle has for any.
struct AnyXts {
    nettle: Functions,
    encrypt: (Box<Context>, Blocks),
    decrypt: (Box<Context>, Blocks),
    tweak: Box<Context>,
}

impl AnyXts {
    /// `key` is two keys of 32 bytes.
    ///
    /// # Safety
    /// The functions are of one cipher, which takes such keys.
    unsafe fn new(nettle: Functions, encrypt: HalfCipher, decrypt: HalfCipher, key: &[u8]) -> Self {
        assert!(key.len() == 64, "a key of {} bytes", key.len());
        let context = |set_key: SetKey, key: &[u8]| {
            let mut context = Box::new(Context([0; 1024]));
            // SAFETY: the key has 32 bytes; the context has room for any structure of keys.
            unsafe { set_key(&raw mut *context, key.as_ptr()) };
            context
        };
        let (data, tweak) = key.split_at(32);
        Self {
            nettle,
            encrypt: (context(encrypt.0, data), encrypt.1),
            decrypt: (context(decrypt.0, data), decrypt.1),
            tweak: context(encrypt.0, tweak),
        }
    }
}

impl Sector for AnyXts {
    fn turn_sector(
        &mut self,
        direction: Direction,
        iv: &[u8; BLOCK],
        sector: &mut [u8],
    ) -> Result<(), Fault> {
        let tweak = &raw const *self.tweak;
        let (len, at, iv) = (sector.len(), sector.as_mut_ptr(), iv.as_ptr());
        let Functions {
            xts_encrypt_message,
            xts_decrypt_message,
            ..
        } = self.nettle;
        let (encrypt, decrypt) = (self.encrypt.1, self.decrypt.1);
        // SAFETY: contexts are of the cipher, and of these directions; whole blocks, in place.
        unsafe {
            match direction {
                Direction::Encrypt => {
                    let data = &raw const *self.encrypt.0;
                    xts_encrypt_message(data, tweak, encrypt, iv, len, at, at);
                }
                Direction::Decrypt => {
                    let data = &raw const *self.decrypt.0;
                    xts_decrypt_message(data, tweak, decrypt, encrypt, iv, len, at, at);
                }
            }
        }
        Ok(())
    }
}

/// Camellia in XTS, or Serpent.
fn any_xts(nettle: Functions, cipher: Cipher) -> AnyXts {
    let (encrypt, decrypt): (HalfCipher, HalfCipher) = match cipher {
        Cipher::Camellia256Xts => (
            (nettle.camellia256_set_encrypt_key, nettle.camellia256_crypt),
            (nettle.camellia256_set_decrypt_key, nettle.camellia256_crypt),
        ),
        _ => (
            (nettle.serpent256_set_key, nettle.serpent_encrypt),
            (nettle.serpent256_set_key, nettle.serpent_decrypt),
        ),
    };
    // SAFETY: all four are of one cipher.
    unsafe { AnyXts::new(nettle, encrypt, decrypt, cipher.key()) }
}

fn set_up(work: Work) -> SetUp {
    let Ok(nettle) = Functions::ready() else {
        return Ok(None);
    };
    let keys = |encrypt: (SetKey, Mode), decrypt: (SetKey, Mode), key: &[u8]| {
        // SAFETY: below, `set_key` and the mode's functions are of one cipher, which takes the key
        // that is given with it.
        let key = |(set_key, mode)| unsafe { Key::new(set_key, key, mode) };
        Keys {
            encrypt: key(encrypt),
            decrypt: key(decrypt),
        }
    };
    let (encrypt, decrypt) = match work.cipher {
        Cipher::Aes256Xts => (
            (
                nettle.xts_aes256_set_encrypt_key as SetKey,
                Mode::Xts(nettle.xts_aes256_encrypt_message),
            ),
            (
                nettle.xts_aes256_set_decrypt_key as SetKey,
                Mode::Xts(nettle.xts_aes256_decrypt_message),
            ),
        ),
        Cipher::Aes128Xts => (
            (
                nettle.xts_aes128_set_encrypt_key as SetKey,
                Mode::Xts(nettle.xts_aes128_encrypt_message),
            ),
            (
                nettle.xts_aes128_set_decrypt_key as SetKey,
                Mode::Xts(nettle.xts_aes128_decrypt_message),
            ),
        ),
        Cipher::Aes256CbcEssiv => (
            (
                nettle.aes256_set_encrypt_key as SetKey,
                Mode::OwnChain(nettle.cbc_aes256_encrypt),
            ),
            (
                nettle.aes256_set_decrypt_key as SetKey,
                Mode::Chain(nettle.cbc_decrypt, nettle.aes256_decrypt),
            ),
        ),
        Cipher::Aes128Ctr => {
            let set_key = nettle.aes128_set_encrypt_key as SetKey;
            let mode = || Mode::Chain(nettle.ctr_crypt, nettle.aes128_encrypt);
            ((set_key, mode()), (set_key, mode()))
        }
        Cipher::Aes128Ecb => (
            (
                nettle.aes128_set_encrypt_key as SetKey,
                Mode::Ecb(nettle.aes128_encrypt),
            ),
            (
                nettle.aes128_set_decrypt_key as SetKey,
                Mode::Ecb(nettle.aes128_decrypt),
            ),
        ),
        Cipher::Serpent256Xts | Cipher::Camellia256Xts => {
            return serial::set_up(work, any_xts(nettle, work.cipher), |_| {
                Err(Fault::of("ESSIV"))
            });
        }
        Cipher::Aes128Cbc | Cipher::Adiantum12 | Cipher::Aes128Gcm | Cipher::Aes256Gcm => {
            return Ok(None);
        }
    };
    serial::set_up(work, keys(encrypt, decrypt, work.cipher.key()), |key| {
        Ok(keys(
            (
                nettle.aes256_set_encrypt_key,
                Mode::Ecb(nettle.aes256_encrypt),
            ),
            (
                nettle.aes256_set_decrypt_key,
                Mode::Ecb(nettle.aes256_decrypt),
            ),
            key,
        ))
    })
}
