//! Direction in which a quantity is good.

/// Direction in which a quantity is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// For rates.
    Higher,
    /// Times and costs.
    Lower,
}
