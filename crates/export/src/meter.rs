//! Counting of a connection's traffic, by its own thread, readable from any.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::status::{Count, Traffic};

/// Kinds of executed requests.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Read,
    Write,
    Flush,
    Trim,
    Cache,
    WriteZeroes,
    BlockStatus,
}

/// The counters of one connection. Only the connection's thread writes them, so that no counter is
/// ever contended.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    requests: [AtomicU64; 7],
    bytes: [AtomicU64; 7],
    refused: AtomicU64,
    failed: AtomicU64,
    receives: AtomicU64,
    sends: AtomicU64,
    sleeps: AtomicU64,
    copied: AtomicU64,
    is_serving: AtomicBool,
}

impl Meter {
    /// Notes whether a request is being served now.
    pub(crate) fn set_serving(&self, is_serving: bool) {
        self.is_serving.store(is_serving, Ordering::Relaxed);
    }

    pub(crate) fn is_serving(&self) -> bool {
        self.is_serving.load(Ordering::Relaxed)
    }

    pub(crate) fn executed(&self, kind: Kind, bytes: u64) {
        add(&self.requests[kind as usize], 1);
        add(&self.bytes[kind as usize], bytes);
    }

    pub(crate) fn refused(&self) {
        add(&self.refused, 1);
    }

    pub(crate) fn failed(&self) {
        add(&self.failed, 1);
    }

    pub(crate) fn received(&self) {
        add(&self.receives, 1);
    }

    /// Returns whether anything has been received.
    pub(crate) fn has_received(&self) -> bool {
        self.receives.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn sent(&self, calls: u64) {
        add(&self.sends, calls);
    }

    pub(crate) fn slept(&self) {
        add(&self.sleeps, 1);
    }

    pub(crate) fn copied(&self, bytes: usize) {
        add(&self.copied, bytes as u64);
    }

    pub(crate) fn snapshot(&self) -> Traffic {
        let count = |kind: Kind| Count {
            requests: self.requests[kind as usize].load(Ordering::Relaxed),
            bytes: self.bytes[kind as usize].load(Ordering::Relaxed),
        };
        Traffic {
            read: count(Kind::Read),
            write: count(Kind::Write),
            flush: count(Kind::Flush),
            trim: count(Kind::Trim),
            cache: count(Kind::Cache),
            write_zeroes: count(Kind::WriteZeroes),
            block_status: count(Kind::BlockStatus),
            refused: self.refused.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            receives: self.receives.load(Ordering::Relaxed),
            sends: self.sends.load(Ordering::Relaxed),
            sleeps: self.sleeps.load(Ordering::Relaxed),
            copied: self.copied.load(Ordering::Relaxed),
        }
    }
}

/// Adds without a locked instruction: there is one writer.
fn add(counter: &AtomicU64, value: u64) {
    let sum = counter.load(Ordering::Relaxed).wrapping_add(value);
    counter.store(sum, Ordering::Relaxed);
}

impl Traffic {
    /// Adds what another connection did.
    pub(crate) fn add(&mut self, other: &Self) {
        let pairs = [
            (&mut self.read, other.read),
            (&mut self.write, other.write),
            (&mut self.flush, other.flush),
            (&mut self.trim, other.trim),
            (&mut self.cache, other.cache),
            (&mut self.write_zeroes, other.write_zeroes),
            (&mut self.block_status, other.block_status),
        ];
        for (sum, count) in pairs {
            sum.requests += count.requests;
            sum.bytes += count.bytes;
        }
        self.refused += other.refused;
        self.failed += other.failed;
        self.receives += other.receives;
        self.sends += other.sends;
        self.sleeps += other.sleeps;
        self.copied += other.copied;
    }
}
