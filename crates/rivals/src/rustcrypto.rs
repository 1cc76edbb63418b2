//! RustCrypto's `aes` and the crates that make modes of it. Safe code.

use aes::cipher::array::Array;
use aes::cipher::consts::{U12, U16};
use aes::cipher::{
    Block, BlockCipherDecrypt, BlockCipherEncrypt, BlockModeDecrypt, BlockModeEncrypt,
    BlockSizeUser, InnerIvInit, KeyInit, StreamCipher, StreamCipherCoreWrapper,
};
use aes::{Aes128, Aes256};
use aes_gcm::{AeadInOut, Aes128Gcm, Aes256Gcm};
use ctr::{CtrCore, flavors};
use xts_mode::Xts128;

use crate::rival::{Fault, Library, SetUp, Turns, tagged};
use crate::scrim;
use crate::serial::{self, Sector};
use crate::work::{BLOCK, Cipher, Direction, Work, nonce, plain64};

pub(crate) const RUSTCRYPTO: Library = Library {
    name: "rustcrypto",
    version: || Ok("RustCrypto aes 0.9, xts-mode 0.6, cbc 0.2, ctr 0.10, aes-gcm 0.11".to_owned()),
    set_up,
};

type AesBlock = Array<u8, U16>;

/// AES with some key size.
trait AnyAes: BlockCipherEncrypt + BlockCipherDecrypt + BlockSizeUser<BlockSize = U16> {}

impl AnyAes for Aes128 {}
impl AnyAes for Aes256 {}

fn set_up(work: Work) -> SetUp {
    let key = work.cipher.key();
    match work.cipher {
        Cipher::Aes256Xts => Xts::set_up(cipher::<Aes256>, work),
        Cipher::Aes128Xts => Xts::set_up(cipher::<Aes128>, work),
        Cipher::Aes256CbcEssiv => serial::set_up(work, Cbc(cipher::<Aes256>(key)?), |key| {
            Ok(Cbc(cipher(key)?))
        }),
        Cipher::Aes128Cbc => serial::set_up(work, Cbc(cipher::<Aes128>(key)?), no_essiv),
        Cipher::Aes128Ctr => serial::set_up(work, Ctr(cipher(key)?), no_essiv),
        Cipher::Aes128Ecb => serial::set_up(work, Ecb(cipher(key)?), no_essiv),
        // The crates have the block cipher alone: XTS around it is Scrim's portable code.
        Cipher::Serpent256Xts => scrim::portable(work, "xts-serpent-portable"),
        Cipher::Camellia256Xts => scrim::portable(work, "xts-camellia-portable"),
        // It has XChaCha, Poly1305 and AES: what joins them is Scrim's portable code.
        Cipher::Adiantum12 => scrim::portable(work, "adiantum-xchacha12-aes-portable"),
        Cipher::Aes128Gcm => Ok(Some(Box::new(Gcm(cipher::<Aes128Gcm>(key)?, work)))),
        Cipher::Aes256Gcm => Ok(Some(Box::new(Gcm(cipher::<Aes256Gcm>(key)?, work)))),
    }
}

/// Refuses ESSIV with any cipher but AES-256-CBC.
fn no_essiv<K>(_: &[u8; 32]) -> Result<K, Fault> {
    Err(Fault::of("ESSIV"))
}

fn cipher<C: KeyInit>(key: &[u8]) -> Result<C, Fault> {
    C::new_from_slice(key).map_err(|_| Fault::of("new_from_slice"))
}

struct Xts<C> {
    xts: Xts128<C>,
    work: Work,
}

impl<C: AnyAes + 'static> Xts<C> {
    fn set_up(cipher: fn(&[u8]) -> Result<C, Fault>, work: Work) -> SetUp {
        let key = work.cipher.key();
        let (data, tweak) = key.split_at(key.len() / 2);
        let xts = Xts128::new(cipher(data)?, cipher(tweak)?);
        Ok(Some(Box::new(Self { xts, work })))
    }
}

