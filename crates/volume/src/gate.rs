//! A gate around a value that can be exchanged while it is in use.
//!
//! Requests pass the gate in both directions all the time, on many threads; now and then one thread
//! closes it, waits until no request is inside, and may then exchange what is behind it. Passing must
//! cost next to nothing and no two threads may fight over a cache line, so there is a lane for each of a
//! few threads, each with a lock and a handle of its own. The thread that closes the gate only ever tries
//! the lock of a lane and never waits for it, so a thread that is inside delays no other.

use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::sync::{
    AtomicBool, Condvar, Mutex, Ordering, PoisonError, RwLock, RwLockReadGuard, TryLockError,
    number_of_this_thread, thread,
};

/// Threads share a lane where there are more of them; it is only slower.
pub(crate) const LANES: usize = if cfg!(all(test, shuttle)) { 2 } else { 16 };

/// First and longest pause between two looks of a thread that waits until no request is inside.
const LOOKS: [Duration; 2] = [Duration::from_micros(20), Duration::from_millis(2)];

pub(crate) struct Gate<T> {
    lanes: Box<[Lane<T>]>,
    closed: AtomicBool,
    /// Lock of the threads that wait outside.
    outside: Mutex<()>,
    opened: Condvar,
}

/// Two cache lines, since processors fetch them in pairs.
#[repr(align(128))]
struct Lane<T>(RwLock<Arc<T>>);

/// A request inside the gate, which does not close before the pass is dropped. A thread that has one and
/// wants another would wait for itself while the gate is being closed.
pub(crate) struct Pass<'g, T>(RwLockReadGuard<'g, Arc<T>>);

impl<T> Gate<T> {
    pub(crate) fn new(inside: T) -> Self {
        let inside = Arc::new(inside);
        Self {
            lanes: (0..LANES)
                .map(|_| Lane(RwLock::new(Arc::clone(&inside))))
                .collect(),
            closed: AtomicBool::new(false),
            outside: Mutex::new(()),
            opened: Condvar::new(),
        }
    }

    /// Goes in, once the gate is open.
    pub(crate) fn enter(&self) -> Pass<'_, T> {
        let lane = &self.lanes[lane_of_this_thread()];
        loop {
            let pass = Pass(lane.0.read().unwrap_or_else(PoisonError::into_inner));
            // `close` sets `closed` before it tries each lane's lock, so either it finds this pass or we
            // see the flag.
            if !self.is_closed() {
                return pass;
            }
            drop(pass);
            self.wait_outside();
        }
    }

    /// Goes in if the gate is open; never waits.
    pub(crate) fn try_enter(&self) -> Option<Pass<'_, T>> {
        let lane = self.lanes[lane_of_this_thread()].0.try_read();
        let pass = match lane {
            Ok(lane) => Pass(lane),
            Err(TryLockError::Poisoned(lane)) => Pass(lane.into_inner()),
            Err(TryLockError::WouldBlock) => return None,
        };
        (!self.is_closed()).then_some(pass)
    }

    /// Returns whether the gate is closed, or a thread is closing it and waits for those inside.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Returns the value inside, to look at.
    pub(crate) fn peek(&self) -> Arc<T> {
        Arc::clone(
            &self.lanes[0]
                .0
                .read()
                .unwrap_or_else(PoisonError::into_inner),
        )
    }

    /// Keeps all requests out, and waits until none is inside; returns `false`, with the gate open as
    /// before, when that takes longer than `limit`. Only one thread at a time may close a gate; a closed
    /// one stays so.
    pub(crate) fn close(&self, limit: Duration) -> bool {
        if self.closed.swap(true, Ordering::AcqRel) {
            return true;
        }
        let begun = Instant::now();
        let mut pause = LOOKS[0];
        for lane in &self.lanes {
            while matches!(lane.0.try_write(), Err(TryLockError::WouldBlock)) {
                if begun.elapsed() > limit {
                    self.open();
                    return false;
                }
                thread::sleep(pause);
                pause = (pause * 2).min(LOOKS[1]);
            }
        }
        true
    }

    /// Puts another thing inside a gate that is closed.
    pub(crate) fn exchange(&self, inside: &Arc<T>) {
        for lane in &self.lanes {
            *lane.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(inside);
        }
    }

    pub(crate) fn open(&self) {
        let _outside = self.outside.lock().unwrap_or_else(PoisonError::into_inner);
        self.closed.store(false, Ordering::Release);
        self.opened.notify_all();
    }

    fn wait_outside(&self) {
        let mut outside = self.outside.lock().unwrap_or_else(PoisonError::into_inner);
        while self.is_closed() {
            outside = self
                .opened
                .wait(outside)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<T> Deref for Pass<'_, T> {
    type Target = Arc<T>;

    fn deref(&self) -> &Arc<T> {
        &self.0
    }
}

/// Threads take their lanes in turn, when they first come.
pub(crate) fn lane_of_this_thread() -> usize {
    number_of_this_thread() % LANES
}
