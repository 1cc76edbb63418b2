//! Progress of a measurement, and the callback that hears of it.

use std::ops::ControlFlow;

/// Progress of a measurement.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Name of the measurement that runs.
    pub what: String,
    /// The round, from 1; 0 while it is being prepared.
    pub round: usize,
    /// Number of all rounds.
    pub rounds: usize,
    /// The part that is done, from 0 to 1.
    pub part: f64,
}

/// Callback that hears of a measurement's progress, and can end it.
pub type Watch<'a> = dyn FnMut(&Progress) -> ControlFlow<()> + 'a;
