//! A volume that forgets its key while its requests are held, and gets it back.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use scrim_backend::{Backend, BackendError};
use scrim_luks::VolumeKey;

use super::Volume;
use crate::error::OpenError;
use crate::mapping::{ForgottenKey, Mapping};
use crate::sync::thread;

/// Pause between two looks whether the last thread has let the key go.
const LOOK: Duration = Duration::from_millis(1);

impl Volume {
    /// Holds requests as [`suspend`](Self::suspend) does, and destroys the key with all that was made of it; a
    /// loaded table is dropped too, since it has a key. After that nothing in memory can decrypt. Only
    /// [`recall_key`](Self::recall_key) lets requests go on.
    ///
    /// # Errors
    /// [`ForgetError`] names the reason, and the state of the key.
    pub fn forget_key(&self, limit: Duration) -> Result<(), ForgetError> {
        let mut inactive = self.inactive();
        let active = self.gate.peek();
        if active.forgotten().is_none() {
            let forgotten = active.without_key().ok_or(ForgetError::NoKey)?;
            let forgotten = forgotten.map_err(ForgetError::Open)?;
            if !self.gate.close(limit) {
                return Err(ForgetError::Busy);
            }
            *inactive = None;
            self.exchange(forgotten);
            active.retire();
        }
        drop(active);
        // A queue lets the old mapping go as soon as it hears of the exchange.
        let now = self.gate.peek();
        let begun = Instant::now();
        while now.forgotten().is_some_and(ForgottenKey::remains) {
            if begun.elapsed() > limit {
                return Err(ForgetError::Kept);
            }
            thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Tells whether the volume needs its key back before requests can go on. See [`key_state`](Self::key_state) for
    /// whether the key has left memory.
    #[must_use]
    pub fn is_key_forgotten(&self) -> bool {
        self.gate.peek().forgotten().is_some()
    }

    /// Returns where the key is.
    #[must_use]
    pub fn key_state(&self) -> KeyState {
        match self.gate.peek().forgotten() {
            None => KeyState::Held,
            Some(forgotten) if forgotten.remains() => KeyState::BeingDestroyed,
            Some(_) => KeyState::Forgotten,
        }
    }

    /// Lets the requests of a volume whose key is forgotten go on. `open` is asked for devices that are not open.
    ///
    /// # Errors
    /// [`RecallError`]; the requests are still held.
    pub fn recall_key(
        &self,
        key: &VolumeKey,
        mut open: impl FnMut(&str) -> Result<Arc<dyn Backend>, BackendError>,
    ) -> Result<(), RecallError> {
        let _one_at_a_time = self.inactive();
        let held = self.gate.peek();
        let forgotten = held.forgotten().ok_or(RecallError::NotForgotten)?;
        if !forgotten.fits(key) {
            return Err(RecallError::AnotherKey);
        }
        let table = held.table_with(Some(key));
        let mapping = Mapping::start(table, held.path(), |name| match held.backend(name) {
            Some(backend) => Ok(Arc::clone(backend)),
            None => open(name),
        })?;
        if !mapping.has_key(forgotten) {
            return Err(RecallError::AnotherKey);
        }
        self.exchange(mapping);
        self.gate.open();
        held.retire();
        Ok(())
    }

    /// Fails the requests that are held, and those that come, if the key is forgotten: for a volume that is to
    /// end. Returns `true` if it is.
    pub fn give_up(&self) -> bool {
        let _one_at_a_time = self.inactive();
        let is_forgotten = self.is_key_forgotten();
        if is_forgotten {
            self.gate.open();
        }
        is_forgotten
    }
}

/// The place of a volume's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyState {
    /// The key is in memory, as its table needs it.
    Held,
    /// The table has no key any more, but an object that has not ended yet still has it in memory.
    BeingDestroyed,
    /// The key is nowhere in memory.
    Forgotten,
}

/// The reason for which a key was not forgotten.
#[derive(Debug)]
pub enum ForgetError {
    /// The table does not have exactly one key.
    NoKey,
    /// Requests do not end; they go on.
    Busy,
    /// A mapping without the key could not be made; requests go on.
    Open(OpenError),
    /// Requests are held, and will not go on without the key; but a thread that has not let go of the old table still
    /// has it in memory.
    Kept,
}

impl fmt::Display for ForgetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoKey => f.write_str(
                "its table does not have exactly one key that could be forgotten; `scrim suspend` holds its \
                 requests",
            ),
            Self::Busy => f.write_str(
                "requests in flight do not end, so it goes on; try again once its storage answers",
            ),
            Self::Open(error) => error.fmt(f),
            Self::Kept => f.write_str(
                "its requests are held, but one that its storage does not answer keeps the key in memory: \
                 try again once the storage answers, or close the volume",
            ),
        }
    }
}

impl std::error::Error for ForgetError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Open(error) => Some(error),
            Self::NoKey | Self::Busy | Self::Kept => None,
        }
    }
}

/// The reason for which a volume was not given its key back.
#[derive(Debug)]
pub enum RecallError {
    /// The volume has its key.
    NotForgotten,
    /// This is not the key that was forgotten.
    AnotherKey,
    /// The volume's table cannot be started.
    Open(OpenError),
}

impl fmt::Display for RecallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotForgotten => f.write_str("its key is not forgotten"),
            Self::AnotherKey => f.write_str(
                "the header has another volume key than the volume was opened with, so it stays suspended: \
                 restore the header from a backup, or close the volume",
            ),
            Self::Open(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for RecallError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Open(error) => Some(error),
            Self::NotForgotten | Self::AnotherKey => None,
        }
    }
}

impl From<OpenError> for RecallError {
    fn from(error: OpenError) -> Self {
        Self::Open(error)
    }
}
