//! Tweaks of LRW: products of the tweak key with the indices of blocks, in GF(2¹²⁸).

use super::iv::Block;

/// The tweak key's products with 1, 11, 111 … in binary: the differences between indices that follow each other.
///
/// A field element is a number whose bit `i` is the coefficient of `xⁱ`; its bytes are big endian.
pub(super) struct TweakKey {
    products: [u128; 128],
}

impl TweakKey {
    pub(super) const EMPTY: Self = Self { products: [0; 128] };

    pub(super) fn new(key: Block) -> Self {
        let mut expanded = Self::EMPTY;
        expanded.expand(key);
        expanded
    }

    pub(super) fn expand(&mut self, key: Block) {
        let mut power = u128::from_be_bytes(key);
        let mut sum = 0;
        for product in &mut self.products {
            sum ^= power;
            let carry = power >> 127;
            power = (power << 1) ^ (carry.wrapping_neg() & 0x87);
            *product = sum;
        }
    }

    /// Fills `tweaks` with the products with `index` and the indices after it, which start again after the last.
    pub(super) fn products(&self, index: u128, tweaks: &mut [Block]) {
        let mut index = index;
        let mut product = self.product(index);
        for tweak in tweaks {
            *tweak = product.to_be_bytes();
            product ^= self.difference(index);
            index = index.wrapping_add(1);
        }
    }

    /// Difference of the products with `index` and with the index after it. A table is looked up by how the index ends,
    /// which the IV decides.
    #[inline(always)]
    pub(super) fn difference(&self, index: u128) -> u128 {
        let ones = index.trailing_ones() as usize;
        self.products[ones.min(127)]
    }

    /// The product with `index`, in constant time. The index is the sum of as many numbers 11…1 as its bits change
    /// from one to the next.
    pub(super) fn product(&self, index: u128) -> u128 {
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
