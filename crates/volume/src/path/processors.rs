//! The processors that threads are counted by and bound to. Models have two, and none of the system's.

#[cfg(not(all(test, shuttle)))]
pub(super) use system::{all, bind_to, here, hurry};

#[cfg(all(test, shuttle))]
pub(super) use modelled::{all, bind_to, here, hurry};

#[cfg(not(all(test, shuttle)))]
mod system {
    use rustix::thread::{CpuSet, gettid, sched_getaffinity, sched_getcpu, sched_setaffinity};

    /// The highest priority, as the kernel's own threads of `WQ_HIGHPRI` have it.
    const HIGHEST: i32 = -20;

    /// Returns the processors that this process may use.
    pub(in crate::path) fn all() -> Vec<usize> {
        let Ok(allowed) = sched_getaffinity(None) else {
            return vec![0];
        };
        (0..CpuSet::MAX_CPU)
            .filter(|&processor| allowed.is_set(processor))
            .collect()
    }

    /// Returns the processor that this thread is on.
    pub(in crate::path) fn here() -> usize {
        sched_getcpu()
    }

    pub(in crate::path) fn bind_to(processor: usize) {
        let mut alone = CpuSet::new();
        alone.set(processor);
        // A thread that cannot be bound works elsewhere.
        let _ = sched_setaffinity(None, &alone);
    }

    /// Asks for the highest priority for this thread.
    pub(in crate::path) fn hurry() {
        // A thread that may not have it goes on at its own priority.
        let _ = rustix::process::setpriority_process(Some(gettid()), HIGHEST);
    }
}

#[cfg(all(test, shuttle))]
mod modelled {
    pub(in crate::path) fn all() -> Vec<usize> {
        vec![0, 1]
    }

    pub(in crate::path) fn here() -> usize {
        crate::sync::number_of_this_thread() % 2
    }

    pub(in crate::path) fn bind_to(_processor: usize) {}

    pub(in crate::path) fn hurry() {}
}
