//! The means of synchronisation that hand-overs and the exchange of tables are made of: the standard
//! library's, or those of a scheduler that tries out orders of events (`--cfg shuttle`, docs/testing.md).

#[cfg(not(all(test, shuttle)))]
pub(crate) use std::{
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        TryLockError,
        atomic::{AtomicBool, AtomicUsize, Ordering, fence},
    },
    thread,
};

#[cfg(all(test, shuttle))]
pub(crate) use shuttle::{
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        TryLockError,
        atomic::{AtomicBool, AtomicUsize, Ordering, fence},
    },
    thread,
};

/// Returns the number of this thread, given when it first asks.
#[cfg(not(all(test, shuttle)))]
pub(crate) fn number_of_this_thread() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    std::thread_local!(static NUMBER: std::cell::Cell<Option<usize>> = const { std::cell::Cell::new(None) });
    NUMBER.with(|number| {
        number.get().unwrap_or_else(|| {
            let taken = NEXT.fetch_add(1, Ordering::Relaxed);
            number.set(Some(taken));
            taken
        })
    })
}

#[cfg(all(test, shuttle))]
pub(crate) fn number_of_this_thread() -> usize {
    shuttle::current::me().into()
}

#[cfg(not(all(test, shuttle)))]
pub(crate) use std::sync::OnceLock;

/// The standard library's would stop the scheduler with the thread that waits.
#[cfg(all(test, shuttle))]
pub(crate) struct OnceLock<T> {
    alone: Mutex<()>,
    value: std::sync::OnceLock<T>,
}

#[cfg(all(test, shuttle))]
impl<T> OnceLock<T> {
    pub(crate) fn get(&self) -> Option<&T> {
        self.value.get()
    }

    pub(crate) fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        let _alone = self.alone.lock().unwrap_or_else(PoisonError::into_inner);
        match self.value.get() {
            Some(value) => value,
            None => {
                let made = make();
                self.value.get_or_init(|| made)
            }
        }
    }
}

#[cfg(all(test, shuttle))]
impl<T> Default for OnceLock<T> {
    fn default() -> Self {
        Self {
            alone: Mutex::new(()),
            value: std::sync::OnceLock::new(),
        }
    }
}
