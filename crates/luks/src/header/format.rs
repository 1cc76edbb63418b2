//! New headers of either version.

use scrim_sys::memory::SecretBytes;

use super::Header;
use crate::error::FormatError;
use crate::key::VolumeKey;
use crate::on_disk::{luks1, luks2};
use crate::plan::Plan;
use crate::underway::Underway;

/// A new header, and how to write it.
#[derive(Debug)]
#[must_use = "a header that is made has yet to be written"]
pub struct Formatted {
    /// The header as it will be read.
    pub header: Header,
    /// The plan that writes it.
    pub plan: Plan,
}

/// Makes a LUKS1 header for `key`, with one key slot that `passphrase` opens.
///
/// The plan overwrites whatever header was there and its key material. A crash at any point leaves
/// the old header whole, no header, or the new one whole: the old header is gone before the first
/// byte of key material changes, and the new magic comes last, in one sector, when everything else
/// is durable.
///
/// # Errors
/// [`FormatError`]; nothing has been written.
pub fn format_luks1(
    spec: &luks1::FormatSpec,
    key: &VolumeKey,
    passphrase: &SecretBytes,
) -> Result<Formatted, FormatError> {
    let (header, plan) = luks1::make(spec, key, passphrase)?;
    let header = Header::Luks1(header);
    Ok(Formatted { header, plan })
}

/// Makes a LUKS2 header for `key`, with one key slot that `passphrase` opens.
///
/// The plan overwrites whatever header was there and its key material. A crash at any point leaves
/// the old header whole, no header, or the new one whole: the old copies are gone before the first
/// byte of key material changes, the key slots area is durable before the first new copy is
/// written, and that is the secondary, which without a primary is found only when it is whole.
///
/// # Errors
/// [`FormatError`]; nothing has been written.
pub fn format_luks2(
    spec: &luks2::FormatSpec,
    key: &VolumeKey,
    passphrase: &SecretBytes,
) -> Result<Formatted, FormatError> {
    make_luks2(spec, None, key, passphrase)
}

/// As [`luks2::format`](crate::luks2::format), for data that is yet to be encrypted where it lies: until that is
/// finished every program refuses the volume.
///
/// # Errors
/// [`FormatError`]; nothing has been written.
pub fn format_luks2_underway(
    spec: &luks2::FormatSpec,
    underway: &Underway,
    key: &VolumeKey,
    passphrase: &SecretBytes,
) -> Result<Formatted, FormatError> {
    make_luks2(spec, Some(underway), key, passphrase)
}

fn make_luks2(
    spec: &luks2::FormatSpec,
    underway: Option<&Underway>,
    key: &VolumeKey,
    passphrase: &SecretBytes,
) -> Result<Formatted, FormatError> {
    let (header, plan) = luks2::make(spec, underway, key, passphrase)?;
    let header = Header::Luks2(header);
    Ok(Formatted { header, plan })
}
