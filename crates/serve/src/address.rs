//! What one address has of what all connections of a worker share, so that nobody can have all of it.
//!
//! An address may have more as long as it has less than is left for everybody: alone it gets half, one of two a third,
//! and one that comes anew finds as much as each of those that are there. Nothing has to be known of how many there
//! are, nor be taken back (A. K. Choudhury, E. L. Hahne: Dynamic Queue Length Thresholds for Shared-Memory Packet
//! Switches, 1998).

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

/// What an address has.
#[derive(Debug, Default)]
pub(crate) struct Address {
    /// Batches of the worker's pool.
    pub(crate) batches: Held,
    /// Bytes of its budget.
    pub(crate) bytes: Held,
    /// Helper threads that wait for a disk.
    pub(crate) turns: Held,
}

/// Units of one thing that somebody has.
#[derive(Debug, Default)]
pub(crate) struct Held(AtomicUsize);

impl Held {
    pub(crate) fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, count: usize) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn subtract(&self, count: usize) {
        self.0.fetch_sub(count, Ordering::Relaxed);
    }

    /// Whether it may become more, where so much is `left` for everybody.
    pub(crate) fn may_grow(&self, left: usize) -> bool {
        self.get() < left
    }
}

/// The addresses that have connections to a worker.
#[derive(Default)]
pub(crate) struct Addresses(RefCell<HashMap<IpAddr, Weak<Address>>>);

impl Addresses {
    /// What a client has, who is known by what [`crate::admission::client`] makes of its address.
    pub(crate) fn of(&self, client: IpAddr) -> Arc<Address> {
        let mut known = self.0.borrow_mut();
        let place = known.entry(client).or_default();
        place.upgrade().unwrap_or_else(|| {
            let address = Arc::default();
            *place = Arc::downgrade(&address);
            address
        })
    }

    /// Forgets those that have gone.
    pub(crate) fn sweep(&self) {
        self.0
            .borrow_mut()
            .retain(|_, address| address.strong_count() > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newcomer_finds_as_much_as_each_of_the_others_has() {
        let mut left = 120_usize;
        let clients: [Address; 4] = Default::default();
        for (others, client) in clients.iter().enumerate() {
            while client.turns.may_grow(left) {
                client.turns.add(1);
                left -= 1;
            }
            assert!(left > 0, "behind {others} others nothing is left");
            let halves = 120 >> (others + 1);
            assert!(client.turns.get().abs_diff(halves) <= 1, "{client:?}");
        }
    }

    #[test]
    fn connections_of_one_address_share_and_are_forgotten_together() {
        let addresses = Addresses::default();
        let client = "192.0.2.1".parse().unwrap();
        let one = addresses.of(client);
        one.bytes.add(7);
        let other = addresses.of(client);
        drop(one);
        addresses.sweep();
        assert_eq!(addresses.of(client).bytes.get(), 7);
        drop(other);
        addresses.sweep();
        assert!(addresses.0.borrow().is_empty());
    }
}
