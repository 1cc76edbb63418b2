//! Argon2's memory matrix and the order in which it is filled (RFC 9106, sections 3.2 and 3.4).

use std::mem;

use scrim_crypt::argon2::{Block, Compressor, Write, prefetch, wipe_stack};

use crate::kdf::error::KdfError;
use crate::kdf::guard::Watch;
use crate::kdf::parallel;
use crate::kdf::parameters::{Argon2Cost, Argon2Kind};

/// Slices of the matrix. Lanes wait for one another at their ends.
pub(super) const SLICES: usize = 4;

/// Words in a block, and so addresses in a block of addresses.
const WORDS: usize = 128;

/// Blocks of a segment between two looks whether to go on: some milliseconds for a few lanes.
const BETWEEN_LOOKS: usize = 2048;

/// Blocks in a segment below which a thread costs more than it saves.
const TOO_SMALL_FOR_THREADS: usize = 128;

/// The matrix: [`SLICES`] slices of a segment for each lane.
///
/// The RFC numbers blocks lane by lane. Here *slices* follow one another in memory, and within each
/// the segments of the lanes. So a slice can be borrowed to be written, split among the threads
/// that each write a part of it, while all of them may read the other three. The blocks that a lane
/// may not read, those of other lanes in the same slice, are the ones that it cannot name.
pub(super) struct Matrix {
    kind: Argon2Kind,
    passes: u32,
    lane_count: u32,
    /// Blocks in a segment.
    segment: usize,
}

impl Matrix {
    /// The matrix for a `cost` that has been checked.
    pub(super) fn new(kind: Argon2Kind, cost: Argon2Cost) -> Self {
        Self {
            kind,
            passes: cost.time,
            lane_count: cost.lanes,
            segment: cost.memory_kib as usize / (SLICES * cost.lanes as usize),
        }
    }

    pub(super) fn lanes(&self) -> usize {
        self.lane_count as usize
    }

    /// m′: blocks in all.
    pub(super) fn blocks(&self) -> usize {
        SLICES * self.lanes() * self.segment
    }

    /// The segments of a slice, lane by lane.
    pub(super) fn segments_of<'m>(
        &self,
        memory: &'m mut [Block],
        slice: usize,
    ) -> impl Iterator<Item = &'m mut [Block]> + use<'m> {
        let blocks = self.lanes() * self.segment;
        memory[slice * blocks..][..blocks].chunks_exact_mut(self.segment)
    }

    /// Position of the last block of a lane's segment.
    pub(super) fn last_block(&self, slice: usize, lane: usize) -> usize {
        (slice * self.lanes() + lane + 1) * self.segment - 1
    }

    /// All passes (section 3.2, steps 5 and 6) over a `memory` in which the first two blocks of
    /// every lane are set, on as many threads as there are lanes and `cpus` for them.
    ///
    /// # Errors
    /// When `watch` ends it; the memory is of no use then.
    pub(super) fn fill(
        &self,
        memory: &mut [Block],
        cpus: usize,
        watch: &Watch<'_>,
    ) -> Result<(), KdfError> {
        let threads = if self.segment < TOO_SMALL_FOR_THREADS {
            1
        } else {
            self.lanes().min(cpus.max(1))
        };
        let compressor = Compressor::best();
        for pass in 0..self.passes {
            for slice in 0..SLICES {
                let mut slices = split(memory);
                let current = mem::take(&mut slices[slice]);
                let step = Step {
                    matrix: self,
                    compressor,
                    pass,
                    slice,
                    others: slices.map(|slice| &*slice),
                };
                step.fill(current, threads, watch);
                watch.result()?;
            }
        }
        Ok(())
    }
}

fn split(memory: &mut [Block]) -> [&mut [Block]; SLICES] {
    let mut slices = memory.chunks_exact_mut(memory.len() / SLICES);
    std::array::from_fn(|_| slices.next().unwrap_or_default())
}

/// One slice in one pass.
struct Step<'m> {
    matrix: &'m Matrix,
    compressor: Compressor,
    pass: u32,
    slice: usize,
    /// The other slices; in the place of this one, nothing.
    others: [&'m [Block]; SLICES],
}

/// A lane within a step.
struct Lane<'m> {
    number: usize,
    /// The segment that is being filled.
    segment: &'m mut [Block],
    /// J₁ and J₂ for the next block, where they depend on data (section 3.4.1.1).
    pseudorandom: u64,
    /// Where they do not (section 3.4.1.2).
    addresses: Option<Addresses>,
}

