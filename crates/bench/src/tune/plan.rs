//! Settings of a volume, and the measurements that are to be made of them.

use std::time::Duration;

use super::load::{Direction, Load};

/// A way to run a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Name, as users write it.
    pub name: String,
    /// Directions that it changes.
    pub directions: Vec<Direction>,
}

/// A volume whose settings can be changed while it is in use.
pub trait Tunable {
    /// Reason for a change, or a request, that failed.
    type Error;

    /// Makes an error of that of a request.
    fn failed(load: &Load, error: std::io::Error) -> Self::Error;

    /// Puts a setting to work, by its index.
    ///
    /// # Errors
    /// When the volume does not change; it runs as before then.
    fn apply(&mut self, setting: usize) -> Result<(), Self::Error>;
}

/// Measurements that are to be made.
#[derive(Debug, Clone)]
pub struct TunePlan {
    /// Settings to compare; the first is the one that the others are compared with.
    pub settings: Vec<Setting>,
    pub loads: Vec<Load>,
    /// Time of one measurement.
    pub slice: Duration,
}
