//! LRW: tweaks that are products of a key of their own with the indices of blocks.

use super::modes::{Chain, Mode, start};
use super::{Batch, Cipher, Masks, transform};
use crate::kernels::cursor::RawRun;
use crate::kernels::iv::Ivs;
use crate::kernels::lrw::TweakKey;

pub(in super::super) struct Lrw;

/// Keys of the cipher and of the tweaks.
pub(in super::super) struct Keys<K> {
    cipher: K,
    tweak: TweakKey,
}

/// Index of a block, and the product with it.
type State = [u128; 2];

/// The tweaks of a run. A data unit goes on with the products of the unit before if its index does, as with `benbi`.
struct Products<'k, 'i, 'a, const PAIRS: usize> {
    key: &'k TweakKey,
    chain: Chain<'i, 'a, State, PAIRS>,
}

impl<const PAIRS: usize> Products<'_, '_, '_, PAIRS> {
    #[inline(always)]
    fn make(&mut self) {
        let key = self.key;
        self.chain.make(
            |_, _| {},
            |[next, product]: State, iv| {
                let index = iv.swap_bytes();
                // Of the first unit of a run, both are 0, which is a product too.
                if index == next {
                    [next, product]
                } else {
                    [index, key.product(index)]
                }
            },
            |[index, product]| [index.wrapping_add(1), product ^ key.difference(index)],
            |[_, product]| product.swap_bytes(),
        );
    }
}

impl<const PAIRS: usize> Masks<PAIRS> for Products<'_, '_, '_, PAIRS> {
    /// # Safety
    /// As the trait says.
    #[inline(always)]
    unsafe fn next(&mut self, _: *const u8, _: usize) {
        self.chain.advance();
        self.make();
    }

    #[inline(always)]
    fn before(&self) -> &Batch<PAIRS> {
        self.chain.current()
    }

    #[inline(always)]
    fn after(&self) -> &Batch<PAIRS> {
        self.chain.current()
    }
}

impl Mode for Lrw {
    type Keys<K: Send + Sync + 'static> = Keys<K>;

    fn cipher_key(len: usize) -> usize {
        len.saturating_sub(16)
    }

    fn key_len(of_cipher: usize) -> usize {
        of_cipher + 16
    }

    fn no_keys<C: Cipher<PAIRS>, const PAIRS: usize>() -> Keys<C::Keys> {
        Keys {
            cipher: C::NO_KEYS,
            tweak: TweakKey::EMPTY,
        }
    }

    fn expand<C: Cipher<PAIRS>, const PAIRS: usize>(
        cipher: C,
        key: &[u8],
        keys: &mut Keys<C::Keys>,
    ) {
        if let Some((data, tweak)) = key.split_last_chunk() {
            cipher.expand(data, &mut keys.cipher);
            keys.tweak.expand(*tweak);
        }
    }

    /// # Safety
    /// As the trait says.
    #[inline(always)]
    unsafe fn transform<C: Cipher<PAIRS>, const PAIRS: usize, const ENCRYPT: bool>(
        cipher: C,
        keys: &Keys<C::Keys>,
        ivs: &mut Ivs<'_>,
        run: &RawRun,
    ) {
        let chain = Chain::new(ivs, run);
        let key = &keys.tweak;
        let mut products = Products { key, chain };
        products.make();
        let blocks = run.units * (run.unit / 16);
        // SAFETY: the caller promises the run.
        unsafe {
            transform::<C, PAIRS, ENCRYPT>(cipher, &keys.cipher, &mut products, start(run), blocks);
        }
    }
}