impl<C: AnyAes> Xts<C> {
    fn tweaks(&self, first: u64) -> impl Fn(u128) -> AesBlock + use<C> {
        let work = self.work;
        move |index| {
            // As many as there are sectors in memory.
            let index = u64::try_from(index).unwrap_or(u64::MAX);
            plain64(work.number(first, index)).into()
        }
    }
}

impl<C: AnyAes> Turns for Xts<C> {
    fn turn(&mut self, direction: Direction, first: u64, run: &mut [u8]) -> Result<(), Fault> {
        let tweaks = self.tweaks(first);
        match direction {
            Direction::Encrypt => self.xts.encrypt_area(run, self.work.unit, 0, tweaks),
            Direction::Decrypt => self.xts.decrypt_area(run, self.work.unit, 0, tweaks),
        }
        Ok(())
    }
}

struct Cbc<C>(C);

impl<C: AnyAes> Sector for Cbc<C> {
    fn turn_sector(
        &mut self,
        direction: Direction,
        iv: &[u8; BLOCK],
        sector: &mut [u8],
    ) -> Result<(), Fault> {
        let (iv, data) = (&(*iv).into(), blocks(sector));
        match direction {
            Direction::Encrypt => cbc::Encryptor::inner_iv_init(&self.0, iv).encrypt_blocks(data),
            Direction::Decrypt => cbc::Decryptor::inner_iv_init(&self.0, iv).decrypt_blocks(data),
        }
        Ok(())
    }

    fn encrypt_blocks(&mut self, data: &mut [[u8; BLOCK]]) -> Result<(), Fault> {
        self.0.encrypt_blocks(blocks(data.as_flattened_mut()));
        Ok(())
    }
}

struct Ctr(Aes128);

impl Sector for Ctr {
    fn turn_sector(
        &mut self,
        _: Direction,
        iv: &[u8; BLOCK],
        sector: &mut [u8],
    ) -> Result<(), Fault> {
        let core: CtrCore<_, flavors::Ctr128BE> = CtrCore::inner_iv_init(&self.0, &(*iv).into());
        StreamCipherCoreWrapper::from_core(core).apply_keystream(sector);
        Ok(())
    }
}

struct Ecb(Aes128);

impl Sector for Ecb {
    fn turn_sector(
        &mut self,
        direction: Direction,
        _: &[u8; BLOCK],
        sector: &mut [u8],
    ) -> Result<(), Fault> {
        match direction {
            Direction::Encrypt => self.0.encrypt_blocks(blocks(sector)),
            Direction::Decrypt => self.0.decrypt_blocks(blocks(sector)),
        }
        Ok(())
    }
}

struct Gcm<G>(G, Work);

impl<G: AeadInOut<NonceSize = U12, TagSize = U16>> Turns for Gcm<G> {
    fn turn(&mut self, direction: Direction, first: u64, run: &mut [u8]) -> Result<(), Fault> {
        let Self(gcm, work) = self;
        for (number, record) in work.units(first, run) {
            let (data, tag) = tagged(record)?;
            let nonce = nonce(number).into();
            match direction {
                Direction::Encrypt => {
                    let sealed = gcm.encrypt_inout_detached(&nonce, &[], data.into());
                    *tag = sealed
                        .map_err(|_| Fault::of("encrypt_inout_detached"))?
                        .into();
                }
                Direction::Decrypt => gcm
                    .decrypt_inout_detached(&nonce, &[], data.into(), &(*tag).into())
                    .map_err(|_| Fault::of("decrypt_inout_detached"))?,
            }
        }
        Ok(())
    }
}

/// A run as blocks; its units are whole blocks.
pub(crate) fn blocks(run: &mut [u8]) -> &mut [Block<Aes128>] {
    Array::slice_as_chunks_mut(run).0
}
