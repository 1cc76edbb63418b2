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

use super::Header;
use super::format::Formatted;
use crate::error::ConvertError;
use crate::on_disk::luks2;
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
        let end = header.end_of_room(device_len);
        let (moved, mut steps) = header.make_way(luks2::CONVERTED_COPIES, end, device)?;
        let uuid = header.uuid();
        let converted = luks2::Header::from_luks1(moved.metadata(), uuid.raw(), end)?;
        steps.extend(converted.replace_luks1()?);
        Ok(Formatted {
            header: Self::Luks2(converted),
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
        let (header, steps) = header.to_luks1()?;
        Ok(Formatted {
            header: Self::Luks1(header),
            plan: Plan::new(steps),
        })
    }
}
