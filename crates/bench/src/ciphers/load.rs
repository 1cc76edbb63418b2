//! Loads of a cipher: the direction, the length of a call, and the data's place in cache or memory.

use std::hint::black_box;
use std::ops::Range;

use super::error::MeasureError;

/// Bytes of a call that stands for a cipher where one figure has to, and of the hot data that
/// shorter calls walk through: the L2 cache holds it.
const HOT: usize = 64 << 10;
/// Bytes of the longest call.
const LONGEST: usize = 1 << 20;
/// Lengths of calls, in bytes.
const CALLS: [usize; 4] = [512, 4 << 10, HOT, LONGEST];
/// A cold buffer is a whole number of these: it has two halves, and each call goes into them evenly.
pub(super) const COLD_UNIT: usize = 2 * LONGEST;
/// Every vector and every page starts where a buffer does.
const ALIGNMENT: usize = 4096;

/// Length of a call, and the place from which its data comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Bytes of a call, all of which follow each other in the data.
    pub call: usize,
    /// Place of the data.
    pub warmth: Warmth,
}

/// Place of the data: the cache or memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Warmth {
    /// In the cache: calls of up to 64 KiB go through the same 64 KiB again and again, longer ones
    /// over the same bytes, in whichever cache these fit.
    Hot,
    /// In memory: calls go through a buffer that is larger than every cache.
    Cold,
}

/// Direction in which the cipher goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Encrypt,
    Decrypt,
}

impl Direction {
    pub(super) const BOTH: [Self; 2] = [Self::Encrypt, Self::Decrypt];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Encrypt => "encrypt",
            Self::Decrypt => "decrypt",
        }
    }
}

impl Load {
    pub const COUNT: usize = 2 * CALLS.len();
    /// All loads: first the hot ones, from the shortest call to the longest, and then the cold ones.
    pub const ALL: [Self; Self::COUNT] = {
        let hot = Self {
            call: CALLS[0],
            warmth: Warmth::Hot,
        };
        let mut all = [hot; Self::COUNT];
        let mut index = 0;
        while index < Self::COUNT {
            all[index].call = CALLS[index % CALLS.len()];
            if index >= CALLS.len() {
                all[index].warmth = Warmth::Cold;
            }
            index += 1;
        }
        all
    };
    /// The index of the load that stands for a cipher where one figure has to: hot, 64 KiB a call.
    pub const USUAL: usize = 2;

    /// Bytes that the calls of a hot load go through before they begin again: a whole number of calls.
    pub(super) fn walked(self) -> usize {
        self.call.max(HOT)
    }

    /// Name of the load as a part of series' names: `64k_hot`.
    pub(super) fn name(self) -> String {
        let warmth = match self.warmth {
            Warmth::Hot => "hot",
            Warmth::Cold => "cold",
        };
        let call = match self.call {
            LONGEST.. => format!("{}m", self.call >> 20),
            1024.. => format!("{}k", self.call >> 10),
            _ => self.call.to_string(),
        };
        format!("{call}_{warmth}")
    }

    /// Describes the load in words, where the cold buffer has `cold` bytes.
    pub(super) fn describe(self, cold: usize) -> String {
        let Self { call, warmth } = self;
        match warmth {
            Warmth::Hot if call > HOT => format!("{call} bytes a call, hot where they fit"),
            Warmth::Hot => format!("{call} bytes a call, hot"),
            Warmth::Cold => format!("{call} bytes a call, cold, from {} MiB", cold >> 20),
        }
    }
}

/// The data that is encrypted, decrypted and copied. Its content does not matter.
pub(super) struct Buffers {
    hot: Buffer,
    /// Copy target for hot data.
    other: Buffer,
    /// A whole number of [`COLD_UNIT`]s.
    cold: Buffer,
    /// Offset in the cold buffer at which the next call goes on, so that no call finds data again before the
    /// whole buffer has been used.
    at: usize,
}

impl Buffers {
    pub(super) fn new(cold: usize) -> Result<Self, MeasureError> {
        Ok(Self {
            hot: Buffer::new(LONGEST)?,
            other: Buffer::new(LONGEST)?,
            cold: Buffer::new(cold)?,
            at: 0,
        })
    }

    /// Bytes of the cold buffer.
    pub(super) fn cold_bytes(&self) -> usize {
        self.cold.len
    }

    /// Calls `turn` `turns` times, with each call's data.
    pub(super) fn calls(&mut self, load: Load, turns: u64, mut turn: impl FnMut(&mut [u8])) {
        let mut walk = self.walk(load);
        let data = match load.warmth {
            Warmth::Hot => self.hot.all(),
            Warmth::Cold => self.cold.all(),
        };
        for _ in 0..turns {
            turn(black_box(&mut data[walk.next()]));
        }
        self.went(load, &walk);
    }

    /// All data that the calls of a hot load go through.
    pub(super) fn walked(&mut self, load: Load) -> &mut [u8] {
        &mut self.hot.all()[..load.walked()]
    }

