//! Content of answers that waits for clients in buffers which are not the pool's: those of HTTP/2, and long pages.

use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Waker};

use bytes::Bytes;

use crate::address::Address;
use crate::tls::PAYLOAD_MAX;

/// Most bytes of a stream that are read and handed on at a time: with a frame's head, which has 9, they fill a TLS
/// record.
const PIECE: usize = PAYLOAD_MAX - 9;

/// Most bytes of a piece that a stream without any may have where nothing is left: another stream of its connection
/// may be one that the client takes nothing of until it has read this one. The state of a stream takes more.
const LEAST: usize = 1 << 10;

/// Bytes that wait in all of a worker's connections, and their limit.
#[derive(Clone)]
pub(crate) struct Budget {
    held: Arc<AtomicUsize>,
    most: usize,
}

impl Budget {
    pub(crate) fn new(most: usize) -> Self {
        Self {
            held: Arc::default(),
            most,
        }
    }

    /// Reserves `len` bytes for one answer. Fails if the address would have more than is left for others. A page that
    /// is longer than the whole budget may have it while nothing else does.
    pub(crate) fn reserve(&self, address: &Arc<Address>, len: usize) -> Option<Reservation> {
        let left = self.left();
        let fits = match address.bytes.get() {
            0 => len <= left || left == self.most,
            has => has.saturating_add(len) <= left.saturating_sub(self.for_newcomers()),
        };
        fits.then(|| self.count(address, len))
    }

    fn left(&self) -> usize {
        self.most.saturating_sub(self.held.load(Ordering::Relaxed))
    }

    /// Bytes that are left to addresses without any.
    fn for_newcomers(&self) -> usize {
        self.most / 8
    }

    fn count(&self, address: &Arc<Address>, len: usize) -> Reservation {
        self.held.fetch_add(len, Ordering::Relaxed);
        address.bytes.add(len);
        Reservation {
            len,
            budget: Arc::clone(&self.held),
            address: Arc::clone(address),
        }
    }
}

/// A part of a budget, given back when it is dropped.
pub(crate) struct Reservation {
    len: usize,
    budget: Arc<AtomicUsize>,
    address: Arc<Address>,
}

impl Reservation {
    /// Keeps it until the content is dropped; `None` if it is too small for the content.
    pub(crate) fn hold(mut self, bytes: &Bytes) -> Option<Bytes> {
        let more = self.len.checked_sub(bytes.len())?;
        self.give_back(more);
        Some(Bytes::from_owner(Held {
            bytes: bytes.clone(),
            _reservation: self,
        }))
    }

    fn give_back(&mut self, len: usize) {
        self.len -= len;
        self.budget.fetch_sub(len, Ordering::Relaxed);
        self.address.bytes.subtract(len);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.give_back(self.len);
    }
}

/// Content that is counted.
struct Held {
    bytes: Bytes,
    _reservation: Reservation,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A connection's part of a budget.
pub(crate) struct ConnectionBudget {
    budget: Budget,
    address: Arc<Address>,
    held: Arc<AtomicUsize>,
    most: usize,
}

/// A stream's part of it.
pub(crate) struct StreamBudget {
    share: Rc<ConnectionBudget>,
    stream: Arc<Stream>,
}

#[derive(Default)]
struct Stream {
    held: AtomicUsize,
    /// The stream itself, while it waits until something of it is taken.
    waiting: Mutex<Option<Waker>>,
}

impl ConnectionBudget {
    /// At most `most` bytes for a connection from this address.
    pub(crate) fn of(budget: Budget, address: Arc<Address>, most: usize) -> Self {
        Self {
            budget,
            address,
            held: Arc::default(),
            most,
        }
    }

    /// Returns whether everything that was made ready has been taken.
    pub(crate) fn is_empty(&self) -> bool {
        self.held.load(Ordering::Relaxed) == 0
    }

    /// The part of a new stream.
    pub(crate) fn stream(self: &Rc<Self>) -> StreamBudget {
        StreamBudget {
            share: Rc::clone(self),
            stream: Arc::default(),
        }
    }

    fn may_grow(&self) -> bool {
        let held = self.held.load(Ordering::Relaxed);
        let (left, reserve) = (self.budget.left(), self.budget.for_newcomers());
        held == 0 || held < self.most && self.address.bytes.may_grow(left, reserve)
    }
}

impl StreamBudget {
    /// Most bytes that the stream may make ready now. If it may make none, `context` is woken when something that was
    /// ready has been taken. A stream that has nothing may always make some, so that none waits for what the client
    /// does with another one.
    pub(crate) fn capacity(&self, context: &Context<'_>) -> Option<usize> {
        if self.share.may_grow() {
            return Some(PIECE);
        }
        if self.stream.held.load(Ordering::Relaxed) == 0 {
            return Some(LEAST);
        }
        let waiting = &self.stream.waiting;
        let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
        *waiting = Some(context.waker().clone());
        None
    }

