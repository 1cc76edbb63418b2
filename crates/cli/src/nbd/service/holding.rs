//! Holding the requests of a volume for a moment, in which a snapshot of its storage is taken.

use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use scrim_backend::Backend;
use scrim_sys::memory::SecretBytes;

use super::{OpenVolume, busy};
use crate::error::{CliError, Exit};
use crate::nbd::control::{Answer, Request};
use crate::nbd::hold::Hold;
use crate::terminal::note;

impl OpenVolume {
    /// Freezes the mounted file systems, lets requests in flight end and holds others, and makes all that was written
    /// durable. The answer names what cannot be frozen.
    pub(super) fn hold(&self, limit: Duration) -> Answer {
        self.refuse_while_suspended()?;
        let name = self.name.as_str();
        if self.volume.has_inactive_table() {
            return Err(CliError::new(
                Exit::Busy,
                format!(
                    "{name} has a loaded table, which would become active; `scrim resume {name}` activates it, `scrim clear \
                     {name}` drops it"
                ),
            ));
        }
        // Before requests are held: it writes.
        let (frozen, remarks) = self.mounts.freeze()?;
        self.suspend()?;
        // From here on, an error lets the requests go on, and thaws the file systems after that.
        *self.held() = Some(Hold::new(limit, frozen));
        let flushed = match self.volume.is_read_only() {
            true => Ok(()),
            false => self
                .devices
                .now()
                .iter()
                .try_for_each(|storage| storage.flush()),
        };
        if let Err(error) = flushed {
            self.end_hold();
            return Err(error.into());
        }
        Ok(SecretBytes::copied_from(remarks.as_bytes()))
    }

    /// Ends a hold. If it has ended already, requests may have changed the storage while the snapshot was taken.
    pub(super) fn release(&self) -> Answer {
        match self.end_hold() {
            true => Ok(SecretBytes::zeroed(0)),
            false => Err(CliError::new(
                Exit::Busy,
                format!(
                    "requests to {} were not held until the end: the time was over, or it was told to close",
                    self.name.as_str()
                ),
            )),
        }
    }

    pub(super) fn is_held(&self) -> bool {
        self.held().is_some()
    }

    /// Ends a hold whose time is over.
    pub(super) fn end_hold_if_due(&self) {
        if self.held().as_ref().is_some_and(Hold::is_over) && self.end_hold() {
            self.note_lost_hold("its time is over");
        }
    }

    pub(super) fn note_lost_hold(&self, why: &str) {
        note(format_args!(
            "scrim: warning: {}: requests were held for a snapshot and go on, since {why}",
            self.name.as_str()
        ));
    }

    /// Lets requests go on, then thaws file systems. Returns whether there was a hold.
    pub(super) fn end_hold(&self) -> bool {
        let Some(hold) = self.held().take() else {
            return false;
        };
        // Without a loaded table, which is refused meanwhile, this has no error.
        if let Err(error) = self.resume() {
            note(format_args!("scrim: warning: {error}"));
        }
        drop(hold);
        true
    }

    /// The answer to a request during a hold: what only shows the state is shown, and what would end the hold, or wait for
    /// it, is refused. `None` if there is no hold, and to requests that may end one.
    pub(super) fn answer_while_held(&self, request: &Request) -> Option<Answer> {
        let may_end_it = matches!(request, Request::Release | Request::CloseForced);
        if may_end_it || !self.is_held() {
            return None;
        }
        let shown = self.show(request);
        Some(shown.unwrap_or_else(|| Err(busy(&self.name, "held for a snapshot"))))
    }

    fn held(&self) -> MutexGuard<'_, Option<Hold>> {
        self.hold.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
