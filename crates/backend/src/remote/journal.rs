//! Writes that a server has acknowledged and may still lose: those since the last flush, in the order in
//! which they were acknowledged.
//!
//! Writes that overlap never run at the same time (`claims.rs`), so that this order is also the one in
//! which the server has executed them, wherever it matters.

use std::collections::VecDeque;
use std::ops::Range;

use scrim_nbd::client::{Command, Request};

/// Memory that an entry takes beside its data, in bytes.
const ENTRY: usize = 128;

/// Number of bytes allocated at a time for the entries' data.
const CHUNK: usize = 1 << 20;

/// Most entries that are sent again without waiting for replies, whose answers fit any socket.
pub(super) const BATCH: usize = 64;
/// Most bytes that are sent again without waiting for replies.
const BATCH_BYTES: usize = 1 << 20;

/// Writes that no flush has covered.
#[derive(Default)]
pub(super) struct Journal {
    entries: VecDeque<Entry>,
    /// Number of the first entry, counted since the export was opened.
    first: u64,
    /// Memory that the entries take with their data, in bytes.
    cost: usize,
    data: Data,
}

/// A write that the server has acknowledged.
#[derive(Debug, Clone, Copy)]
pub(super) enum Write<'a> {
    Bytes(&'a [u8]),
    /// Zeros, of this number of bytes.
    Zeroes(u32),
}

struct Entry {
    offset: u64,
    len: u32,
    /// Place of its bytes; zeros have none.
    at: Option<Spot>,
}

impl Entry {
    fn cost(&self) -> usize {
        ENTRY + self.at.map_or(0, |_| self.len as usize)
    }

    fn range(&self) -> Range<u64> {
        self.offset..self.offset + u64::from(self.len)
    }

    fn request(&self) -> Request {
        let command = match self.at {
            Some(_) => Command::Write { fua: false },
            None => Command::WriteZeroes,
        };
        Request {
            command,
            offset: self.offset,
            len: self.len,
        }
    }
}

impl Journal {
    /// Adds an acknowledged write.
    pub(super) fn add(&mut self, offset: u64, write: Write<'_>) {
        let entry = match write {
            Write::Bytes(bytes) => Entry {
                offset,
                // No piece is longer.
                len: u32::try_from(bytes.len()).unwrap_or(u32::MAX),
                at: Some(self.data.put(bytes)),
            },
            Write::Zeroes(len) => Entry {
                offset,
                len,
                at: None,
            },
        };
        self.cost += entry.cost();
        self.entries.push_back(entry);
    }

    /// Returns the number of the first entry.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// Returns the number that the next entry will have: a flush that is sent now covers all below it.
    pub(super) fn next(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// Forgets all entries with numbers below `end`, which a flush has covered.
    pub(super) fn forget(&mut self, end: u64) {
        while self.first < end
            && let Some(entry) = self.entries.pop_front()
        {
            self.cost -= entry.cost();
            self.first += 1;
        }
        let oldest = self.entries.iter().find_map(|entry| entry.at);
        self.data.forget(oldest.map(|spot| spot.chunk));
    }

    /// Returns the memory that the journal takes, in bytes.
    pub(super) fn cost(&self) -> usize {
        self.cost
    }

    /// Returns whether an entry has a part of this range (bytes).
    pub(super) fn has_part_of(&self, range: &Range<u64>) -> bool {
        self.entries
            .iter()
            .any(|entry| overlap(&entry.range(), range))
    }

    /// Returns entries from this number on, as requests with copies of their data: at most `most`, no two
    /// of which overlap, so that their order does not matter, until they have `BATCH_BYTES` bytes. It is
    /// empty when no entries are left.
    pub(super) fn batch(&self, from: u64, most: usize) -> Vec<(Request, Vec<u8>)> {
        let skipped = usize::try_from(from.saturating_sub(self.first)).unwrap_or(usize::MAX);
        let mut batch = Vec::new();
        let mut ranges: Vec<Range<u64>> = Vec::new();
        let mut bytes = 0;
        for entry in self.entries.iter().skip(skipped) {
            let range = entry.range();
            let full = batch.len() >= most.min(BATCH) || bytes >= BATCH_BYTES;
            if full || ranges.iter().any(|other| overlap(other, &range)) {
                break;
            }
            let data = self.data.get(entry);
            bytes += data.len();
            ranges.push(range);
            batch.push((entry.request(), data.to_vec()));
        }
        batch
    }
}

/// The bytes of all entries, one after the other, in chunks that are used again: one allocation for
/// each write would cost more than the copy.
#[derive(Default)]
struct Data {
    chunks: VecDeque<Vec<u8>>,
    /// Number of the first chunk.
    first: u64,
    /// Chunks that are not in use: at most as many as the last flush has found in use, so that a stream of writes
    /// needs no fresh memory, and little is kept for a volume that has become quiet.
    spare: Vec<Vec<u8>>,
}

/// Place where an entry's bytes begin.
#[derive(Debug, Clone, Copy)]
struct Spot {
    chunk: u64,
    start: usize,
}

impl Data {
    fn put(&mut self, bytes: &[u8]) -> Spot {
        let has_room = |chunk: &Vec<u8>| chunk.capacity() - chunk.len() >= bytes.len();
        if !self.chunks.back().is_some_and(has_room) {
            let spare = self.spare.pop().filter(has_room);
            let chunk = spare.unwrap_or_else(|| Vec::with_capacity(CHUNK.max(bytes.len())));
            self.chunks.push_back(chunk);
        }
        let last = self.chunks.len() - 1;
        let chunk = &mut self.chunks[last];
        let start = chunk.len();
        chunk.extend_from_slice(bytes);
        Spot {
            chunk: self.first + last as u64,
            start,
        }
    }

