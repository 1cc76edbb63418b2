//! GHASH (NIST SP 800-38D, 6.4) by multiplications of integers.
//!
//! A product of polynomials over GF(2) is one of integers without carries. So a factor is taken apart into four classes:
//! bits 0, 4, 8 and so on, bits 1, 5, 9, and the other two. In the product of two classes four bits of the integer count
//! how often one power of x occurs. The count is at most 15 if one of the factors has no more than 60 bits, so nothing is
//! carried from one count to the next, and its lowest bit is the sum. The upper four bits of 64 are added by themselves.
//!
//! Nothing here branches or looks up memory by data or key, so it takes constant time where the processor's
//! multiplication does, as it does on those with registers of 64 bits that Scrim is built for. The table of
//! implementations assumes it for all.
//! The numbers are those of [`gcm_blocks`](crate::kernels::gcm_blocks).

use zeroize::Zeroize;

use crate::kernels::gcm_blocks::divided_by_x;

/// Blocks whose products are summed up before they are reduced.
const LANES: usize = 4;
/// Number of classes into which the bits of a factor are sorted.
const CLASSES: usize = 4;
/// Bits of class 0 in a factor, and in a product.
const CLASS: u64 = u64::MAX / 15;
const PRODUCT_CLASS: u128 = u128::MAX / 15;
/// Bits of a factor that has classes; the others are added by themselves.
const BITS: usize = 60;

/// A factor of 64 bits: its classes of 60 bits, and for each of the four upper bits a mask, all ones or all zeros. The
/// masks are stored, so that the compiler makes no branch of them.
type Factor = [u64; CLASSES + 64 - BITS];

/// The key of GHASH: powers of H.
pub(super) struct HashKey {
    /// H^4 / x to H / x, each as the factors of its lower half, of its upper half, and of the sum of both.
    powers: [[Factor; 3]; LANES],
}

impl Drop for HashKey {
    fn drop(&mut self) {
        self.powers.zeroize();
    }
}

impl HashKey {
    /// Computes the powers of H, a block of ciphertext as a big-endian number.
    pub(super) fn new(hash_key: u128) -> Self {
        let mut power = divided_by_x(hash_key);
        let mut powers = [[[0; _]; 3]; LANES];
        let [.., first] = &mut powers;
        *first = factors(power);
        for at in (0..LANES - 1).rev() {
            let mut sum = Products::default();
            sum.add(power, &powers[LANES - 1]);
            power = sum.reduced();
            powers[at] = factors(power);
        }
        Self { powers }
    }

    /// The state of GHASH after `bytes`, which are filled up with zeros to whole blocks.
    pub(super) fn hash(&self, mut state: u128, bytes: &[u8]) -> u128 {
        let (blocks, rest) = bytes.as_chunks();
        for group in blocks.chunks(LANES) {
            let mut sum = Products::default();
            for (block, power) in group.iter().zip(&self.powers[LANES - group.len()..]) {
                sum.add(u128::from_be_bytes(*block) ^ state, power);
                state = 0;
            }
            state = sum.reduced();
        }
        if rest.is_empty() {
            return state;
        }
        let mut block = [0; 16];
        block[..rest.len()].copy_from_slice(rest);
        self.hash_one(state, u128::from_be_bytes(block))
    }

    /// The state after one block, as a big-endian number.
    pub(super) fn hash_one(&self, state: u128, block: u128) -> u128 {
        let mut sum = Products::default();
        sum.add(block ^ state, &self.powers[LANES - 1]);
        sum.reduced()
    }
}

/// Lower half, upper half, and the sum of both.
fn halves(number: u128) -> [u64; 3] {
    #[expect(clippy::cast_possible_truncation, reason = "each half by itself")]
    let (low, high) = (number as u64, (number >> 64) as u64);
    [low, high, low ^ high]
}

fn factors(number: u128) -> [Factor; 3] {
    halves(number).map(|half| {
        let mut factor = [0; _];
        let (classes, masks) = factor.split_at_mut(CLASSES);
        for (class, bits) in classes.iter_mut().enumerate() {
            *bits = half & (u64::MAX >> (64 - BITS)) & class_of(class);
        }
        for (bit, mask) in (BITS..).zip(masks) {
            *mask = (half >> bit & 1).wrapping_neg();
        }
        factor
    })
}

/// The bits of a class in a factor.
const fn class_of(class: usize) -> u64 {
    CLASS << class
}

