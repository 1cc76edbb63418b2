//! Numbers that a seed decides.

/// A small generator (`SplitMix64`): the same seed always gives the same numbers. Not for secrets.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Starts from a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Starts from a seed and the number of one of the things it decides, so that what one of them
    /// takes does not shift the others.
    #[must_use]
    pub fn of(seed: u64, number: u64) -> Self {
        Self(Self(seed ^ number.wrapping_mul(0xd6e8_feb8_6659_fd93)).next())
    }

    /// The next 64 bits.
    #[allow(
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

    /// A number below `limit`; 0 where `limit` is 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        let scaled = (u128::from(self.next()) * u128::from(limit)) >> 64;
        u64::try_from(scaled).unwrap_or(0)
    }

    /// Returns whether something happens that happens once in `times`.
    pub fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// Chooses one of several; `None` if there are none to choose from.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> Option<&'a T> {
        let index = self.below(choices.len() as u64);
        choices.get(usize::try_from(index).ok()?)
    }

    /// Fills `out` with random bytes.
    pub fn fill(&mut self, out: &mut [u8]) {
        for piece in out.chunks_mut(8) {
            let bits = self.next().to_le_bytes();
            piece.copy_from_slice(&bits[..piece.len()]);
        }
    }
}
