//! Memory budget for content that waits for clients outside the pool: buffers of HTTP/2, and long pages.

use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Waker};

use bytes::Bytes;

use crate::address::Address;
use crate::tls::PAYLOAD_MAX;

/// Limit in bytes on a piece that a stream hands to hyper: with the 9 bytes of a frame's header it fills a TLS record.
const PIECE_MAX: usize = PAYLOAD_MAX - 9;

/// Limit in bytes on a piece of a stream that has nothing buffered when the budget is used up: the client may accept
/// nothing of the connection's other streams until it has read this one. The state of a stream takes more.
const UNBUDGETED_PIECE_MAX: usize = 1 << 10;

/// Bytes that wait in all connections of a worker, and their limit.
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

    /// Reserves `len` bytes for one answer; `None` if the address would hold more than is left for others. A page that is
    /// longer than the whole budget may use all of it while nothing else does.
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

    /// Number of bytes reserved for addresses that hold none.
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

/// Reserved bytes, given back when this is dropped.
pub(crate) struct Reservation {
    len: usize,
    budget: Arc<AtomicUsize>,
    address: Arc<Address>,
}

impl Reservation {
    /// Attaches the reservation to the content, until that is dropped; `None` if it is too small.
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

/// Content with its reservation.
struct Held {
    bytes: Bytes,
    _reservation: Reservation,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Bytes that wait for a client in one connection, and their limit.
pub(crate) struct ConnectionBudget {
    budget: Budget,
    address: Arc<Address>,
    held: Arc<AtomicUsize>,
    most: usize,
}

/// Bytes that wait for a client in one stream.
pub(crate) struct StreamBudget {
    budget: Rc<ConnectionBudget>,
    stream: Arc<Stream>,
}

#[derive(Default)]
struct Stream {
    held: AtomicUsize,
    /// Waker of the stream, while it waits until the client accepts some of its bytes.
    waiting: Mutex<Option<Waker>>,
}

impl ConnectionBudget {
    /// Makes the budget of a connection from `address`, of at most `most` bytes.
    pub(crate) fn of(budget: Budget, address: Arc<Address>, most: usize) -> Self {
        Self {
            budget,
            address,
            held: Arc::default(),
            most,
        }
    }

    /// Returns whether nothing waits for the client.
    pub(crate) fn is_empty(&self) -> bool {
        self.held.load(Ordering::Relaxed) == 0
    }

    /// Makes the budget of a new stream.
    pub(crate) fn stream(self: &Rc<Self>) -> StreamBudget {
        StreamBudget {
            budget: Rc::clone(self),
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
    /// Limit in bytes on the stream's next piece. If there is no capacity, the task is woken when the client has accepted
    /// some of the stream. A stream with nothing buffered always has capacity, so that it never waits for another one.
    pub(crate) fn capacity(&self, context: &Context<'_>) -> Option<usize> {
        if self.budget.may_grow() {
            return Some(PIECE_MAX);
        }
        if self.stream.held.load(Ordering::Relaxed) == 0 {
            return Some(UNBUDGETED_PIECE_MAX);
        }
        let waiting = &self.stream.waiting;
        let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
        *waiting = Some(context.waker().clone());
        None
    }

    /// Counts a piece until the client has accepted it, and it is dropped.
    pub(crate) fn hold(&self, bytes: Bytes) -> Bytes {
        let connection = &self.budget;
        connection.held.fetch_add(bytes.len(), Ordering::Relaxed);
        self.stream.held.fetch_add(bytes.len(), Ordering::Relaxed);
        Bytes::from_owner(Ready {
            _reservation: connection.budget.count(&connection.address, bytes.len()),
            connection: Arc::clone(&connection.held),
            stream: Arc::clone(&self.stream),
            bytes,
        })
    }
}

/// A counted piece of a stream.
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
        assert_eq!(capacity(&other), Some(PIECE_MAX));
        let second = other.hold(Bytes::from_static(b"01"));
        assert_eq!(capacity(&other), None);
        drop(second);
        assert_eq!(capacity(&other), Some(PIECE_MAX));
        let rest = piece.slice(2..3);
        drop(piece);
        assert_eq!(capacity(&one), None, "a part keeps the whole");
        drop(rest);
        assert_eq!(capacity(&one), Some(PIECE_MAX));
        assert_eq!(budget.held.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_stream_that_nobody_takes_holds_up_none_of_its_siblings() {
        let budget = Budget::new(10);
        let connection = Rc::new(ConnectionBudget::of(budget, Arc::default(), 100));
        let (paused, other) = (connection.stream(), connection.stream());
        let _piece = paused.hold(Bytes::from_static(b"0123456789"));
        assert_eq!(capacity(&paused), None);
        for _ in 0..3 {
            assert_eq!(capacity(&other), Some(UNBUDGETED_PIECE_MAX));
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
        assert_eq!(
            capacity(&other),
            Some(PIECE_MAX),
            "{} are left",
            budget.left()
        );
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
