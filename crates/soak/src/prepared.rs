//! Devices as operations find them, and what some of them are given.

use scrim_backend::Backend;
use scrim_crypt::SectorSize;
use scrim_luks::{Edit, Token};

use crate::changes::{edit, write};
use crate::luks::{COPY, PASSPHRASES, Refused, add_key, format1, format2, refused};

const FIRST: &str = PASSPHRASES[0];
const SECOND: &str = PASSPHRASES[1];

/// A LUKS2 header of the usual layout.
pub(crate) fn luks2(disk: &dyn Backend, number: u8, passphrase: &str) -> Result<(), Refused> {
    format2(disk, number, passphrase, SectorSize::S512, COPY)
}

/// Makes a LUKS1 header with two keys, the second in the slot that is given.
pub(crate) fn two_keys1(disk: &dyn Backend, slot: u8) -> Result<(), Refused> {
    format1(disk, 0, FIRST)?;
    add_key(disk, 0, SECOND, Some(slot))
}

/// Makes a LUKS2 header with two keys; there is room for no more.
pub(crate) fn two_keys2(disk: &dyn Backend) -> Result<(), Refused> {
    luks2(disk, 0, FIRST)?;
    add_key(disk, 0, SECOND, None)
}

/// Makes a LUKS1 header with all eight key slots in use.
pub(crate) fn full1(disk: &dyn Backend) -> Result<(), Refused> {
    format1(disk, 0, FIRST)?;
    (1..8).try_for_each(|slot| add_key(disk, 0, SECOND, Some(slot)))
}

/// Two copies that are both whole and have one sequence number.
pub(crate) fn differing_copies(disk: &dyn Backend) -> Result<(), Refused> {
    luks2(disk, 0, FIRST)?;
    let (primary, secondary) = (copy_at(disk, 0)?, copy_at(disk, COPY)?);
    edit(disk, &[label("one")])?;
    let one = copy_at(disk, COPY)?;
    write(disk, 0, &primary)?;
    write(disk, COPY, &secondary)?;
    edit(disk, &[label("other")])?;
    write(disk, COPY, &one)
}

pub(crate) fn new_uuid() -> Edit {
    Edit::Uuid(Some("5d6f14e6-0d2c-4d6b-9c0a-5f1d1f6f3a77".to_owned()))
}

pub(crate) fn label(text: &str) -> Edit {
    Edit::Label(text.to_owned())
}

pub(crate) fn new_token() -> Edit {
    let token = Token::keyring("a key", &[0]);
    Edit::AddToken { id: 3, token }
}

/// Nothing but the signature at the end of an MBR.
pub(crate) fn boot_sector() -> [u8; 512] {
    let mut sector = [0; 512];
    sector[510..].copy_from_slice(&[0x55, 0xaa]);
    sector
}

/// One copy of a LUKS2 header.
pub(crate) fn copy_at(disk: &dyn Backend, offset: u64) -> Result<Vec<u8>, Refused> {
    let mut bytes = vec![0; usize::try_from(COPY).map_err(refused)?];
    disk.read_at(offset, &mut bytes).map_err(refused)?;
    Ok(bytes)
}