impl Step<'_> {
    fn fill(&self, current: &mut [Block], threads: usize, watch: &Watch<'_>) {
        let mut lanes: Vec<Lane<'_>> = current
            .chunks_exact_mut(self.matrix.segment)
            .enumerate()
            .map(|(number, segment)| self.lane(number, segment))
            .collect();
        let groups = lanes.chunks_mut(self.matrix.lanes().div_ceil(threads));
        parallel::for_each(groups, threads, |group| {
            // Lanes in turn: while one computes, the block that the next one reads is on its way.
            for index in self.first_index()..self.matrix.segment {
                if index.is_multiple_of(BETWEEN_LOOKS) && watch.stops() {
                    break;
                }
                for lane in &mut *group {
                    self.fill_block(lane, index);
                }
            }
            wipe_stack();
        });
    }

    /// In the very first step, two blocks are there from the beginning.
    fn first_index(&self) -> usize {
        if self.pass == 0 && self.slice == 0 {
            2
        } else {
            0
        }
    }

    fn lane<'s>(&self, number: usize, segment: &'s mut [Block]) -> Lane<'s> {
        let data_independent = match self.matrix.kind {
            Argon2Kind::Argon2i => true,
            Argon2Kind::Argon2id => self.pass == 0 && self.slice < SLICES / 2,
        };
        Lane {
            number,
            pseudorandom: self.previous(number, &segment[..self.first_index()])[0],
            addresses: data_independent.then(|| Addresses::new(self, number)),
            segment,
        }
    }

    #[inline]
    fn fill_block(&self, lane: &mut Lane<'_>, index: usize) {
        if let Some(addresses) = &mut lane.addresses {
            lane.pseudorandom = addresses.get(index, self.compressor);
        }
        let (done, rest) = lane.segment.split_at_mut(index);
        let [block, ahead @ ..] = rest else { return };
        if let Some(block) = ahead.get(1) {
            prefetch(block);
        }
        let number = lane.number;
        let previous = self.previous(number, done);
        let reference = self.reference(number, index, lane.pseudorandom, done);
        self.compressor
            .compress(previous, reference, block, self.write(), |word| {
                lane.pseudorandom = match &lane.addresses {
                    Some(addresses) => addresses.peek(index + 1),
                    None => word,
                };
                prefetch(self.reference(number, index + 1, lane.pseudorandom, done));
            });
    }

    fn write(&self) -> Write {
        if self.pass == 0 {
            Write::Replace
        } else {
            Write::Xor
        }
    }

    /// The block before the one that comes after `done` in the segment of `lane`.
    #[inline]
    fn previous<'s>(&'s self, lane: usize, done: &'s [Block]) -> &'s Block {
        done.last().unwrap_or_else(|| {
            let slice = (self.slice + SLICES - 1) % SLICES;
            &self.others[slice][(lane + 1) * self.matrix.segment - 1]
        })
    }

    /// The block that J₁ and J₂ choose for block `index` of the segment of `lane` (section 3.4.2).
    /// `done` is that segment up to the previous block at least.
    #[inline]
    fn reference<'s>(
        &'s self,
        lane: usize,
        index: usize,
        pseudorandom: u64,
        done: &'s [Block],
    ) -> &'s Block {
        let segment = self.matrix.segment;
        let (j1, j2) = (pseudorandom & 0xffff_ffff, (pseudorandom >> 32) as u32);
        let (whole_slices, oldest) = if self.pass == 0 {
            (self.slice, 0)
        } else {
            (SLICES - 1, self.slice + 1)
        };
        let from = if whole_slices == 0 {
            lane
        } else {
            (j2 % self.matrix.lane_count) as usize
        };
        // W without its last block, which is the previous one of this lane, or may not be ready.
        let candidates = if from == lane {
            whole_slices * segment + index - 1
        } else {
            whole_slices * segment - usize::from(index == 0)
        };
        let x = (j1 * j1) >> 32;
        let y = (candidates as u64 * x) >> 32;
        let z = candidates - 1 - y as usize;
        // Three comparisons take less time than a division.
        let slices_before = (1..SLICES).filter(|n| z >= n * segment).count();
        let slice = (oldest + slices_before) % SLICES;
        let offset = z - slices_before * segment;
        if slice == self.slice {
            &done[offset]
        } else {
            &self.others[slice][from * segment + offset]
        }
    }
}

/// The addresses of a segment that is filled in an order which does not depend on data.
struct Addresses {
    /// Input from which the addresses are made: where in the matrix they are used, and a counter.
    input: Block,
    block: Block,
}

impl Addresses {
    /// Position of the counter in `input`.
    const COUNTER: usize = 6;

    fn new(step: &Step<'_>, lane: usize) -> Self {
        let matrix = step.matrix;
        let mut input = [0; WORDS];
        input[..Self::COUNTER].copy_from_slice(&[
            step.pass.into(),
            lane as u64,
            step.slice as u64,
            matrix.blocks() as u64,
            matrix.passes.into(),
            matrix.kind.number().into(),
        ]);
        let mut addresses = Self {
            input,
            block: [0; WORDS],
        };
        if step.first_index() > 0 {
            addresses.renew(step.compressor);
        }
        addresses
    }

    /// J₁ and J₂ of block `index`; asked for in order.
    fn get(&mut self, index: usize, compressor: Compressor) -> u64 {
        if index.is_multiple_of(WORDS) {
            self.renew(compressor);
        }
        self.peek(index)
    }

    /// As `get`, but wrong where new addresses would have to be made: good enough to prefetch by.
    fn peek(&self, index: usize) -> u64 {
        self.block[index % WORDS]
    }

    fn renew(&mut self, compressor: Compressor) {
        const ZERO: Block = [0; WORDS];
        let mut inner = ZERO;
        self.input[Self::COUNTER] += 1;
        compressor.compress(&ZERO, &self.input, &mut inner, Write::Replace, |_| ());
        compressor.compress(&ZERO, &inner, &mut self.block, Write::Replace, |_| ());
    }
}
