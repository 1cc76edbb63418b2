//! Direction in which a quantity is good.

/// Direction in which a quantity is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Higher is better, as for rates.
    Higher,
    /// Lower is better, as for times and costs.
    Lower,
}
