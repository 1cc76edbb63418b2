//! Two copies: the better one is taken, the worse one reported.

use super::{Header, binary};
use crate::error::{CopyFault, HeaderError};
use crate::finding::{Consent, Finding, Repair};
use crate::header_copy::HeaderCopy;
use crate::on_disk::magic::MAGIC;
use crate::signature::Signature;

/// The better of two copies, and the faults of the other one.
pub(crate) struct Copies {
    pub(crate) better: Header,
    pub(crate) findings: Vec<Finding>,
    pub(crate) repair: Option<Repair>,
}

/// Returns whether anything in `area` claims to be a secondary header.
pub(crate) fn has_secondary(area: &[u8]) -> bool {
    binary::secondary_offsets(area).next().is_some()
}

/// The copies that `area` claims to have, whole or not.
pub(crate) fn remains(area: &[u8]) -> Vec<(HeaderCopy, u64)> {
    let primary = area.starts_with(&MAGIC);
    let primary = primary.then_some((HeaderCopy::Primary, 0));
    let secondaries = binary::secondary_offsets(area);
    primary
        .into_iter()
        .chain(secondaries.map(|offset| (HeaderCopy::Secondary, offset)))
        .collect()
}

/// Reads both copies. `version` is what stands behind the magic at the start of `area`, if the
/// magic is there.
pub(crate) fn parse_copies(area: &[u8], version: Option<u16>) -> Result<Copies, HeaderError> {
    match Header::read(area, HeaderCopy::Primary, 0) {
        Ok(primary) => {
            let offset = HeaderCopy::Secondary.offset(primary.binary.hdr_size);
            Ok(match Header::read(area, HeaderCopy::Secondary, offset) {
                Ok(secondary) => compare(primary, secondary, area),
                Err(fault) => one_of_two(primary, HeaderCopy::Secondary, fault, area),
            })
        }
        Err(fault) => match (find_secondary(area), version, fault) {
            (Some(Ok(secondary)), _, fault) => {
                Ok(one_of_two(secondary, HeaderCopy::Primary, fault, area))
            }
            // A device with a torn secondary alone: making a header did not get further.
            (_, None, _) => Err(HeaderError::NotLuks),
            (_, _, CopyFault::Version(version)) => Err(HeaderError::Version(version)),
            (secondary, _, primary) => Err(HeaderError::Luks2 {
                primary,
                secondary: secondary.and_then(Result::err),
            }),
        },
    }
}

/// The first whole secondary at any offset where one may lie, or else what is wrong with the first
/// that claims to be one.
///
/// A secondary that an earlier, larger header left behind would lie at a higher offset: making a
/// header overwrites the lower ones.
fn find_secondary(area: &[u8]) -> Option<Result<Header, CopyFault>> {
    let mut first_fault = None;
    for offset in binary::secondary_offsets(area) {
        match Header::read(area, HeaderCopy::Secondary, offset) {
            Ok(header) => return Some(Ok(header)),
            Err(fault) => first_fault = first_fault.or(Some(Err(fault))),
        }
    }
    first_fault
}

fn compare(primary: Header, secondary: Header, area: &[u8]) -> Copies {
    let older = |copy, old: &Header, new: &Header| Finding::OlderCopy {
        copy,
        seqid: old.binary.seqid,
        newer: new.binary.seqid,
    };
    let (header, copy, finding, consent) = if primary.binary.seqid > secondary.binary.seqid {
        let finding = older(HeaderCopy::Secondary, &secondary, &primary);
        (primary, HeaderCopy::Secondary, finding, Consent::NotNeeded)
    } else if primary.binary.seqid < secondary.binary.seqid {
        let finding = older(HeaderCopy::Primary, &primary, &secondary);
        (secondary, HeaderCopy::Primary, finding, Consent::NotNeeded)
    } else if primary.binary != secondary.binary || primary.document != secondary.document {
        let seqid = primary.binary.seqid;
        let finding = Finding::CopiesDiffer { seqid };
        (primary, HeaderCopy::Secondary, finding, Consent::Ask)
    } else {
        return whole(primary);
    };
    // As in cryptsetup: two whole copies of one age are looked at no further.
    let overwritten_by = match finding {
        Finding::CopiesDiffer { .. } => None,
        _ => Signature::of_another(area),
    };
    let repair = Repair {
        copy,
        consent,
        overwritten_by,
    };
    repairable(header, finding, repair)
}

/// A crash tears a copy, which its checksum tells. Anything else was done on purpose: something
/// lies there now, such as a partition table, of which a part lies where the primary has its
/// checksum; or a newer program wrote what this one does not accept.
fn one_of_two(good: Header, bad: HeaderCopy, fault: CopyFault, area: &[u8]) -> Copies {
    let overwritten_by = Signature::of_another(area);
    let foreign =
        overwritten_by.is_some() || (bad == HeaderCopy::Primary && Signature::find(area).is_some());
    let consent = match fault {
        CopyFault::Checksum if !foreign => Consent::NotNeeded,
        _ => Consent::Ask,
    };
    let finding = Finding::DamagedCopy { copy: bad, fault };
    let repair = Repair {
        copy: bad,
        consent,
        overwritten_by,
    };
    repairable(good, finding, repair)
}

fn repairable(mut header: Header, finding: Finding, repair: Repair) -> Copies {
    header.worse = repair.copy;
    Copies {
        better: header,
        findings: vec![finding],
        repair: Some(repair),
    }
}

fn whole(header: Header) -> Copies {
    Copies {
        better: header,
        findings: Vec::new(),
        repair: None,
    }
}
