//! Memory for batches, of one worker.

use std::cell::{Cell, RefCell};

use super::batch::RECORDS;

/// Whole batches' memory, lent to connections while they have something to send. There are only so many;
/// who finds none left makes do with memory for one record.
pub(crate) struct Pool {
    free: RefCell<Vec<Vec<u8>>>,
    left: Cell<usize>,
}

/// Bytes of a batch, more or less.
const BATCH: usize = RECORDS * (16 << 10);
/// How many are kept while nobody needs them.
const KEPT: usize = 16;

/// Memory on loan, or the right to it while it is elsewhere.
pub(super) struct Loan<'a> {
    bytes: Vec<u8>,
    records: usize,
    pool: Option<&'a Pool>,
}

impl Pool {
    /// One that lends at most so many bytes.
    pub(crate) fn new(memory: usize) -> Self {
        Self {
            free: RefCell::default(),
            left: Cell::new((memory / BATCH).max(1)),
        }
    }

    /// Memory for at most `wanted` records.
    pub(super) fn lend(&self, wanted: usize) -> Loan<'_> {
        let left = self.left.get();
        if wanted <= 1 || left == 0 {
            return Loan {
                bytes: Vec::new(),
                records: 1,
                pool: None,
            };
        }
        self.left.set(left - 1);
        Loan {
            bytes: self.free.borrow_mut().pop().unwrap_or_default(),
            records: wanted.min(RECORDS),
            pool: Some(self),
        }
    }
}

impl Loan<'_> {
    /// How many records it is for.
    pub(super) fn records(&self) -> usize {
        self.records
    }

    /// The memory itself, empty or with what others have left.
    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// Gives the memory back. Where that is never done it is gone, but not the right to as much.
    pub(super) fn give_back(mut self, bytes: Vec<u8>) {
        self.bytes = bytes;
    }
}

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        let Some(pool) = self.pool else {
            return;
        };
        pool.left.set(pool.left.get() + 1);
        let mut free = pool.free.borrow_mut();
        if free.len() < KEPT && !self.bytes.is_empty() {
            free.push(self.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_comes_back_is_lent_again() {
        let pool = Pool::new(2 * BATCH);
        let (one, two) = (pool.lend(RECORDS), pool.lend(3));
        assert_eq!((one.records, two.records), (RECORDS, 3));
        assert_eq!(pool.lend(RECORDS).records, 1, "it is used up");
        drop(one);
        assert_eq!(pool.lend(RECORDS).records, RECORDS);
    }
}
