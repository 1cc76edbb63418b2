//! Numbers and bytes that a seed decides, for simulations, tests and measurements: a run that fails can be repeated.
//!
//! None of this is for secrets: anyone who knows the seed knows all of it.

#![forbid(unsafe_code)]

/// A small generator (`SplitMix64` of Steele, Lea and Flood): the same seed always gives the same numbers.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Starts from a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Starts from a seed and the number of one of the things that the seed decides, so that the numbers that one of
    /// them takes do not shift the others.
    #[must_use]
    pub fn of(seed: u64, number: u64) -> Self {
        Self(Self(seed ^ number.wrapping_mul(0xd6e8_feb8_6659_fd93)).next())
    }

    /// Returns the next 64 bits.
    #[inline]
    #[expect(
        clippy::should_implement_trait,
        reason = "it never ends, so an Option would be in the way"
    )]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// Returns a number below `limit`; 0 if `limit` is 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        let scaled = (u128::from(self.next()) * u128::from(limit)) >> 64;
        u64::try_from(scaled).unwrap_or(0)
    }

    /// Returns an index below `len`; 0 if `len` is 0.
    pub fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap_or(0)
    }

    /// Returns true once in `times` calls, on average.
    pub fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// Chooses one of several; `None` if there are none to choose from.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> Option<&'a T> {
        choices.get(self.index(choices.len()))
    }

    /// Fills `out` with the next numbers, eight bytes of each.
    pub fn fill(&mut self, out: &mut [u8]) {
        for piece in out.chunks_mut(8) {
            let bits = self.next().to_le_bytes();
            piece.copy_from_slice(&bits[..piece.len()]);
        }
    }

    /// Returns `len` bytes, which no program can compress.
    #[must_use]
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.fill(&mut bytes);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers of the generator's authors for this seed.
    #[test]
    fn the_numbers_are_those_of_splitmix64() {
        let mut random = Random::new(1_234_567);
        for number in [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
        ] {
            assert_eq!(random.next(), number);
        }
    }

    #[test]
    fn bytes_are_the_numbers_in_order() {
        let numbers = Random::new(3).bytes(19);
        let mut random = Random::new(3);
        for piece in numbers.chunks(8) {
            assert_eq!(piece, &random.next().to_le_bytes()[..piece.len()]);
        }
        assert!(Random::new(3).bytes(0).is_empty());
    }

    #[test]
    fn numbers_stay_below_their_limit() {
        let mut random = Random::new(5);
        let mut seen = [false; 7];
        for _ in 0..1000 {
            seen[random.index(seen.len())] = true;
        }
        assert_eq!(seen, [true; 7]);
        assert_eq!((random.below(0), random.index(0)), (0, 0));
        assert_eq!(random.pick::<u8>(&[]), None);
        assert!(random.one_in(1));
    }

    #[test]
    fn things_of_one_seed_have_numbers_of_their_own() {
        assert_ne!(Random::of(1, 1).next(), Random::of(1, 2).next());
        assert_eq!(Random::of(1, 1).next(), Random::of(1, 1).next());
    }
}
