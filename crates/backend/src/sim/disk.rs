//! The state of a simulated disk: a medium, and a cache before it that a power cut empties.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use scrim_seeded::Random;

use super::survival::{Extent, Survival};

/// Unit that a disk writes as a whole, in bytes.
pub(super) const SECTOR: usize = 512;
const SECTOR_BYTES: u64 = SECTOR as u64;

type Sector = Arc<[u8; SECTOR]>;

#[derive(Debug, Clone, Default)]
pub(super) struct Disk {
    /// Contents that a power cut leaves. A sector that is not in the map holds zeros.
    medium: BTreeMap<u64, Sector>,
    /// Contents that a power cut may take or leave: for each sector, the versions written since it was
    /// last made durable, in the order in which they arrived. Reads see the last.
    cache: BTreeMap<u64, Vec<Version>>,
    /// The writes that the cache knows of.
    writes: BTreeMap<u64, Extent>,
}

#[derive(Debug, Clone)]
struct Version {
    /// Number of the write.
    write: u64,
    bytes: Sector,
}

impl Disk {
    /// Creates a disk that durably holds `bytes`.
    pub(super) fn holding(bytes: &[u8]) -> Self {
        let mut disk = Self::default();
        for (sector, piece) in (0..).zip(bytes.chunks(SECTOR)) {
            let mut whole = [0; SECTOR];
            whole[..piece.len()].copy_from_slice(piece);
            disk.settle(sector, Arc::new(whole));
        }
        disk
    }

    pub(super) fn read(&self, offset: u64, buffer: &mut [u8]) {
        let mut buffer = buffer;
        for (sector, within) in sectors_of(offset, buffer.len()) {
            let (now, rest) = buffer.split_at_mut(within.len());
            buffer = rest;
            match self.now(sector) {
                Some(bytes) => now.copy_from_slice(&bytes[within]),
                None => now.fill(0),
            }
        }
    }

    /// Puts `data`, all or a piece of write `number` with its whole `extent`, into the cache: those
    /// sectors of it for which `arrives` says so. A part of a sector is merged with the rest of it.
    pub(super) fn write(
        &mut self,
        (number, extent): (u64, Extent),
        offset: u64,
        data: &[u8],
        arrives: impl Fn(u64) -> bool,
    ) {
        // Again for each piece: a flush in between has forgotten it.
        self.writes.insert(number, extent);
        let mut data = data;
        for (sector, within) in sectors_of(offset, data.len()) {
            let (now, rest) = data.split_at(within.len());
            data = rest;
            if arrives(sector) {
                let mut bytes = self.now(sector).map_or([0; SECTOR], |bytes| **bytes);
                bytes[within].copy_from_slice(now);
                let bytes = Arc::new(bytes);
                let versions = self.cache.entry(sector).or_default();
                versions.push(Version {
                    write: number,
                    bytes,
                });
            }
        }
    }

    /// Forgets the whole sectors in a range: each keeps what it has, or holds zeros or noise.
    pub(super) fn discard(&mut self, number: u64, range: &Range<u64>, random: &mut Random) {
        let first = range.start.div_ceil(SECTOR_BYTES);
        let end = (range.end / SECTOR_BYTES).max(first);
        let count = end - first;
        for sector in first..end {
            let mut bytes = [0; SECTOR];
            match random.below(4) {
                0 => continue,
                1 => random.fill(&mut bytes),
                _ => {}
            }
            let extent = Extent { first, count };
            self.write((number, extent), sector * SECTOR_BYTES, &bytes, |_| true);
        }
    }

    /// Makes everything durable that is in the cache now.
    pub(super) fn flush(&mut self) {
        self.writes.clear();
        for (sector, versions) in std::mem::take(&mut self.cache) {
            if let Some(last) = versions.into_iter().next_back() {
                self.settle(sector, last.bytes);
            }
        }
    }

    /// Makes one write durable, and so what it replaced forgotten.
    pub(super) fn make_durable(&mut self, number: u64) {
        let Some(extent) = self.writes.remove(&number) else {
            // A flush that came in between has done it.
            return;
        };
        for sector in extent.first..extent.first + extent.count {
            let Some(versions) = self.cache.get_mut(&sector) else {
                continue;
            };
            let Some(at) = versions.iter().position(|one| one.write == number) else {
                continue;
            };
            let durable = versions.drain(..=at).next_back();
            if versions.is_empty() {
                self.cache.remove(&sector);
            }
            if let Some(durable) = durable {
                self.settle(sector, durable.bytes);
            }
        }
    }

    /// Fails a flush: of each sector in the cache the last version becomes durable, or all are lost and
    /// reads see the medium again, or all stay where they are.
    pub(super) fn fail_flush(&mut self, random: &mut Random) {
        for (sector, versions) in std::mem::take(&mut self.cache) {
            match (random.below(3), versions.last()) {
                (0, Some(last)) => self.settle(sector, Arc::clone(&last.bytes)),
                (1, _) => {}
                _ => {
                    self.cache.insert(sector, versions);
                }
            }
        }
    }

    /// Returns the medium after a power cut now.
    pub(super) fn after_cut(&self, seed: u64) -> Self {
        let numbers: Vec<u64> = self.writes.keys().copied().collect();
        let survival = Survival::new(seed, &numbers);
        let mut after = Self {
            medium: self.medium.clone(),
            ..Self::default()
        };
        for (&sector, versions) in &self.cache {
            let survivor = versions.iter().rev().find(|version| {
                let extent = self.writes.get(&version.write);
                extent.is_some_and(|extent| survival.keeps(version.write, *extent, sector))
            });
            if let Some(survivor) = survivor {
                after.settle(sector, Arc::clone(&survivor.bytes));
            }
        }
        after
    }

    fn now(&self, sector: u64) -> Option<&Sector> {
        let cached = self.cache.get(&sector).and_then(|versions| versions.last());
        cached
            .map(|version| &version.bytes)
            .or_else(|| self.medium.get(&sector))
    }

    fn settle(&mut self, sector: u64, bytes: Sector) {
        if *bytes == [0; SECTOR] {
            self.medium.remove(&sector);
        } else {
            self.medium.insert(sector, bytes);
        }
    }
}

/// Returns the sectors that a range touches, each with the part of it in the range.
fn sectors_of(offset: u64, len: usize) -> impl Iterator<Item = (u64, Range<usize>)> {
    let mut offset = offset;
    let mut left = len;
    std::iter::from_fn(move || {
        if left == 0 {
            return None;
        }
        #[allow(clippy::cast_possible_truncation, reason = "below SECTOR")]
        let start = (offset % SECTOR_BYTES) as usize;
        let sector = offset / SECTOR_BYTES;
        let len = left.min(SECTOR - start);
        offset += len as u64;
        left -= len;
        Some((sector, start..start + len))
    })
}

/// The sectors that a range touches, counted.
pub(super) fn extent(offset: u64, len: usize) -> Extent {
    let first = offset / SECTOR_BYTES;
    let end = (offset + len as u64).div_ceil(SECTOR_BYTES);
    Extent {
        first,
        count: end.saturating_sub(first),
    }
}
