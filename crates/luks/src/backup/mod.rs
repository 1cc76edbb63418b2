//! Header backups: the bytes that `cryptsetup luksHeaderBackup` saves, and putting them back.

mod error;
mod restore;

pub use error::{BackupError, RestoreError};
pub use restore::{Restore, RestoreNote};

use crate::finding::Finding;
use crate::header::{Header, Parsed};
use crate::layout::{BLOCK, align_up};

/// A header with its key slots area, checked. With it, a passphrase that was valid when it was made
/// opens the volume.
#[derive(Debug)]
pub struct Backup {
    header: Header,
    findings: Vec<Finding>,
    bytes: Vec<u8>,
}

impl Header {
    /// Number of bytes from the start of the header device that a backup holds: the header and its key
    /// slots area.
    #[must_use]
    pub fn backup_len(&self) -> u64 {
        align_up(self.header_end(), BLOCK)
    }

    /// Makes a backup of `bytes`, the first [`Header::backup_len`] bytes of the header device.
    ///
    /// What is neither header nor key slot, between a LUKS1 header and its first key slot area, is
    /// zeroed, as in cryptsetup: it may be the remains of something else.
    ///
    /// # Errors
    /// [`BackupError`]: the bytes are not those of this header.
    pub fn backup(&self, mut bytes: Vec<u8>) -> Result<Backup, BackupError> {
        let between = match self {
            Self::Luks1(header) => header.between_header_and_keyslots(),
            Self::Luks2(_) => 0..0,
        };
        if let Some(between) = bytes.get_mut(between) {
            between.fill(0);
        }
        let backup = Backup::parse(bytes)?;
        let same = match (self, &backup.header) {
            (Self::Luks1(this), Self::Luks1(that)) => this.same_as(that),
            (Self::Luks2(this), Self::Luks2(that)) => this.same_as(that),
            _ => false,
        };
        same.then_some(backup).ok_or(BackupError::Changed)
    }
}

impl Backup {
    /// Checks the whole content of a backup file.
    ///
    /// # Errors
    /// [`BackupError`]: no header in it can be trusted, or it has another length.
    pub fn parse(bytes: Vec<u8>) -> Result<Self, BackupError> {
        let have = bytes.len() as u64;
        let parsed = Parsed::of(&bytes)?;
        let need = parsed.header.backup_len();
        if have != need {
            return Err(BackupError::Length { need, have });
        }
        let parsed = parsed.usable(have)?;
        Ok(Self {
            header: parsed.header,
            findings: parsed.findings,
            bytes,
        })
    }

    /// The header in the backup.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Faults of the header that do not prevent its use.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// The content of a backup file.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}
