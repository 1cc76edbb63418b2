//! Model of a header, now and after a power cut: it is as it was last seen, or on the way from
//! there to the result of a change.

use scrim_backend::Backend;
use scrim_backend::sim::SimBackend;
use scrim_luks::Consent;
use scrim_seeded::Random;

use crate::header_change::HeaderChange;
use crate::luks::Refused;
use crate::state::{Seen, observe};
use crate::transition::Transition;

/// A header as it may be.
pub(crate) struct HeaderModel {
    /// State of the header. It is durable, unless a change has begun.
    now: Seen,
    /// The change that has begun and not ended well: what it has done is not durable.
    begun: Option<Transition>,
    /// The header backup that was made last.
    saved: Option<Vec<u8>>,
    /// Every change that was asked for.
    asked: Vec<HeaderChange>,
}

/// A change that has been tried on a copy of the disk.
pub(crate) struct Rehearsed {
    pub(crate) change: HeaderChange,
    /// State that the change leaves, or the reason for which it cannot be made.
    outcome: Result<Seen, Refused>,
}

impl HeaderModel {
    /// Models the header on a disk, all of it durable.
    pub(crate) fn seen_on(disk: &SimBackend, saved: Option<Vec<u8>>) -> Result<Self, Refused> {
        Ok(Self {
            now: observe(&disk.settled())?,
            begun: None,
            saved,
            asked: Vec::new(),
        })
    }

    /// Returns whether a change that failed has left something in the cache.
    pub(crate) fn is_unsettled(&self) -> bool {
        self.begun.is_some()
    }

    /// Records that all that the disk holds has become durable.
    pub(crate) fn settle(&mut self, disk: &SimBackend) -> Result<(), Refused> {
        self.now = observe(&disk.settled())?;
        self.begun = None;
        Ok(())
    }

    /// Chooses a change, and sees on a copy of the disk what it is to do. From here on a cut may leave
    /// the new header.
    pub(crate) fn rehearse(&mut self, disk: &SimBackend, seed: u64) -> Result<Rehearsed, Refused> {
        let change = HeaderChange::choose(&mut Random::new(seed), &self.now.state);
        self.asked.push(change.clone());
        let copy = disk.settled();
        let made = change.make(&copy, &mut self.saved.clone());
        let outcome = match made {
            Ok(at_risk) => {
                let new = observe(&copy)?;
                let old = self.now.state.clone();
                self.begun = Some(Transition {
                    between: change.between(&old, &new.state, &at_risk),
                    new: new.state.clone(),
                    old,
                });
                Ok(new)
            }
            Err(refused) => Err(refused),
        };
        Ok(Rehearsed { change, outcome })
    }

    /// Makes a change on the disk itself.
    pub(crate) fn make(&mut self, change: &HeaderChange, on: &dyn Backend) -> Result<(), Refused> {
        change.make(on, &mut self.saved).map(drop)
    }

    /// Judges what is there after a change that has ended, well or not, while there is still power.
    pub(crate) fn ended(
        &mut self,
        rehearsed: &Rehearsed,
        well: bool,
        disk: &SimBackend,
    ) -> Result<(), Refused> {
        let seen = observe(&disk.settled())?;
        match &rehearsed.outcome {
            Ok(new) if well && seen != *new => {
                return Err(format!(
                    "it was done, and is not what it was to be: {seen:?}"
                ));
            }
            Err(why) if well => return Err(format!("it was done, and could not be: {why}")),
            Ok(_) if well => self.begun = None,
            Ok(_) | Err(_) => self.check(&seen)?,
        }
        self.now = seen;
        Ok(())
    }

    /// Judges a header that a power cut has left, or an error.
    pub(crate) fn check(&self, seen: &Seen) -> Result<(), Refused> {
        // Where a header goes before another comes, one copy goes before the other.
        let going = self.begun.as_ref().is_some_and(Transition::may_leave_none);
        if seen.repair == Some(Consent::Ask) && !going {
            return Err(format!(
                "the user would be asked which copy to trust: {seen:?}"
            ));
        }
        match &self.begun {
            Some(transition) => transition.class(&seen.state).map(drop),
            None if *seen == self.now => Ok(()),
            None => Err(format!(
                "nothing was to be changed of it, and it is {seen:?}, not {:?}",
                self.now
            )),
        }
    }

    pub(crate) fn saved(&self) -> Option<Vec<u8>> {
        self.saved.clone()
    }

    pub(crate) fn asked(&self) -> &[HeaderChange] {
        &self.asked
    }
}

impl Rehearsed {
    pub(crate) fn is_refused(&self) -> bool {
        self.outcome.is_err()
    }
}
