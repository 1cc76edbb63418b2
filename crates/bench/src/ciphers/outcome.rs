//! Figures of the ciphers.

use scrim_crypt::CipherSpec;

use super::load::{Direction, Load};

/// The figures of one run, medians over its rounds. `None` is what was not measured, or not enough.
pub struct Outcome {
    /// Figures of each cipher with each sector size, both ways, in the order of the plan.
    pub rows: Vec<Row>,
    /// Figures of AES-GCM for each length of record, both ways.
    pub records: Vec<RecordRow>,
    /// Speed of the library's `memcpy`.
    pub memcpy: Speeds,
    /// Limits of this processor's AES units, one for each size of AES key.
    pub limits: Vec<Limit>,
    /// Bytes of the cold buffer.
    pub cold_bytes: usize,
    /// The processor that it ran on, where it stayed on one.
    pub cpu: Option<usize>,
}

/// A cipher with sectors of one size, going one way.
pub struct Row {
    /// Specification of the cipher.
    pub spec: CipherSpec,
    /// Size of the whole volume key.
    pub key_bits: usize,
    /// Driver that computed it.
    pub driver: &'static str,
    /// True if that was asked for, and others would have been possible.
    pub driver_was_asked_for: bool,
    /// Size of a sector in bytes.
    pub sector_size: usize,
    pub direction: Direction,
    /// Speed for each load; `None` also where a call is shorter than a sector.
    pub speeds: Speeds,
    /// Part of the processor's limit that the usual load reaches.
    pub of_limit: Option<f64>,
}

/// Records of AES-GCM of one length, going one way.
pub struct RecordRow {
    /// Size of the key.
    pub key_bits: usize,
    /// Name of the driver, or of AWS-LC, which computed it.
    pub code: &'static str,
    /// Length of a record without its tag.
    pub bytes: usize,
    pub direction: Direction,
    /// Speed for each load; `None` also where a call is shorter than a record, and for what would be opened from memory.
    pub speeds: Speeds,
    /// Part of the processor's limit that the usual load reaches.
    pub of_limit: Option<f64>,
}

/// Speed that a cipher would have if it did nothing but its AES rounds.
pub struct Limit {
    /// Size of the AES key in bits.
    pub bits: usize,
    /// Speed of these rounds.
    pub speed: Option<Speed>,
}

/// Speeds by load, in the order of [`Load::ALL`].
pub type Speeds = [Option<Speed>; Load::COUNT];

/// Speed of a cipher, a copy or a limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed {
    /// Rate in units of 10⁶ bytes a second.
    pub rate: f64,
    /// Cycles of the core for each byte, where its clock is known.
    pub cycles: Option<f64>,
}
