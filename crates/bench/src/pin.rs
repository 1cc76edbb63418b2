//! One thread on one processor.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// Keeps this thread, and those that it starts, on one processor until it is dropped: a move costs a
/// measurement its caches, and on some machines another core is another kind of core.
pub struct Pinned {
    cpu: usize,
    before: CpuSet,
}

impl Pinned {
    /// What a report says where there is none.
    pub const MISSING: &str = "not pinned: the kernel may move the measurement between processors";

    /// To the processor where the thread runs now.
    ///
    /// # Errors
    /// As `sched_setaffinity(2)`.
    pub fn here() -> io::Result<Self> {
        let before = sched_getaffinity(None)?;
        let cpu = sched_getcpu();
        let mut only = CpuSet::new();
        if cpu >= CpuSet::MAX_CPU {
            return Err(io::ErrorKind::Unsupported.into());
        }
        only.set(cpu);
        sched_setaffinity(None, &only)?;
        Ok(Self { cpu, before })
    }

    /// Its number.
    #[must_use]
    pub fn cpu(&self) -> usize {
        self.cpu
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // What was allowed before is allowed again.
        let _ = sched_setaffinity(None, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_stays_where_it_is_until_it_is_let_go() {
        let before = sched_getaffinity(None).unwrap();
        let pinned = Pinned::here().unwrap();
        let during = sched_getaffinity(None).unwrap();
        assert_eq!(during.count(), 1);
        assert!(during.is_set(pinned.cpu()) && sched_getcpu() == pinned.cpu());
        drop(pinned);
        assert_eq!(sched_getaffinity(None).unwrap(), before);
    }
}
