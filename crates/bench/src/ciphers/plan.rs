//! Ciphers to measure, and how.

use std::time::Duration;

use scrim_crypt::SectorSize;

use super::choice::Subject;
use super::error::MeasureError;
use super::records::Records;

/// Ciphers to measure, and how.
pub struct Plan {
    pub subjects: Vec<Subject>,
    /// Sector sizes, with each of which every cipher is measured.
    pub sector_sizes: Vec<SectorSize>,
    /// Records of AES-GCM, of which every length is measured.
    pub records: Vec<Records>,
    /// Time for which one figure is measured in one round.
    pub slice: Duration,
    /// Bytes of the buffer that is too large for every cache.
    pub cold_bytes: usize,
}

impl Plan {
    /// Sets every cipher up once, so that what cannot be measured is known before anything is.
    ///
    /// # Errors
    /// [`MeasureError::Cipher`], [`MeasureError::Records`].
    pub fn check(&self) -> Result<(), MeasureError> {
        for subject in &self.subjects {
            subject.cipher(SectorSize::S512)?;
        }
        for records in &self.records {
            records.key()?;
        }
        Ok(())
    }
}
