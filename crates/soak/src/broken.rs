//! A promise that was not kept.

use std::fmt;

/// A promise that a history or an operation has found broken, and how to see it again.
#[derive(Debug)]
pub struct Broken {
    /// Seed that decides everything about the history.
    pub seed: u64,
    /// The promise, and what was found instead.
    pub what: String,
    /// Everything that had been asked for, in order.
    pub trace: Vec<String>,
    /// The command that runs it again.
    pub replay: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}: {}", self.seed, self.what)?;
        for line in &self.trace {
            writeln!(f, "    {line}")?;
        }
        write!(f, "replay it: {}", self.replay)
    }
}

impl std::error::Error for Broken {}
