//! Conversion from LUKS1 to LUKS2 and back, without a passphrase: the same key slots and digest, in the
//! other layout.
//!
//! A cut leaves the header of the one version or of the other, with all its keys. Key material
//! stays where it lies. Only what lies where LUKS2 has its two headers, in practice LUKS1's slot 0,
//! moves first, to the area of a free slot or to a gap before the data, and the LUKS1 header follows
//! in one sector.
//!
//! * *To LUKS2*: the secondary is written while the LUKS1 header is in force. Then one sector takes
//!   the LUKS1 magic away and makes the secondary the only header; the rest of the primary follows.
//! * *To LUKS1*: the header's second sector breaks the primary, so that the secondary is in force;
//!   then the first sector puts the LUKS1 magic in place. The secondary goes last.

use std::error::Error;
use std::fmt;

use crate::error::Unsupported;
use crate::format::{Formatted, WriteError};
use crate::header::Header;
use crate::luks1;
use crate::plan::Plan;

impl Header {
    /// Converts a LUKS1 header. `device` is the first [`Header::backup_len`] bytes of the header
    /// device, which has `device_len` bytes.
    ///
    /// # Errors
    /// [`ConvertError`]; nothing has been written.
    pub fn convert_to_luks2(
        &self,
        device: &[u8],
        device_len: u64,
    ) -> Result<Formatted, ConvertError> {
        let Self::Luks1(header) = self else {
            return Err(ConvertError::Already(2));
        };
        let (header, steps) = header.to_luks2(device, device_len)?;
        Ok(Formatted {
            header: Self::Luks2(header),
            plan: Plan::new(steps),
        })
    }

    /// Converts a LUKS2 header of which LUKS1 can express everything.
    ///
    /// # Errors
    /// [`ConvertError`]; nothing has been written.
    pub fn convert_to_luks1(&self) -> Result<Formatted, ConvertError> {
        let Self::Luks2(header) = self else {
            return Err(ConvertError::Already(1));
        };
        self.check_editable()?;
        let (header, steps): (luks1::Header, _) = header.to_luks1()?;
        Ok(Formatted {
            header: Self::Luks1(header),
            plan: Plan::new(steps),
        })
    }
}

/// Why a header cannot be converted.
#[derive(Debug)]
pub enum ConvertError {
    /// The header already has that version.
    Already(u16),
    /// LUKS1 has no equivalent of a key slot.
    Keyslot {
        /// The key slot.
        slot: u8,
        /// Obstacle, worded to follow the key slot, as in "key slot 3 …".
        why: &'static str,
    },
    /// LUKS1 has no equivalent of something in the header.
    Header {
        /// Obstacle, worded to follow the header, as in "the header …".
        why: &'static str,
    },
    /// There is no room for the other layout.
    NoRoom {
        /// Bytes that are needed in one piece before the data.
        need: u64,
    },
    /// A cipher or requirement that Scrim does not have.
    Unsupported(Unsupported),
    /// The header cannot be written.
    Write(WriteError),
}

impl fmt::Display for ConvertError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Already(version) => write!(f, "the header is LUKS{version} already"),
            Self::Keyslot { slot, why } => write!(
                f,
                "key slot {slot} {why}, which the other version of LUKS cannot say: change or \
                 remove it first"
            ),
            Self::Header { why } => write!(
                f,
                "the header {why}, which the other version of LUKS cannot say: change that first"
            ),
            Self::NoRoom { need } => write!(
                f,
                "there is no room of {need} bytes before the data to move a key slot to without \
                 risk: remove one of key slots 1 to 5 first, and add it again when the header is \
                 converted"
            ),
            Self::Unsupported(error) => error.fmt(f),
            Self::Write(error) => error.fmt(f),
        }
    }
}

impl Error for ConvertError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Unsupported(error) => Some(error),
            Self::Write(error) => Some(error),
            _ => None,
        }
    }
}

impl From<Unsupported> for ConvertError {
    fn from(error: Unsupported) -> Self {
        Self::Unsupported(error)
    }
}

impl From<WriteError> for ConvertError {
    fn from(error: WriteError) -> Self {
        Self::Write(error)
    }
}
