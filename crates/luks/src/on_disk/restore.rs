//! Writing a header from a backup: what both versions share.

use std::ops::Range;

use crate::plan::Step;

/// The steps that restore a header, what it will be, and the slots of the old one at risk.
pub(crate) struct Steps<H> {
    pub(crate) header: H,
    pub(crate) steps: Vec<Step>,
    pub(crate) at_risk: Vec<u8>,
}

/// These bytes of `device`; `None` where they reach behind its end.
pub(crate) fn slice(device: &[u8], range: &Range<u64>) -> Option<Vec<u8>> {
    let start = usize::try_from(range.start).ok()?;
    let end = usize::try_from(range.end).ok()?;
    device.get(start..end).map(<[u8]>::to_vec)
}
