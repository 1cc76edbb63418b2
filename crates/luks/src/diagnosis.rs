//! Diagnosis of a header that cannot be read, or only half, and its repair.

use std::fmt;

use crate::error::{HeaderError, WriteError};
use crate::finding::{Consent, Finding};
use crate::header::{Header, Parsed};
use crate::header_copy::HeaderCopy;
use crate::on_disk::{luks1, luks2};
use crate::plan::Plan;
use crate::signature::Signature;

/// Diagnosis of the start of a device.
#[derive(Debug)]
pub struct Diagnosis {
    /// The condition of the header.
    pub condition: Condition,
    /// Signature of something else where a header, or the primary, should start.
    pub overwritten_by: Option<Signature>,
}

/// The condition of a header.
#[derive(Debug)]
pub enum Condition {
    /// Nothing has to be repaired.
    Sound(Parsed),
    /// One LUKS2 copy is damaged, older or different; the other one serves. All keys are there.
    OneCopy(Parsed),
    /// Fields of a LUKS1 header are impossible, but tell what they were.
    Luks1Fields {
        /// The header as it would be.
        header: Header,
        /// The changes that would be made.
        fixes: Vec<luks1::Fix>,
    },
    /// No header here can be used, nor repaired from what is here.
    Unusable {
        error: HeaderError,
        /// The copies of LUKS2 headers that are still there in part, by their offset in bytes.
        remains: Vec<(HeaderCopy, u64)>,
    },
}

impl Diagnosis {
    /// Looks at `area`, the first [`HEADER_AREA_MAX`](crate::HEADER_AREA_MAX) bytes of a device of
    /// `device_len` bytes, or all of them if there are fewer.
    #[must_use]
    pub fn of(area: &[u8], device_len: u64) -> Self {
        let condition = match Parsed::of(area) {
            Ok(parsed) => match (parsed.header.header_end(), parsed.repair) {
                (need, _) if need > device_len => Condition::Unusable {
                    error: HeaderError::DeviceTooSmall {
                        need,
                        have: device_len,
                    },
                    remains: luks2::remains(area),
                },
                (_, None) => Condition::Sound(parsed),
                (_, Some(_)) => Condition::OneCopy(parsed),
            },
            Err(error) => unreadable(area, error),
        };
        let overwritten_by = match &condition {
            Condition::Sound(_) | Condition::Luks1Fields { .. } => None,
            _ => Signature::find(area),
        };
        Self {
            condition,
            overwritten_by,
        }
    }

    /// The header that is there, or will be once it is repaired.
    #[must_use]
    pub fn header(&self) -> Option<&Header> {
        match &self.condition {
            Condition::Sound(parsed) | Condition::OneCopy(parsed) => Some(&parsed.header),
            Condition::Luks1Fields { header, .. } => Some(header),
            Condition::Unusable { .. } => None,
        }
    }

    /// Plans the repair; `None` where nothing has to be repaired, or nothing can be.
    ///
    /// A LUKS2 copy is rewritten from the other, which stays: a cut costs nothing. A LUKS1 header is
    /// written anew, its second sector first; where both sectors change, a cut between leaves it in
    /// need of the same repair.
    ///
    /// # Errors
    /// [`WriteError`]; nothing has been written.
    pub fn plan(&self) -> Result<Option<Plan>, WriteError> {
        match &self.condition {
            Condition::Sound(_) | Condition::Unusable { .. } => Ok(None),
            Condition::OneCopy(parsed) => parsed.repair_plan(),
            Condition::Luks1Fields { header, .. } => match header {
                Header::Luks1(header) => Ok(Some(Plan::new(header.header_steps()?.into()))),
                Header::Luks2(_) => Ok(None),
            },
        }
    }

    /// Returns whether the plan needs the user's word: it may overwrite something else, or it is a guess.
    #[must_use]
    pub fn consent(&self) -> Consent {
        match &self.condition {
            Condition::OneCopy(parsed) => {
                parsed.repair.map_or(Consent::Ask, |repair| repair.consent)
            }
            Condition::Luks1Fields { .. } => Consent::Ask,
            Condition::Sound(_) | Condition::Unusable { .. } => Consent::NotNeeded,
        }
    }
}

fn unreadable(area: &[u8], error: HeaderError) -> Condition {
    if !matches!(error, HeaderError::Luks2 { .. })
        && let Some((header, fixes)) = luks1::Header::repair(area)
    {
        let header = Header::Luks1(header);
        return Condition::Luks1Fields { header, fixes };
    }
    Condition::Unusable {
        error,
        remains: luks2::remains(area),
    }
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let findings = |f: &mut fmt::Formatter<'_>, findings: &[Finding]| {
            findings
                .iter()
                .try_for_each(|finding| writeln!(f, "{finding}"))
        };
        match &self.condition {
            Condition::Sound(parsed) => {
                writeln!(f, "the LUKS{} header is sound", parsed.header.version())?;
                findings(f, &parsed.findings)?;
            }
            Condition::OneCopy(parsed) => findings(f, &parsed.findings)?,
            Condition::Luks1Fields { fixes, .. } => {
                for fix in fixes {
                    writeln!(f, "{fix}")?;
                }
            }
            Condition::Unusable { error, remains } => {
                writeln!(f, "{error}")?;
                for (copy, offset) in remains {
                    writeln!(
                        f,
                        "the remains of a {copy} LUKS2 header lie at byte {offset}"
                    )?;
                }
            }
        }
        if let Some(signature) = self.overwritten_by {
            writeln!(f, "where the header should start lies {signature}")?;
        }
        Ok(())
    }
}
