//! Description of a kernel, for the registry.

use super::iv::SectorKernel;
use crate::spec::Algorithm;

/// Description of a kernel.
pub(crate) struct Kernel {
    pub(crate) algorithm: Algorithm,
    pub(crate) driver: &'static str,
    /// Name that it shares with its siblings of other algorithms, for `SCRIM_DISABLE`.
    pub(crate) family: &'static str,
    /// Rank on this CPU.
    pub(crate) priority: fn() -> u32,
    pub(crate) constant_time: bool,
    pub(crate) features: &'static [&'static str],
    /// Checks whether this CPU has all `features` and the operating system lets them be used.
    pub(crate) runs_here: fn() -> bool,
    /// Expands a key; `None` where `runs_here` is false, or for a key of another algorithm.
    pub(crate) set_up: fn(&[u8]) -> Option<Box<dyn SectorKernel>>,
}