    /// Copies each call's data, with what the library has for that: from one hot buffer to the other,
    /// or within the cold one to half a buffer away.
    pub(super) fn copies(&mut self, load: Load, turns: u64) {
        let mut walk = self.walk(load);
        let half = self.cold.len / 2;
        for _ in 0..turns {
            let range = walk.next();
            let (source, destination) = match load.warmth {
                Warmth::Hot => (&self.hot.all()[range.clone()], &mut self.other.all()[range]),
                Warmth::Cold => {
                    let (low, high) = self.cold.all().split_at_mut(half);
                    if range.start < half {
                        (&low[range.clone()], &mut high[range])
                    } else {
                        let range = range.start - half..range.end - half;
                        (&high[range.clone()], &mut low[range])
                    }
                }
            };
            destination.copy_from_slice(black_box(source));
            black_box(destination);
        }
        self.went(load, &walk);
    }

    fn walk(&self, load: Load) -> Walk {
        let Load { call, warmth } = load;
        match warmth {
            Warmth::Hot => Walk {
                at: 0,
                call,
                len: load.walked(),
            },
            Warmth::Cold => Walk {
                at: self.at.next_multiple_of(call) % self.cold.len,
                call,
                len: self.cold.len,
            },
        }
    }

    fn went(&mut self, load: Load, walk: &Walk) {
        if load.warmth == Warmth::Cold {
            self.at = walk.at;
        }
    }
}

/// Goes through `len` bytes, a whole number of calls, and begins again.
struct Walk {
    at: usize,
    call: usize,
    len: usize,
}

impl Walk {
    fn next(&mut self) -> Range<usize> {
        let start = self.at;
        let end = start + self.call;
        self.at = if end < self.len { end } else { 0 };
        start..end
    }
}

struct Buffer {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl Buffer {
    /// Touched, so that no page comes to be while it is measured.
    fn new(len: usize) -> Result<Self, MeasureError> {
        let mut bytes = Vec::new();
        let room = len.saturating_add(ALIGNMENT);
        if bytes.try_reserve_exact(room).is_err() {
            return Err(MeasureError::Memory { bytes: len });
        }
        bytes.resize(room, 0x5a);
        // Where the offset cannot be told, the buffer stays as the allocator made it.
        let start = bytes.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        Ok(Self { bytes, start, len })
    }

    fn all(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLD: Load = Load {
        call: HOT,
        warmth: Warmth::Cold,
    };

    #[test]
    fn every_call_is_there_hot_and_cold() {
        let names: Vec<_> = Load::ALL.into_iter().map(Load::name).collect();
        let wanted = [
            "512_hot", "4k_hot", "64k_hot", "1m_hot", "512_cold", "4k_cold", "64k_cold", "1m_cold",
        ];
        assert_eq!(names, wanted);
        assert_eq!(names[Load::USUAL], "64k_hot");
    }

    #[test]
    fn calls_go_through_the_data_in_order() {
        let mut buffers = Buffers::new(COLD_UNIT).unwrap();
        let base = buffers.cold.all().as_ptr() as usize;
        assert_eq!(base % ALIGNMENT, 0);
        let mut starts = Vec::new();
        let mut call = |load, turns| {
            buffers.calls(load, turns, |run| {
                starts.push((run.as_ptr() as usize).wrapping_sub(base));
            });
        };
        call(COLD, 2);
        call(Load { call: 512, ..COLD }, 2);
        // The rest of a call's place that was begun is left out, so that none goes over the end.
        call(
            Load {
                call: LONGEST,
                ..COLD
            },
            2,
        );
        call(COLD, 1);
        let wanted = [0, HOT, 2 * HOT, 2 * HOT + 512, LONGEST, 0, LONGEST];
        assert_eq!(starts, wanted);
    }

    #[test]
    fn hot_calls_stay_within_what_is_hot() {
        let mut buffers = Buffers::new(COLD_UNIT).unwrap();
        for load in Load::ALL.into_iter().filter(|l| l.warmth == Warmth::Hot) {
            let hot = buffers.hot.all().as_ptr() as usize;
            let mut furthest = 0;
            buffers.calls(load, 300, |run| {
                assert_eq!(run.len(), load.call);
                furthest = furthest.max(run.as_ptr() as usize + run.len() - hot);
            });
            assert_eq!(furthest, load.call.max(HOT), "{load:?}");
        }
    }

    #[test]
    fn copies_go_half_a_buffer_away() {
        let mut buffers = Buffers::new(COLD_UNIT).unwrap();
        let long = Load {
            call: LONGEST,
            ..COLD
        };
        let (low, high) = buffers.cold.all().split_at_mut(LONGEST);
        low.fill(1);
        high.fill(2);
        buffers.copies(long, 1);
        assert!(buffers.cold.all().iter().all(|byte| *byte == 1));
        buffers.cold.all()[LONGEST..].fill(3);
        buffers.copies(long, 1);
        assert!(buffers.cold.all().iter().all(|byte| *byte == 3));
        buffers.hot.all()[..HOT].fill(4);
        buffers.copies(Load::ALL[Load::USUAL], 1);
        assert!(buffers.other.all()[..HOT].iter().all(|byte| *byte == 4));
        assert_eq!(buffers.other.all()[HOT], 0x5a);
    }
}
