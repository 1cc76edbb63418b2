//! Pins threads to processors, for steady measurements.

use std::fs;
use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// Keeps this thread, and those that it starts, on one processor until it is dropped: a move costs a
/// measurement its caches, and on some machines another core is another kind of core.
pub struct Pinned {
    cpu: usize,
    before: CpuSet,
}

impl Pinned {
    /// Warning of a report whose thread could not be pinned.
    pub const MISSING: &str = "not pinned: the kernel may move the measurement between processors";

    /// Pins the thread to the processor where it runs now.
    ///
    /// # Errors
    /// As `sched_setaffinity(2)`.
    pub fn here() -> io::Result<Self> {
        Self::on(sched_getcpu())
    }

    /// Pins the thread to a processor, where threads and processes that it starts stay too.
    ///
    /// # Errors
    /// As `sched_setaffinity(2)`.
    pub fn on(cpu: usize) -> io::Result<Self> {
        let before = sched_getaffinity(None)?;
        let mut only = CpuSet::new();
        if cpu >= CpuSet::MAX_CPU {
            return Err(io::ErrorKind::Unsupported.into());
        }
        only.set(cpu);
        sched_setaffinity(None, &only)?;
        Ok(Self { cpu, before })
    }

    /// Pins the thread to all processors but this one, as far as there are others: what the thread starts stays off it.
    ///
    /// # Errors
    /// As `sched_setaffinity(2)`.
    pub fn beside(cpu: usize) -> io::Result<Self> {
        let before = sched_getaffinity(None)?;
        if before.count() > 1 && cpu < CpuSet::MAX_CPU {
            let mut others = before;
            others.unset(cpu);
            sched_setaffinity(None, &others)?;
        }
        Ok(Self { cpu, before })
    }

    /// Number of the processor.
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

/// Two processors for a server and its client: the first that this process may use, and the last that is
/// not another thread of the same core. Where there is only one, both are it.
#[must_use]
pub fn apart() -> (usize, usize) {
    let allowed = sched_getaffinity(None).unwrap_or_default();
    let allowed: Vec<usize> = (0..CpuSet::MAX_CPU)
        .filter(|&cpu| allowed.is_set(cpu))
        .collect();
    let first = allowed.first().copied().unwrap_or(0);
    let path = format!("/sys/devices/system/cpu/cpu{first}/topology/thread_siblings_list");
    let siblings = listed(&fs::read_to_string(path).unwrap_or_default());
    let others = allowed.iter().rev();
    let mut others = others.filter(|&&cpu| cpu != first);
    let last = others
        .clone()
        .find(|cpu| !siblings.contains(cpu))
        .or_else(|| others.next());
    (first, last.copied().unwrap_or(first))
}

/// The numbers in a list of the kernel's, such as `0-3,8`.
fn listed(text: &str) -> Vec<usize> {
    let ranges = text.trim().split(',').filter_map(|range| {
        let (from, to) = range.split_once('-').unwrap_or((range, range));
        Some(from.parse().ok()?..=to.parse().ok()?)
    });
    ranges.flatten().take(CpuSet::MAX_CPU).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_and_client_are_apart_where_they_can_be() {
        let allowed = sched_getaffinity(None).unwrap();
        let (server, client) = apart();
        assert!(allowed.is_set(server) && allowed.is_set(client));
        assert_eq!(server == client, allowed.count() == 1);
        assert_eq!(listed("0-2,8\n"), [0, 1, 2, 8]);
        assert_eq!(listed(""), [0; 0]);
    }

    #[test]
    fn beside_a_processor_are_all_others() {
        let before = sched_getaffinity(None).unwrap();
        let (_, last) = apart();
        let beside = Pinned::beside(last).unwrap();
        let during = sched_getaffinity(None).unwrap();
        assert_eq!(during.count(), (before.count() - 1).max(1));
        assert_eq!(during.is_set(last), before.count() == 1);
        drop(beside);
        assert_eq!(sched_getaffinity(None).unwrap(), before);
    }

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
