//! Changes of a header beside its keys, and the plan that writes them.

use super::Header;
use crate::edit::Edit;
use crate::error::EditError;
use crate::plan::{Plan, Step};
use crate::uuid;

impl Header {
    /// Makes all of these changes, in this order, in one update of the header.
    ///
    /// The header changes at once, the disk when the plan is applied. A cut leaves all of them made
    /// or none; key slots are not touched. Members and tokens that Scrim does not know stay as they
    /// are.
    ///
    /// # Errors
    /// [`EditError`]; neither header nor disk has changed.
    pub fn edit(&mut self, edits: &[Edit]) -> Result<Plan, EditError> {
        self.check_editable()?;
        let steps = match self {
            Self::Luks1(header) => {
                let mut changed = header.clone();
                for edit in edits {
                    let Edit::Uuid(given) = edit else {
                        return Err(EditError::Luks1(edit.what()));
                    };
                    let uuid = uuid::given_or_random(given.as_deref(), EditError::Uuid)?;
                    changed.set_uuid(uuid);
                }
                let steps = vec![changed.write_step()?, Step::Sync];
                *header = changed;
                steps
            }
            Self::Luks2(header) => {
                let mut changed = header.clone();
                for edit in edits {
                    changed.edit(edit)?;
                }
                let steps = changed.update_steps()?;
                *header = changed;
                steps
            }
        };
        Ok(Plan::new(steps))
    }

    /// The first number that no token has; `None` when all 32 are taken, or in LUKS1.
    #[must_use]
    pub fn free_token(&self) -> Option<u8> {
        match self {
            Self::Luks1(_) => None,
            Self::Luks2(header) => header.free_token(),
        }
    }
}
