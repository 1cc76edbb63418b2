//! Progress of an encryption in place, as the header has it.

use super::Header;
use crate::error::WriteError;
use crate::plan::Plan;
use crate::underway::{REQUIREMENT, TOKEN, Underway};

impl Header {
    /// The encryption in place that has begun, if one has; its numbers are as stored, and not to be
    /// trusted.
    #[must_use]
    pub fn underway(&self) -> Option<Underway> {
        match self.requirements() {
            [only] if only == REQUIREMENT => {}
            _ => return None,
        }
        let mut tokens = self.tokens().iter();
        let token = tokens.find(|token| token.kind == TOKEN)?;
        Underway::of_token(token.json.by_ref().raw())
    }

    /// Records the progress of an encryption in place, or, with `None`, that it is finished. A cut leaves
    /// the old record or the new one.
    ///
    /// # Errors
    /// [`WriteError`]; neither header nor disk has changed.
    pub fn set_underway(&mut self, underway: Option<Underway>) -> Result<Plan, WriteError> {
        let mut changed = self.clone();
        let steps = match &mut changed {
            Self::Luks1(_) => Vec::new(),
            Self::Luks2(header) => {
                header.change_document(|document| match underway {
                    Some(underway) => underway.enter(document),
                    None => Underway::leave(document),
                })?;
                header.update_steps()?
            }
        };
        *self = changed;
        Ok(Plan::new(steps))
    }
}
