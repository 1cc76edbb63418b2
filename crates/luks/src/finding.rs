//! Faults of a header that can still be used.

use std::fmt;

use crate::error::CopyFault;
use crate::header_copy::HeaderCopy;
use crate::signature::Signature;

/// Something worth a warning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// One LUKS2 copy is damaged; the other one is in use.
    DamagedCopy { copy: HeaderCopy, fault: CopyFault },
    /// One LUKS2 copy is older; the newer one is in use.
    OlderCopy {
        copy: HeaderCopy,
        seqid: u64,
        /// Sequence number of the other copy.
        newer: u64,
    },
    /// Both LUKS2 copies have the same sequence number but say different things; the primary is in
    /// use.
    CopiesDiffer { seqid: u64 },
    /// A persistent flag that Scrim does not know.
    UnknownFlag(String),
}

/// A LUKS2 copy that should be rewritten from the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repair {
    /// The copy to rewrite.
    pub copy: HeaderCopy,
    /// Need to ask the user first.
    pub consent: Consent,
    /// Something else that the device may be used as. The header is used only once it has been repaired.
    pub overwritten_by: Option<Signature>,
}

/// Need for the user's consent before a copy is rewritten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consent {
    /// No: an older or torn LUKS2 copy lies there, as a crash leaves it.
    NotNeeded,
    /// Yes: something else may lie there now, or nothing tells which copy is right.
    Ask,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DamagedCopy { copy, fault } => write!(
                f,
                "the {copy} header is damaged: it {fault}; the other copy is used, back it up and \
                 repair this one"
            ),
            Self::OlderCopy { copy, seqid, newer } => write!(
                f,
                "the {copy} header is older, sequence number {seqid} against {newer}; the newer \
                 copy is used, repair this one"
            ),
            Self::CopiesDiffer { seqid } => write!(
                f,
                "both headers have sequence number {seqid} but differ; the primary is used, back \
                 both up before you change anything"
            ),
            Self::UnknownFlag(name) => write!(
                f,
                "the persistent flag {name:?} is not known and has no effect here"
            ),
        }
    }
}