/// The product of two polynomials of 64 bits.
#[inline(always)]
fn product(number: u64, factor: &Factor) -> u128 {
    let [b0, b1, b2, b3, masks @ ..] = *factor;
    let [a0, a1, a2, a3] = [0, 1, 2, 3].map(|class| number & class_of(class));
    let of = |one: u64, other: u64| u128::from(one) * u128::from(other);
    let sums = [
        of(a0, b0) ^ of(a1, b3) ^ of(a2, b2) ^ of(a3, b1),
        of(a0, b1) ^ of(a1, b0) ^ of(a2, b3) ^ of(a3, b2),
        of(a0, b2) ^ of(a1, b1) ^ of(a2, b0) ^ of(a3, b3),
        of(a0, b3) ^ of(a1, b2) ^ of(a2, b1) ^ of(a3, b0),
    ];
    let mut product = 0;
    for (class, sum) in sums.into_iter().enumerate() {
        product |= sum & (PRODUCT_CLASS << class);
    }
    for (bit, mask) in (BITS..).zip(masks) {
        product ^= u128::from(number & mask) << bit;
    }
    product
}

/// Sums of products of 128 bits by Karatsuba's method: of the lower halves, of the upper ones, and of the sums of both
/// halves, from which the other two are still to be taken off; those begin at bit 64 of 256.
#[derive(Default)]
struct Products {
    low: u128,
    high: u128,
    middle: u128,
}

impl Products {
    /// Adds the product of a block and a power of H.
    #[inline(always)]
    fn add(&mut self, block: u128, [low, high, both]: &[Factor; 3]) {
        let [block_low, block_high, block_both] = halves(block);
        self.low ^= product(block_low, low);
        self.high ^= product(block_high, high);
        self.middle ^= product(block_both, both);
    }

    /// The sum modulo x^128 + x^7 + x^2 + x + 1. Bit *i* of the lower half stands for
    /// x^(255 - i) = x^(127 - i) · (x^7 + x^2 + x + 1), and multiplying by x shifts to the right: first, what would be
    /// shifted out is added where it is folded in turn.
    #[inline(always)]
    fn reduced(self) -> u128 {
        let middle = self.middle ^ self.low ^ self.high;
        let high = self.high ^ (middle >> 64);
        let low = self.low ^ (middle << 64);
        let low = low ^ (low << 127) ^ (low << 126) ^ (low << 121);
        high ^ low ^ (low >> 1) ^ (low >> 2) ^ (low >> 7)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The product bit by bit.
    fn slow(one: u64, other: u64) -> u128 {
        let bits = (0..64).filter(|bit| other >> bit & 1 == 1);
        bits.fold(0, |sum, bit| sum ^ u128::from(one) << bit)
    }

    #[test]
    fn counts_are_not_carried() {
        let mut random = scrim_seeded::Random::new(3);
        let mut numbers: Vec<u64> = (0..16).map(|_| random.next()).collect();
        numbers.extend(
            (0..64)
                .step_by(3)
                .flat_map(|bit| [1 << bit, u64::MAX >> bit, u64::MAX << bit]),
        );
        numbers.extend((0..CLASSES).map(class_of));
        for one in &numbers {
            for other in &numbers {
                let [factor, ..] = factors(u128::from(*other));
                assert_eq!(
                    product(*one, &factor),
                    slow(*one, *other),
                    "{one:x} {other:x}"
                );
            }
        }
    }

    /// SP 800-38D, 6.3: the product of two blocks.
    #[test]
    fn a_block_is_multiplied_as_the_standard_says() {
        let mut random = scrim_seeded::Random::new(4);
        let mut number = || u128::from(random.next()) << 64 | u128::from(random.next());
        for _ in 0..64 {
            let (block, hash_key) = (number(), number());
            let (mut sum, mut power) = (0, hash_key);
            for bit in (0..128).rev() {
                sum ^= power * (block >> bit & 1);
                power = (power >> 1) ^ ((0xe1 << 120) * (power & 1));
            }
            assert_eq!(HashKey::new(hash_key).hash_one(0, block), sum);
        }
    }

    #[test]
    fn groups_of_blocks_are_hashed_as_single_ones() {
        let key = HashKey::new(0x66e9_4bd4_ef8a_2c3b_884c_fa59_ca34_2b2e);
        let bytes: Vec<u8> = (0..=200).collect();
        for len in 0..bytes.len() {
            let blocks = bytes[..len].chunks(16).map(|part| {
                let mut block = [0; 16];
                block[..part.len()].copy_from_slice(part);
                u128::from_be_bytes(block)
            });
            let one_by_one = blocks.fold(7, |state, block| key.hash_one(state, block));
            assert_eq!(key.hash(7, &bytes[..len]), one_by_one, "{len}");
        }
    }
}
