//! Transition from one header to another, and the states that may be seen on the way.

use crate::luks::Refused;
use crate::state::State;

/// A state on the way from old to new that is as good as one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Between {
    /// No header: where a new one replaces an old one and its keys.
    NoHeader,
    /// A header with all of the old keys or all of the new ones, and perhaps some of the others.
    OtherKeys,
    /// The old header with key slots that nothing opens any more, where they are to go.
    KeysGoing,
    /// The old or the new header, in which nothing opens this key slot: where it is overwritten in
    /// place, which the user has been asked about. There may be several of them.
    Lost(u8),
}

/// Result of comparing a header with a [`Transition`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    Old,
    New,
    Between,
}

/// A change of a header.
#[derive(Debug)]
pub(crate) struct Transition {
    pub(crate) old: State,
    pub(crate) new: State,
    pub(crate) between: Vec<Between>,
}

impl Transition {
    /// Returns the class of a header.
    ///
    /// # Errors
    /// When it is neither old nor new nor allowed between.
    pub(crate) fn class(&self, state: &State) -> Result<Class, Refused> {
        if *state == self.new {
            Ok(Class::New)
        } else if *state == self.old {
            Ok(Class::Old)
        } else if self.allows(state) {
            Ok(Class::Between)
        } else {
            Err(format!("it is neither old nor new: {state:?}"))
        }
    }

    /// Returns whether the old header is taken away before the new one is there.
    pub(crate) fn may_leave_none(&self) -> bool {
        self.between.contains(&Between::NoHeader)
    }

    fn allows(&self, state: &State) -> bool {
        let lost = self.between.iter().filter_map(|between| match between {
            Between::Lost(slot) => Some(*slot),
            _ => None,
        });
        let lost: Vec<u8> = lost.collect();
        self.between.iter().any(|between| match between {
            Between::NoHeader => *state == State::Bare,
            Between::OtherKeys => state.has_keys_of_either(&self.old, &self.new),
            Between::KeysGoing => state.is_losing_keys(&self.old, &self.new),
            Between::Lost(_) => state.has_lost(&lost, &self.old, &self.new),
        })
    }
}