    fn get(&self, entry: &Entry) -> &[u8] {
        let Some(spot) = entry.at else {
            return &[];
        };
        let index = usize::try_from(spot.chunk - self.first).unwrap_or(usize::MAX);
        let chunk = self.chunks.get(index).map_or(&[][..], Vec::as_slice);
        let bytes = spot.start..spot.start + entry.len as usize;
        chunk.get(bytes).unwrap_or_default()
    }

    /// Frees every chunk before this one; all chunks if none is in use.
    fn forget(&mut self, oldest: Option<u64>) {
        let used = self.chunks.len();
        let end = self.first + used as u64;
        while self.first < oldest.unwrap_or(end)
            && let Some(mut chunk) = self.chunks.pop_front()
        {
            self.first += 1;
            chunk.clear();
            self.spare.push(chunk);
        }
        self.spare.truncate(used);
    }
}

/// Returns whether two ranges have a byte in common.
pub(super) fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

#[cfg(test)]
#[allow(clippy::cast_possible_truncation, reason = "small numbers")]
mod tests {
    use super::*;

    fn put(journal: &mut Journal, offset: u64, len: usize) {
        journal.add(offset, Write::Bytes(&vec![1; len]));
    }

    /// Returns all entries, as they would be sent again.
    fn all(journal: &Journal) -> Vec<Vec<(Request, Vec<u8>)>> {
        let mut from = journal.first();
        let batches = std::iter::from_fn(|| {
            let batch = journal.batch(from, BATCH);
            from += batch.len() as u64;
            (!batch.is_empty()).then_some(batch)
        });
        batches.collect()
    }

    fn batches(journal: &Journal) -> Vec<Vec<(u64, u32)>> {
        let shown = |batch: Vec<(Request, Vec<u8>)>| {
            let requests = batch.into_iter().map(|(request, _)| request);
            requests.map(|r| (r.offset, r.len)).collect()
        };
        all(journal).into_iter().map(shown).collect()
    }

    #[test]
    fn a_flush_covers_what_was_there_when_it_was_sent() {
        let mut journal = Journal::default();
        put(&mut journal, 0, 512);
        put(&mut journal, 512, 512);
        let covered = journal.next();
        put(&mut journal, 1024, 100);
        journal.forget(covered);
        assert_eq!(batches(&journal), [[(1024, 100)]]);
        assert_eq!(journal.cost(), ENTRY + 100);
        // An earlier flush whose reply comes late takes nothing more away.
        journal.forget(1);
        assert!(!journal.entries.is_empty());
        journal.forget(journal.next());
        assert_eq!((journal.cost(), journal.entries.is_empty()), (0, true));
        assert_eq!(journal.next(), 3);
    }

    #[test]
    fn what_overlaps_is_in_different_batches_in_order() {
        let mut journal = Journal::default();
        put(&mut journal, 0, 1024);
        put(&mut journal, 1024, 512);
        journal.add(512, Write::Zeroes(512));
        put(&mut journal, 0, 512);
        assert_eq!(
            batches(&journal),
            [vec![(0, 1024), (1024, 512)], vec![(512, 512), (0, 512)]]
        );
    }

    #[test]
    fn what_it_has_of_a_range_is_known() {
        let mut journal = Journal::default();
        put(&mut journal, 512, 512);
        journal.add(4096, Write::Zeroes(4096));
        for (range, known) in [
            (0..512, false),
            (0..513, true),
            (1023..1024, true),
            (1024..4096, false),
            (8191..9000, true),
        ] {
            assert_eq!(journal.has_part_of(&range), known, "{range:?}");
        }
        journal.forget(1);
        assert!(!journal.has_part_of(&(0..4096)));
    }

    #[test]
    fn batches_are_bounded() {
        let mut journal = Journal::default();
        for number in 0..200 {
            put(&mut journal, number * 512, 512);
        }
        let lengths: Vec<_> = batches(&journal).iter().map(Vec::len).collect();
        assert_eq!(lengths, [BATCH, BATCH, BATCH, 8]);
        assert_eq!(journal.batch(190, 3).len(), 3);
        let mut journal = Journal::default();
        for number in 0..5 {
            put(&mut journal, number << 20, 1 << 19);
        }
        let lengths: Vec<_> = batches(&journal).iter().map(Vec::len).collect();
        assert_eq!(lengths, [2, 2, 1]);
    }

    #[test]
    fn every_entry_keeps_its_bytes_while_others_come_and_go() {
        let mut journal = Journal::default();
        let mut added = 0u64;
        for round in 0..40u64 {
            for _ in 0..17 {
                let bytes = vec![added.to_le_bytes()[0]; 7000 + (added as usize * 977) % 90_000];
                journal.add(added, Write::Bytes(&bytes));
                added += 1;
            }
            journal.forget(round * 16);
            let mut number = journal.first;
            for (request, bytes) in all(&journal).into_iter().flatten() {
                assert_eq!(
                    (request.offset, request.len as usize),
                    (number, bytes.len())
                );
                assert!(bytes.iter().all(|&byte| byte == number.to_le_bytes()[0]));
                number += 1;
            }
            assert_eq!(number, added);
        }
        let in_use = journal.data.chunks.iter().map(Vec::len).sum::<usize>();
        assert!(in_use < journal.cost() + CHUNK);
        journal.forget(added);
        assert!(journal.data.chunks.is_empty() && !journal.data.spare.is_empty());
        journal.forget(added);
        assert!(journal.data.spare.is_empty(), "nothing was written since");
    }
}
