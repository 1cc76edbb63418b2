//! LRW (Liskov, Rivest, Wagner: "Tweakable Block Ciphers"), as draft 5 of IEEE P1619 and the kernel have it: a block is
//! encrypted between two XORs with the tweak key times the block's index, in GF(2¹²⁸).

use scrim_sys::memory::Locked;

use super::blocks::{BLOCKS, BlockCipher, Family, xor};
use crate::kernels::iv::SectorKernel;
use crate::kernels::iv::{Block, Ivs};
use crate::kernels::run::{Run, UNIT_MAX, piecewise};
use crate::wipe;

/// Data units that are transformed in one call of the cipher.
const UNITS: usize = 8;

/// Sets up a cipher with a key of any of its sizes, and the tweak key that follows it.
pub(super) fn set_up<F: Family>(key: &[u8]) -> Option<Box<dyn SectorKernel>> {
    match key.len() {
        32 => Lrw::<F::Key128>::boxed(key),
        40 => Lrw::<F::Key192>::boxed(key),
        48 => Lrw::<F::Key256>::boxed(key),
        _ => None,
    }
}

struct Lrw<C>(Locked<Keys<C>>);

struct Keys<C> {
    data: C,
    tweak: TweakKey,
}

impl<C: BlockCipher> Lrw<C> {
    fn boxed(key: &[u8]) -> Option<Box<dyn SectorKernel>> {
        let (data, tweak) = key.split_last_chunk()?;
        let (data, tweak) = (C::expand(data)?, TweakKey::new(*tweak));
        Some(Box::new(Self(Locked::new(|| Keys { data, tweak }))))
    }
}

impl<C: BlockCipher> SectorKernel for Lrw<C> {
    fn encrypt(&self, ivs: Ivs<'_>, run: Run<'_>) {
        transform(&self.0.tweak, ivs, run, |blocks| {
            self.0.data.encrypt_all(blocks);
        });
        wipe::stack();
    }

    fn decrypt(&self, ivs: Ivs<'_>, run: Run<'_>) {
        transform(&self.0.tweak, ivs, run, |blocks| {
            self.0.data.decrypt_all(blocks);
        });
        wipe::stack();
    }
}

/// LRW with `cipher` as the block cipher's direction. Runs in a stack frame of its own, which the caller wipes: it
/// holds tweaks, and what the cipher's crate keeps of round keys.
#[inline(never)]
fn transform(tweak: &TweakKey, mut ivs: Ivs<'_>, run: Run<'_>, cipher: impl Fn(&mut [Block])) {
    let unit = run.unit();
    let mut first = [[0; 16]; UNITS];
    let mut tweaks = [[0; 16]; BLOCKS];
    piecewise(run, (UNIT_MAX / unit).min(UNITS), |data| {
        let first = &mut first[..data.len() / unit];
        ivs.fill(first);
        for (first, tweaks) in first.iter().zip(tweaks.chunks_mut(unit / 16)) {
            tweak.products(u128::from_be_bytes(*first), tweaks);
        }
        let (blocks, _) = data.as_chunks_mut();
        xor(blocks, &tweaks);
        cipher(blocks);
        xor(blocks, &tweaks);
    });
}

/// The tweak key's products with 1, 11, 111 … in binary: the differences between indices that follow each other.
///
/// A field element is a number whose bit `i` is the coefficient of `xⁱ`; its bytes are big endian.
struct TweakKey {
    products: [u128; 128],
}

impl TweakKey {
    fn new(key: Block) -> Self {
        let mut power = u128::from_be_bytes(key);
        let mut sum = 0;
        let products = std::array::from_fn(|_| {
            sum ^= power;
            let carry = power >> 127;
            power = (power << 1) ^ (carry.wrapping_neg() & 0x87);
            sum
        });
        Self { products }
    }

    /// Fills `tweaks` with the products with `index` and the indices after it, which start again after the last. A
    /// table is looked up by how the index ends, which the IV decides.
    fn products(&self, index: u128, tweaks: &mut [Block]) {
        let mut index = index;
        let mut product = self.product(index);
        for tweak in tweaks {
            *tweak = product.to_be_bytes();
            let ones = index.trailing_ones() as usize;
            product ^= self.products[ones.min(127)];
            index = index.wrapping_add(1);
        }
    }

    /// The product with `index`, in constant time. The index is the sum of as many numbers 11…1 as its bits change
    /// from one to the next.
    fn product(&self, index: u128) -> u128 {
        let changes = index ^ (index >> 1);
        let terms = self.products.iter().zip(0..).map(|(product, bit)| {
            let taken = (changes >> bit) & 1;
            product & taken.wrapping_neg()
        });
        terms.fold(0, |sum, term| sum ^ term)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Multiplies bit by bit, by the definition.
    fn multiply(one: u128, other: u128) -> u128 {
        let mut product = 0;
        for bit in (0..128).rev() {
            let carry = product >> 127;
            product = (product << 1) ^ (carry * 0x87);
            product ^= one * ((other >> bit) & 1);
        }
        product
    }

    #[test]
    fn products_are_those_of_the_field() {
        let key = 0xfedc_ba98_7654_3210_f0e1_d2c3_b4a5_9687;
        let tweak = TweakKey::new(u128::to_be_bytes(key));
        for first in [
            0,
            1,
            2,
            0xff00,
            (1 << 64) - 130,
            u128::MAX - 100,
            u128::MAX / 3,
        ] {
            let mut tweaks = [[0; 16]; 256];
            tweak.products(first, &mut tweaks);
            for (found, number) in tweaks.iter().zip(0..) {
                let index = first.wrapping_add(number);
                assert_eq!(
                    u128::from_be_bytes(*found),
                    multiply(key, index),
                    "{index:#x}"
                );
            }
        }
    }
}
