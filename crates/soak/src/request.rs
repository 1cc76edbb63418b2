//! Requests to a volume, chosen from a seed.

use std::fmt;

use scrim_seeded::Random;

use crate::fixture::{Fixture, Front, LONG};
use crate::value::UNIT;
use crate::way::Way;

/// Bytes of a block. Where several threads write, each writes parts of units only in blocks that
/// are its own. A block is three units, so that encryption sectors of eight are shared all the
/// same.
const BLOCK: usize = 3 * UNIT;

/// Approximate number of bytes that a volume writes at once.
const PIECE: u64 = 64 << 10;

/// A request. Offsets and lengths are bytes of the volume.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Request {
    Read {
        offset: usize,
        len: usize,
    },
    Write {
        offset: usize,
        len: usize,
        durable: bool,
    },
    Zeroes {
        offset: usize,
        len: usize,
        durable: bool,
    },
    Discard {
        offset: usize,
        len: usize,
    },
    Flush,
    /// A change of the header.
    Header,
    /// Another table for the same data, put in the place of the one at work.
    Exchange {
        way: Way,
    },
    /// Holds requests, and lets them go again.
    Suspend,
}

impl Request {
    /// Approximate number of calls that change something which the request makes.
    pub(crate) fn changes(self) -> u64 {
        match self {
            Self::Header => 5,
            Self::Write { len, .. } | Self::Zeroes { len, .. } => 1 + len as u64 / PIECE,
            _ => 1,
        }
    }
}

/// Chooses requests for one thread.
pub(crate) struct Chooser {
    pub(crate) fixture: Fixture,
    pub(crate) threads: usize,
    pub(crate) me: usize,
}

impl Chooser {
    pub(crate) fn choose(&self, random: &mut Random) -> Request {
        if self.fixture.front != Front::Nothing && self.me == 0 && random.one_in(5) {
            return Request::Header;
        }
        if random.one_in(24) {
            let way = Way::choose(random);
            return Request::Exchange { way };
        }
        if random.one_in(64) {
            return Request::Suspend;
        }
        let durable = random.one_in(4);
        match random.below(20) {
            0..=3 => {
                let (offset, len) = any(random, 0, self.fixture.size);
                Request::Read { offset, len }
            }
            4..=6 => Request::Flush,
            7 => {
                let (offset, len) = any(random, self.shared_from(), self.fixture.size);
                Request::Discard { offset, len }
            }
            8 | 9 => {
                let (offset, len) = self.changeable(random);
                Request::Zeroes {
                    offset,
                    len,
                    durable,
                }
            }
            _ => {
                let (offset, len) = self.changeable(random);
                Request::Write {
                    offset,
                    len,
                    durable,
                }
            }
        }
    }

    /// Offset of the part of the volume that the threads share.
    fn shared_from(&self) -> usize {
        if self.threads == 1 {
            0
        } else {
            self.fixture.size / 2 / BLOCK * BLOCK
        }
    }

    /// A range that this thread may change.
    fn changeable(&self, random: &mut Random) -> (usize, usize) {
        let (shared_from, size) = (self.shared_from(), self.fixture.size);
        if self.threads == 1 {
            if size > LONG && random.one_in(4) {
                let offset = below(random, size - LONG);
                return (offset, LONG + below(random, size - LONG - offset + 1));
            }
            return any(random, 0, size);
        }
        if random.one_in(2) {
            let (offset, len) = any(random, shared_from, size);
            let end = (offset + len).next_multiple_of(UNIT);
            let offset = offset / UNIT * UNIT;
            return (offset, end - offset);
        }
        let blocks = shared_from / BLOCK / self.threads;
        let block = self.me + self.threads * below(random, blocks);
        any(random, block * BLOCK, (block + 1) * BLOCK)
    }
}

/// A range within another: of whole units, of a few bytes, of whole blocks, or of any size.
fn any(random: &mut Random, from: usize, to: usize) -> (usize, usize) {
    let room = to - from;
    let (offset, len) = match random.below(8) {
        0..=2 => (
            below(random, room / UNIT) * UNIT,
            (1 + below(random, 8)) * UNIT,
        ),
        3 | 4 => (below(random, room), 1 + below(random, 700)),
        5 => (
            below(random, room) / 4096 * 4096,
            (1 + below(random, 3)) * 4096,
        ),
        6 => (below(random, room), 1 + below(random, room)),
        _ => (below(random, room / UNIT) * UNIT, 1 + below(random, 5000)),
    };
    (from + offset, len.min(room - offset))
}

fn below(random: &mut Random, limit: usize) -> usize {
    usize::try_from(random.below(limit as u64)).unwrap_or(0)
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |durable: bool| if durable { " durably" } else { "" };
        match *self {
            Self::Read { offset, len } => write!(f, "read {len} bytes at {offset}"),
            Self::Write {
                offset,
                len,
                durable,
            } => write!(f, "write {len} bytes at {offset}{}", word(durable)),
            Self::Zeroes {
                offset,
                len,
                durable,
            } => write!(f, "write {len} zeros at {offset}{}", word(durable)),
            Self::Discard { offset, len } => write!(f, "discard {len} bytes at {offset}"),
            Self::Flush => f.write_str("flush"),
            Self::Header => f.write_str("change the header"),
            Self::Exchange { way } => write!(f, "exchange the table: {way}"),
            Self::Suspend => f.write_str("suspend and resume"),
        }
    }
}
