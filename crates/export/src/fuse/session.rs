//! State that the threads of a session share.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use super::tree::FileTree;
use crate::limits;
use crate::meter::Meter;
use crate::status::Traffic;

/// A request that the storage failed.
#[derive(Debug, Clone)]
pub struct Failure {
    /// Time of the failure.
    pub time: SystemTime,
    /// Reason, in words for people.
    pub reason: String,
}

/// State of a session.
pub(super) struct Session {
    pub(super) tree: Arc<dyn FileTree>,
    /// Flags in replies to opening a file and a folder.
    pub(super) file_flags: u32,
    pub(super) directory_flags: u32,
    /// True if the kernel opens files and folders by itself, and tells of no close.
    implies_open: AtomicBool,
    stopping: AtomicBool,
    /// Number of threads that serve.
    serving: Mutex<usize>,
    /// Notified whenever a thread has ended.
    ended: Condvar,
    /// Counters of each thread.
    pub(super) meters: Vec<Arc<Meter>>,
    failures: Mutex<VecDeque<Failure>>,
    failed_writes: AtomicU64,
}

impl Session {
    /// Begins a session of `threads` threads.
    pub(super) fn new(
        tree: Arc<dyn FileTree>,
        (file_flags, directory_flags): (u32, u32),
        threads: usize,
    ) -> Self {
        Self {
            tree,
            file_flags,
            directory_flags,
            implies_open: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            serving: Mutex::new(0),
            ended: Condvar::new(),
            meters: (0..threads).map(|_| Arc::default()).collect(),
            failures: Mutex::default(),
            failed_writes: AtomicU64::new(0),
        }
    }

    /// Lets the kernel open files and folders by itself. This comes before the threads start.
    pub(super) fn imply_open(&self) {
        self.implies_open.store(true, Ordering::Relaxed);
    }

    pub(super) fn implies_open(&self) -> bool {
        self.implies_open.load(Ordering::Relaxed)
    }

    /// Lets the threads end after the requests that they serve now.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    /// Counts a thread that serves, until the result is dropped.
    pub(super) fn enter(self: &Arc<Self>) -> Serving {
        *self.serving() += 1;
        Serving(Arc::clone(self))
    }

    /// Returns whether no thread serves any more.
    pub(super) fn has_ended(&self) -> bool {
        *self.serving() == 0
    }

    /// Waits until no thread serves any more.
    pub(super) fn wait(&self) {
        let mut serving = self.serving();
        while *serving > 0 {
            serving = self
                .ended
                .wait(serving)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// As [`wait`](Self::wait), until `deadline` at most. Returns the number of threads that still serve.
    pub(super) fn wait_until(&self, deadline: Instant) -> usize {
        let mut serving = self.serving();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if *serving == 0 || left.is_zero() {
                return *serving;
            }
            let waited = self.ended.wait_timeout(serving, left);
            serving = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    pub(super) fn note(&self, reason: String) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.len() >= limits::EVENTS {
            failures.pop_front();
        }
        failures.push_back(Failure {
            time: SystemTime::now(),
            reason,
        });
    }

    /// Counts a write that the storage failed.
    pub(super) fn note_failed_write(&self) {
        self.failed_writes.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn failed_writes(&self) -> u64 {
        self.failed_writes.load(Ordering::Relaxed)
    }

    pub(super) fn failures(&self) -> Vec<Failure> {
        let failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        failures.iter().cloned().collect()
    }

    pub(super) fn traffic(&self) -> Traffic {
        let mut all = Traffic::default();
        for meter in &self.meters {
            all.add(&meter.snapshot());
        }
        all
    }

    /// Returns whether a request is being served now.
    pub(super) fn is_serving(&self) -> bool {
        self.meters.iter().any(|meter| meter.is_serving())
    }

    pub(super) fn cache_time(&self) -> Duration {
        self.tree.cache_time()
    }

    fn serving(&self) -> MutexGuard<'_, usize> {
        self.serving.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A thread's part in a session. The thread leaves by dropping it, also by a panic.
pub(super) struct Serving(Arc<Session>);

impl Drop for Serving {
    fn drop(&mut self) {
        *self.0.serving() -= 1;
        self.0.ended.notify_all();
    }
}
