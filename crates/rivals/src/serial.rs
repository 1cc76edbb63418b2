//! Libraries that take one sector in each call.

use crate::rival::{Fault, SetUp, Turns};
use crate::work::{BLOCK, Cipher, Direction, Work, plain64};

/// A key that such a library has set up, for both directions.
pub(crate) trait Sector {
    /// Turns whole blocks in place, from this IV. ECB disregards it.
    fn turn_sector(
        &mut self,
        direction: Direction,
        iv: &[u8; BLOCK],
        sector: &mut [u8],
    ) -> Result<(), Fault>;

    /// Encrypts each of these by itself: all in one call, for a key set up for ECB.
    fn encrypt_blocks(&mut self, blocks: &mut [[u8; BLOCK]]) -> Result<(), Fault> {
        self.turn_sector(Direction::Encrypt, &[0; BLOCK], blocks.as_flattened_mut())
    }
}

/// [`Sector::encrypt_blocks`] of a library without ECB: CBC of one block with an IV of zeros is the
/// same.
pub(crate) fn encrypt_blocks_by_cbc(
    key: &mut impl Sector,
    blocks: &mut [[u8; BLOCK]],
) -> Result<(), Fault> {
    blocks
        .iter_mut()
        .try_for_each(|block| key.turn_sector(Direction::Encrypt, &[0; BLOCK], block))
}

/// `work` with `key`, a call for each sector; `essiv` sets up the key that encrypts IVs, where they
/// are encrypted.
pub(crate) fn set_up<K: Sector + 'static>(
    work: Work,
    key: K,
    essiv: impl FnOnce(&[u8; 32]) -> Result<K, Fault>,
) -> SetUp {
    let essiv = work.cipher.essiv_key().map(|key| essiv(&key));
    Ok(Some(Box::new(Sectors {
        key,
        essiv: essiv.transpose()?,
        work,
        ivs: Vec::new(),
    })))
}

struct Sectors<K> {
    key: K,
    essiv: Option<K>,
    work: Work,
    ivs: Vec<[u8; BLOCK]>,
}

impl<K: Sector> Turns for Sectors<K> {
    fn turn(&mut self, direction: Direction, first: u64, run: &mut [u8]) -> Result<(), Fault> {
        let Self {
            key,
            essiv,
            work,
            ivs,
        } = self;
        if work.cipher == Cipher::Aes128Ecb {
            return key.turn_sector(direction, &[0; BLOCK], run);
        }
        let Some(essiv) = essiv else {
            return work.units(first, run).try_for_each(|(number, sector)| {
                key.turn_sector(direction, &plain64(number), sector)
            });
        };
        ivs.clear();
        ivs.extend(work.plain_ivs(first, run.len()));
        essiv.encrypt_blocks(ivs)?;
        ivs.iter()
            .zip(run.chunks_exact_mut(work.unit))
            .try_for_each(|(iv, sector)| key.turn_sector(direction, iv, sector))
    }
}
