//! Writing a header back: one copy, sync, then the other.

use serde_json::Value;

use super::Header;
use crate::error::WriteError;
use crate::header_copy::HeaderCopy;
use crate::plan::{Plan, Step};
use crate::random;

impl Header {
    /// Writes the header as it is now, with the next sequence number, to both places: first to that
    /// of the worse copy, if one is damaged or older.
    ///
    /// A crash leaves at least one whole copy: the better old one until the first new one is
    /// durable, that one afterwards. [`crate::Header::parse`] takes the newer one and reports the
    /// other.
    pub(crate) fn update_steps(&mut self) -> Result<Vec<Step>, WriteError> {
        self.binary.seqid = self
            .binary
            .seqid
            .checked_add(1)
            .ok_or(WriteError::Sequence)?;
        let first = std::mem::replace(&mut self.worse, HeaderCopy::Primary);
        Ok(vec![
            self.copy_step(first)?,
            Step::Sync,
            self.copy_step(first.other())?,
            Step::Sync,
        ])
    }

    /// Writes one copy as the header is, with the same sequence number, over one that is damaged
    /// or older.
    pub(crate) fn repair_plan(&self, copy: HeaderCopy) -> Result<Plan, WriteError> {
        Ok(Plan::new(vec![self.copy_step(copy)?, Step::Sync]))
    }

    /// One whole copy, with a fresh salt.
    pub(super) fn copy_step(&self, copy: HeaderCopy) -> Result<Step, WriteError> {
        Ok(Step::Write {
            offset: copy.offset(self.binary.hdr_size),
            bytes: self.copy_bytes(copy)?,
        })
    }

    pub(super) fn copy_bytes(&self, copy: HeaderCopy) -> Result<Vec<u8>, WriteError> {
        let json = Value::Object(self.document.clone()).to_string();
        let salt = random::bytes()?;
        self.binary.encode(copy, &salt, json.as_bytes())
    }
}