    /// Counts bytes that are ready, until they have been taken.
    pub(crate) fn hold(&self, bytes: Bytes) -> Bytes {
        let share = &self.share;
        share.held.fetch_add(bytes.len(), Ordering::Relaxed);
        self.stream.held.fetch_add(bytes.len(), Ordering::Relaxed);
        Bytes::from_owner(Ready {
            _reservation: share.budget.count(&share.address, bytes.len()),
            connection: Arc::clone(&share.held),
            stream: Arc::clone(&self.stream),
            bytes,
        })
    }
}

/// Content of a stream that is counted.
struct Ready {
    bytes: Bytes,
    connection: Arc<AtomicUsize>,
    stream: Arc<Stream>,
    _reservation: Reservation,
}

impl AsRef<[u8]> for Ready {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Ready {
    fn drop(&mut self) {
        let (len, stream) = (self.bytes.len(), &self.stream);
        self.connection.fetch_sub(len, Ordering::Relaxed);
        stream.held.fetch_sub(len, Ordering::Relaxed);
        let mut waiting = stream
            .waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(waker) = waiting.take() {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capacity(part: &StreamBudget) -> Option<usize> {
        part.capacity(&Context::from_waker(Waker::noop()))
    }

    fn stream(budget: &Budget, address: &Arc<Address>, most: usize) -> StreamBudget {
        Rc::new(ConnectionBudget::of(
            budget.clone(),
            Arc::clone(address),
            most,
        ))
        .stream()
    }

    #[test]
    fn a_connection_without_anything_may_always_go_on() {
        let budget = Budget::new(10);
        let one = stream(&budget, &Arc::default(), 100);
        let other = stream(&budget, &Arc::default(), 100);
        let piece = one.hold(Bytes::from_static(b"0123456789"));
        assert_eq!(capacity(&one), None, "the budget is used up");
        assert_eq!(capacity(&other), Some(PIECE));
        let second = other.hold(Bytes::from_static(b"01"));
        assert_eq!(capacity(&other), None);
        drop(second);
        assert_eq!(capacity(&other), Some(PIECE));
        let rest = piece.slice(2..3);
        drop(piece);
        assert_eq!(capacity(&one), None, "a part keeps the whole");
        drop(rest);
        assert_eq!(capacity(&one), Some(PIECE));
        assert_eq!(budget.held.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_stream_that_nobody_takes_holds_up_none_of_its_siblings() {
        let budget = Budget::new(10);
        let share = Rc::new(ConnectionBudget::of(budget, Arc::default(), 100));
        let (paused, other) = (share.stream(), share.stream());
        let _piece = paused.hold(Bytes::from_static(b"0123456789"));
        assert_eq!(capacity(&paused), None);
        for _ in 0..3 {
            assert_eq!(capacity(&other), Some(LEAST));
            let piece = other.hold(Bytes::from_static(b"01"));
            assert_eq!(capacity(&other), None);
            drop(piece);
        }
    }

    #[test]
    fn a_connection_has_its_own_limit() {
        let part = stream(&Budget::new(1000), &Arc::default(), 4);
        let _piece = part.hold(Bytes::from_static(b"01234"));
        assert_eq!(capacity(&part), None);
    }

    #[test]
    fn one_address_leaves_something_for_another() {
        let budget = Budget::new(100);
        let greedy: Arc<Address> = Arc::default();
        let mut pieces = Vec::new();
        for _ in 0..20 {
            let part = stream(&budget, &greedy, 10);
            pieces.push(part.hold(Bytes::from_static(b"01")));
            while capacity(&part).is_some() {
                pieces.push(part.hold(Bytes::from_static(b"01")));
            }
        }
        let other = stream(&budget, &Arc::default(), 10);
        let first = other.hold(Bytes::from_static(b"01"));
        assert_eq!(capacity(&other), Some(PIECE), "{} are left", budget.left());
        drop((pieces, first));
        assert_eq!((greedy.bytes.get(), budget.left()), (0, 100));
    }

    #[test]
    fn a_long_page_is_held_alone_or_beside_as_much() {
        let budget = Budget::new(16);
        let (one, other) = (Arc::default(), Arc::default());
        let whole = budget.reserve(&one, 20);
        assert!(whole.is_some(), "it would never be held");
        assert!(budget.reserve(&other, 1).is_none());
        drop(whole);
        let held = budget.reserve(&one, 8).unwrap();
        let held = held.hold(&Bytes::from_static(b"0123")).unwrap();
        assert_eq!((&held[..], budget.left()), (&b"0123"[..], 12));
        assert!(budget.reserve(&one, 7).is_none(), "others would find less");
        let small = budget.reserve(&one, 2).unwrap();
        assert!(small.hold(&Bytes::from_static(b"012")).is_none());
        let last = budget.reserve(&other, 12);
        assert!(last.is_some() && budget.reserve(&other, 1).is_none());
        drop((held, last));
        assert_eq!(budget.held.load(Ordering::Relaxed), 0);
    }
}
