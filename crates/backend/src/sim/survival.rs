//! Choice of the writes in a volatile cache that reach the medium when the power fails.

use scrim_seeded::Random;

/// The sectors of one write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) first: u64,
    pub(super) count: u64,
}

/// The fate of every write that was in the cache at one power cut.
///
/// Coins tossed for each sector alone would reach every outcome, but hardly ever those that hurt:
/// everything but one write, one write and nothing before it. So a seed first chooses how it
/// chooses.
pub(super) struct Survival {
    seed: u64,
    policy: Policy,
}

#[derive(Debug, Clone, Copy)]
enum Policy {
    Nothing,
    Everything,
    /// Writes up to this number, the last one torn.
    Early(u64),
    /// Writes from this number on: later ones overtook all earlier ones.
    Late(u64),
    /// All but this write.
    AllBut(u64),
    /// Each write is kept, torn or dropped for itself; kept with a chance of this many in 8.
    Each(u64),
    /// Each sector is kept or dropped for itself; kept with a chance of this many in 8.
    Sectors(u64),
}

#[derive(Debug, Clone, Copy)]
enum Fate {
    Kept,
    Dropped,
    Torn(Tear),
}

/// Choice of the sectors of a torn write that are kept.
#[derive(Debug, Clone, Copy)]
enum Tear {
    /// This number of first sectors.
    Head(u64),
    /// All sectors but this number of first ones.
    Tail(u64),
    Only(u64),
    AllBut(u64),
    /// Each sector by a coin of its own.
    Scattered,
}

impl Survival {
    /// Decides about the writes of these numbers, in rising order.
    pub(super) fn new(seed: u64, writes: &[u64]) -> Self {
        let mut random = Random::new(seed);
        let kind = random.below(10);
        let one = random.pick(writes).copied().unwrap_or(0);
        let policy = match kind {
            0 => Policy::Nothing,
            1 => Policy::Everything,
            2 => Policy::Early(one),
            3 => Policy::Late(one),
            4 => Policy::AllBut(one),
            5 | 6 => Policy::Sectors(1 + random.below(7)),
            _ => Policy::Each(random.below(8)),
        };
        Self { seed, policy }
    }

    /// Returns whether what `write` wrote to `sector` is on the medium, unless a later write is.
    pub(super) fn keeps(&self, write: u64, extent: Extent, sector: u64) -> bool {
        let mut random = Random::of(self.seed, write);
        let fate = match self.policy {
            Policy::Nothing => Fate::Dropped,
            Policy::Everything => Fate::Kept,
            Policy::Early(last) if write == last => Fate::Torn(tear(&mut random, extent)),
            Policy::Early(last) => kept_if(write < last),
            Policy::Late(first) => kept_if(write >= first),
            Policy::AllBut(one) => kept_if(write != one),
            Policy::Each(_) if random.one_in(3) => Fate::Torn(tear(&mut random, extent)),
            Policy::Each(share) => kept_if(random.below(8) < share),
            Policy::Sectors(share) => kept_if(Random::of(random.next(), sector).below(8) < share),
        };
        match fate {
            Fate::Kept => true,
            Fate::Dropped => false,
            Fate::Torn(tear) => tear.keeps(random.next(), sector - extent.first, sector),
        }
    }
}

fn kept_if(kept: bool) -> Fate {
    if kept { Fate::Kept } else { Fate::Dropped }
}

fn tear(random: &mut Random, extent: Extent) -> Tear {
    let at = random.below(extent.count);
    match random.below(6) {
        0 => Tear::Head(at),
        1 => Tear::Tail(at + 1),
        2 => Tear::Only(at),
        3 => Tear::AllBut(at),
        _ => Tear::Scattered,
    }
}

impl Tear {
    fn keeps(self, seed: u64, index: u64, sector: u64) -> bool {
        match self {
            Self::Head(count) => index < count,
            Self::Tail(count) => index >= count,
            Self::Only(one) => index == one,
            Self::AllBut(one) => index != one,
            Self::Scattered => Random::of(seed, sector).one_in(2),
        }
    }
}

/// Chooses the sectors of a failed write that reached the cache all the same.
pub(super) fn torn(seed: u64, extent: Extent) -> impl Fn(u64) -> bool {
    let mut random = Random::new(seed);
    let tear = tear(&mut random, extent);
    let seed = random.next();
    move |sector| tear.keeps(seed, sector - extent.first, sector)
}
