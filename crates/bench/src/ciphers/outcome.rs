//! What was measured.

use scrim_crypt::CipherSpec;

use super::{Direction, Load};

/// The figures of one run, medians over its rounds. `None` is what was not measured, or not enough.
pub struct Outcome {
    /// Each cipher with each sector size, both ways, in the order of the plan.
    pub rows: Vec<Row>,
    /// The library's copy.
    pub memcpy: Speeds,
    /// What this processor's AES units can do, for each size of AES key.
    pub limits: Vec<Limit>,
    /// Bytes of the cold buffer.
    pub cold_bytes: usize,
    /// The processor that it ran on, where it stayed on one.
    pub cpu: Option<usize>,
}

/// A cipher with sectors of one size, going one way.
pub struct Row {
    /// The cipher.
    pub spec: CipherSpec,
    /// Size of the whole volume key.
    pub key_bits: usize,
    /// What computed it.
    pub driver: &'static str,
    /// True if that was asked for, and others would have been possible.
    pub driver_was_asked_for: bool,
    /// In bytes.
    pub sector_size: usize,
    /// Which way.
    pub direction: Direction,
    /// How fast; `None` too where a call is shorter than a sector.
    pub speeds: Speeds,
    /// What part of the processor's limit the usual load has.
    pub of_limit: Option<f64>,
}

/// What a cipher could do if it did nothing but its AES rounds.
pub struct Limit {
    /// Size of the AES key in bits.
    pub bits: usize,
    /// How fast.
    pub speed: Option<Speed>,
}

/// By [`Load::ALL`].
pub type Speeds = [Option<Speed>; Load::COUNT];

/// How fast something is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed {
    /// MB/s.
    pub rate: f64,
    /// Cycles of the core for each byte, where its clock is known.
    pub cycles: Option<f64>,
}
