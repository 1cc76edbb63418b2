//! Limits and interruptions of a key derivation, set by its caller.

use std::sync::OnceLock;

use super::error::KdfError;
use super::parameters::Kdf;

/// Decides whether a key derivation with the parameters of a header is begun, and whether it goes on.
///
/// A header may ask for half an hour and 4 GiB for each key slot. Only the caller knows whose header it
/// is, how long its user wants to wait, and whether it was interrupted.
pub trait KdfGuard: Sync {
    /// Checks the cost that a key slot, or a digest for `None`, asks for, before any work is done.
    ///
    /// # Errors
    /// [`KdfError::OverLimit`], or what [`KdfGuard::go_on`] says.
    fn begin(&self, keyslot: Option<u8>, kdf: &Kdf) -> Result<(), KdfError>;

    /// Decides whether to go on; called every few milliseconds, by every thread that computes, and before
    /// each key slot.
    ///
    /// # Errors
    /// [`KdfError::TimeLimit`] or [`KdfError::Interrupted`].
    fn go_on(&self) -> Result<(), KdfError>;
}

/// A guard without limits and interruptions, for parameters that the caller trusts.
#[derive(Debug, Clone, Copy)]
pub struct Unguarded;

impl KdfGuard for Unguarded {
    fn begin(&self, _keyslot: Option<u8>, _kdf: &Kdf) -> Result<(), KdfError> {
        Ok(())
    }

    fn go_on(&self) -> Result<(), KdfError> {
        Ok(())
    }
}

/// A guard that several threads ask; once it has stopped one, all of them stop.
pub(super) struct Watch<'a> {
    guard: &'a dyn KdfGuard,
    stopped: OnceLock<KdfError>,
}

impl<'a> Watch<'a> {
    pub(super) fn new(guard: &'a dyn KdfGuard) -> Self {
        Self {
            guard,
            stopped: OnceLock::new(),
        }
    }

    /// Returns whether to stop; asks the guard.
    pub(super) fn stops(&self) -> bool {
        if self.stopped.get().is_none()
            && let Err(error) = self.guard.go_on()
        {
            // Another thread may have been first, with as good a reason.
            let _ = self.stopped.set(error);
        }
        self.stopped.get().is_some()
    }

    /// Returns the reason for which the threads had to stop, if they had to.
    ///
    /// # Errors
    /// The guard's error.
    pub(super) fn result(&self) -> Result<(), KdfError> {
        match self.stopped.get() {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }
}
