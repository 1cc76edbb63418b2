//! How much of an answer's content may wait for a client in somebody else's buffers.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Waker};

use bytes::Bytes;

use crate::address::Address;

/// Bytes that wait in all of a worker's connections, and how many may.
#[derive(Clone)]
pub(crate) struct Budget {
    held: Arc<AtomicUsize>,
    most: usize,
}

impl Budget {
    /// At most so many bytes.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            held: Arc::default(),
            most,
        }
    }

    /// Counts content that was made for one answer to an address, until nobody has it any more; none if there is no
    /// room, or the address has more already than would be left.
    pub(crate) fn hold(&self, address: &Arc<Address>, bytes: &Bytes) -> Option<Bytes> {
        let left = self.left().checked_sub(bytes.len())?;
        let has = address.bytes.get();
        (has == 0 || has <= left).then(|| self.count(address, bytes.clone(), None))
    }

    /// Bytes that may still be held.
    fn left(&self) -> usize {
        self.most.saturating_sub(self.held.load(Ordering::Relaxed))
    }

    fn count(&self, address: &Arc<Address>, bytes: Bytes, share: Option<Arc<Connection>>) -> Bytes {
        self.held.fetch_add(bytes.len(), Ordering::Relaxed);
        address.bytes.add(bytes.len());
        Bytes::from_owner(Held {
            bytes,
            budget: Arc::clone(&self.held),
            address: Arc::clone(address),
            share,
        })
    }
}

/// One connection's part of a budget.
pub(super) struct Share {
    budget: Budget,
    address: Arc<Address>,
    most: usize,
    connection: Arc<Connection>,
}

#[derive(Default)]
struct Connection {
    held: AtomicUsize,
    /// Answers that wait for others of the connection to be taken.
    waiting: Mutex<Vec<Waker>>,
}

impl Share {
    /// Of a budget, at most so many bytes, for a connection from this address.
    pub(super) fn of(budget: Budget, address: Arc<Address>, most: usize) -> Self {
        Self {
            budget,
            address,
            most,
            connection: Arc::default(),
        }
    }

    /// Whether something more may be made ready; if not, `context` is woken once it may. Who has nothing may
    /// always, so that nobody waits for what other clients do.
    pub(super) fn has_room(&self, context: &Context<'_>) -> bool {
        let held = self.connection.held.load(Ordering::Relaxed);
        let has = held == 0 || held < self.most && self.address.bytes.may_grow(self.budget.left());
        if !has {
            let waiting = &self.connection.waiting;
            let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
            if !waiting.iter().any(|waker| waker.will_wake(context.waker())) {
                waiting.push(context.waker().clone());
            }
        }
        has
    }

    /// Whether everything that was made ready has been taken.
    pub(super) fn is_empty(&self) -> bool {
        self.connection.held.load(Ordering::Relaxed) == 0
    }

    /// Counts bytes that are ready, until they have been taken.
    pub(super) fn hold(&self, bytes: Bytes) -> Bytes {
        self.connection
            .held
            .fetch_add(bytes.len(), Ordering::Relaxed);
        let share = Some(Arc::clone(&self.connection));
        self.budget.count(&self.address, bytes, share)
    }
}

/// Bytes that are counted.
struct Held {
    bytes: Bytes,
    budget: Arc<AtomicUsize>,
    address: Arc<Address>,
    share: Option<Arc<Connection>>,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.budget.fetch_sub(self.bytes.len(), Ordering::Relaxed);
        self.address.bytes.subtract(self.bytes.len());
        if let Some(share) = &self.share {
            share.held.fetch_sub(self.bytes.len(), Ordering::Relaxed);
            let waiting = &share.waiting;
            let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.drain(..).for_each(Waker::wake);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has_room(share: &Share) -> bool {
        share.has_room(&Context::from_waker(Waker::noop()))
    }

    #[test]
    fn who_has_nothing_may_always_go_on() {
        let budget = Budget::new(10);
        let one = Share::of(budget.clone(), Arc::default(), 100);
        let other = Share::of(budget.clone(), Arc::default(), 100);
        let piece = one.hold(Bytes::from_static(b"0123456789"));
        assert!(!has_room(&one), "the budget is used up");
        assert!(has_room(&other));
        let second = other.hold(Bytes::from_static(b"01"));
        assert!(!has_room(&other));
        drop(second);
        assert!(has_room(&other));
        let part = piece.slice(2..3);
        drop(piece);
        assert!(!has_room(&one), "a part keeps the whole");
        drop(part);
        assert!(has_room(&one));
        assert_eq!(budget.held.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_connection_has_its_own_limit() {
        let share = Share::of(Budget::new(1000), Arc::default(), 4);
        let _piece = share.hold(Bytes::from_static(b"01234"));
        assert!(!has_room(&share));
    }

    #[test]
    fn one_address_leaves_something_for_another() {
        let budget = Budget::new(100);
        let greedy: Arc<Address> = Arc::default();
        let of_greedy = || Share::of(budget.clone(), Arc::clone(&greedy), 10);
        let mut pieces = Vec::new();
        for share in std::iter::repeat_with(of_greedy).take(20) {
            pieces.push(share.hold(Bytes::from_static(b"01")));
            while has_room(&share) {
                pieces.push(share.hold(Bytes::from_static(b"01")));
            }
        }
        let other = Share::of(budget.clone(), Arc::default(), 10);
        let first = other.hold(Bytes::from_static(b"01"));
        assert!(has_room(&other), "{} are left", budget.left());
        drop((pieces, first));
        assert_eq!((greedy.bytes.get(), budget.left()), (0, 100));
    }

    #[test]
    fn what_is_too_much_is_not_held() {
        let budget = Budget::new(10);
        let (one, other) = (Arc::default(), Arc::default());
        let hold = |address, bytes| budget.hold(address, &Bytes::from_static(bytes));
        assert!(hold(&one, b"01234567890").is_none());
        let held = hold(&one, b"0123");
        assert_eq!(held.as_deref(), Some(&b"0123"[..]));
        assert!(hold(&one, b"012").is_none(), "another would find less");
        let last = hold(&other, b"012345");
        assert!(last.is_some() && hold(&other, b"0").is_none());
        drop((held, last));
        assert_eq!(budget.held.load(Ordering::Relaxed), 0);
    }
}
