//! The means of synchronisation that hand-overs and the exchange of tables are made of: the standard
//! library's, or those of a scheduler that tries out orders of events (`--cfg shuttle`, docs/testing.md).

#[cfg(not(shuttle))]
pub(crate) use std::{
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, TryLockError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

#[cfg(shuttle)]
pub(crate) use shuttle::{
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, TryLockError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};
