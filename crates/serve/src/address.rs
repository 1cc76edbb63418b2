//! Shares of a worker's limited resources, counted by client address, so that each address leaves some for others.
//!
//! An address may get more as long as it holds less than is left for all: alone it gets half, and two that ask at the
//! same time get a third each. This needs no count of the addresses, and takes nothing back (A. K. Choudhury, E. L.
//! Hahne: Dynamic Queue Length Thresholds for Shared-Memory Packet Switches, 1998). That alone does not help a newcomer
//! where earlier addresses give nothing back: they take a half, a quarter, an eighth, until all is gone. So there is a
//! reserve beside it, from which an address gets only its first unit.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

/// Resources that one address holds.
#[derive(Debug, Default)]
pub(crate) struct Address {
    /// The client, whose resources on other workers have an [`Address`] of their own; `None` in tests.
    pub(crate) client: Option<IpAddr>,
    /// Number of buffers of the worker's pool.
    pub(crate) batches: Held,
    /// Number of bytes of the worker's budget.
    pub(crate) bytes: Held,
    /// Number of archives in flight.
    pub(crate) archives: Held,
    /// Number of blocking threads.
    pub(crate) permits: Held,
}

/// Amount of one resource that an address holds.
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

    /// Returns whether the amount may grow, as [`may_grow`] decides.
    pub(crate) fn may_grow(&self, left: usize, reserve: usize) -> bool {
        may_grow(self.get(), left, reserve)
    }
}

/// Returns whether an address that holds `held` units may have another one, if `left` are free and `reserve` of them
/// are kept for addresses that hold none.
pub(crate) fn may_grow(held: usize, left: usize, reserve: usize) -> bool {
    match held {
        0 => left > 0,
        held => held < left.saturating_sub(reserve),
    }
}

/// The addresses that have connections to a worker.
#[derive(Default)]
pub(crate) struct Addresses(RefCell<HashMap<IpAddr, Weak<Address>>>);

impl Addresses {
    /// The resources that a client holds, by its address as [`crate::admission::client`] maps it.
    pub(crate) fn of(&self, client: IpAddr) -> Arc<Address> {
        let mut known = self.0.borrow_mut();
        let place = known.entry(client).or_default();
        place.upgrade().unwrap_or_else(|| {
            let address = Arc::new(Address {
                client: Some(client),
                ..Address::default()
            });
            *place = Arc::downgrade(&address);
            address
        })
    }

    /// Forgets addresses without connections.
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
    fn addresses_that_give_nothing_back_leave_a_reserve_for_newcomers() {
        const RESERVE: usize = 8;
        let mut left = 120 + RESERVE;
        let clients: [Address; 12] = Default::default();
        let mut got = clients.iter().map(|client| {
            while client.permits.may_grow(left, RESERVE) {
                client.permits.add(1);
                left -= 1;
            }
            client.permits.get()
        });
        for share in [60, 30, 15, 8, 4, 2, 1] {
            assert_eq!(got.next(), Some(share));
        }
        assert!(got.all(|share| share == 1), "somebody found nothing");
    }

    #[test]
    fn two_that_ask_at_the_same_time_get_as_much_each_and_leave_as_much() {
        let mut left = 120;
        let clients: [Address; 2] = Default::default();
        for client in clients.iter().cycle().take(120) {
            if client.permits.may_grow(left, 0) {
                client.permits.add(1);
                left -= 1;
            }
        }
        assert_eq!(
            clients.map(|client| client.permits.get()),
            [40, 40],
            "{left} are left"
        );
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
