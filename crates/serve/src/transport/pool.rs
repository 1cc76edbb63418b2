//! Buffers for the batches of one worker.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use super::batch::RECORDS;
use crate::address::Address;

/// Buffers of one batch each, lent to connections while they have something to send. Their number is limited, and an
/// address may hold no more of them than are left in the pool; a connection that gets none uses memory for one record.
pub(crate) struct Pool {
    free: RefCell<Vec<Vec<u8>>>,
    left: Cell<usize>,
    /// Number of buffers reserved for addresses that hold none.
    reserve: usize,
}

/// Approximate size of a batch in bytes.
const BATCH: usize = RECORDS * (16 << 10);
/// Number of unused buffers that are kept.
const KEPT: usize = 16;

/// Access to the pool on behalf of an address.
#[derive(Clone, Copy)]
pub(crate) struct PoolHandle<'a> {
    pub(crate) pool: &'a Pool,
    pub(crate) address: &'a Arc<Address>,
}

/// The right to one buffer of the pool, with the buffer unless it was taken out.
pub(super) struct Lease<'a> {
    bytes: Vec<u8>,
    records: usize,
    from: Option<PoolHandle<'a>>,
}

impl Pool {
    /// Makes a pool that lends at most `memory` bytes.
    pub(crate) fn new(memory: usize) -> Self {
        let batches = (memory / BATCH).max(1);
        Self {
            free: RefCell::default(),
            left: Cell::new(batches),
            reserve: batches / 8,
        }
    }
}

impl<'a> PoolHandle<'a> {
    /// Lends a buffer for at most `wanted` records.
    pub(super) fn lend(self, wanted: usize) -> Lease<'a> {
        let left = self.pool.left.get();
        if wanted <= 1 || !self.address.batches.may_grow(left, self.pool.reserve) {
            return Lease {
                bytes: Vec::new(),
                records: 1,
                from: None,
            };
        }
        self.pool.left.set(left - 1);
        self.address.batches.add(1);
        Lease {
            bytes: self.pool.free.borrow_mut().pop().unwrap_or_default(),
            records: wanted.min(RECORDS),
            from: Some(self),
        }
    }
}

impl Lease<'_> {
    /// Number of records that the buffer is for.
    pub(super) fn records(&self) -> usize {
        self.records
    }

    /// Takes the buffer, which is empty or has the content of an earlier batch.
    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// Gives the buffer back to the pool. If a buffer is dropped instead, the pool allocates another one.
    pub(super) fn give_back(mut self, bytes: Vec<u8>) {
        self.bytes = bytes;
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        let Some(PoolHandle { pool, address }) = self.from else {
            return;
        };
        address.batches.subtract(1);
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
        let pool = Pool::new(4 * BATCH);
        let address = Arc::default();
        let handle = PoolHandle {
            pool: &pool,
            address: &address,
        };
        let (one, two) = (handle.lend(RECORDS), handle.lend(3));
        assert_eq!((one.records, two.records), (RECORDS, 3));
        assert_eq!(handle.lend(RECORDS).records, 1, "its half is used up");
        drop(one);
        assert_eq!(handle.lend(RECORDS).records, RECORDS);
    }

    #[test]
    fn one_address_leaves_something_for_another() {
        let pool = Pool::new(112 * BATCH);
        let greedy = Arc::default();
        let handle = PoolHandle {
            pool: &pool,
            address: &greedy,
        };
        let held: Vec<_> = (0..1000).map(|_| handle.lend(RECORDS)).collect();
        assert_eq!(greedy.batches.get(), 49, "half of what is not reserved");
        let other = Arc::default();
        let other = PoolHandle {
            pool: &pool,
            address: &other,
        };
        assert_eq!(other.lend(RECORDS).records, RECORDS);
        drop(held);
        assert_eq!((greedy.batches.get(), pool.left.get()), (0, 112));
    }
}
