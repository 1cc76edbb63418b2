//! The volume that a history has, and how it is opened.

use std::sync::{Arc, OnceLock};

use scrim_backend::Backend;
use scrim_backend::sim::SimBackend;
use scrim_crypt::SectorSize;
use scrim_luks::{HeaderError, Placement};
use scrim_seeded::Random;
use scrim_volume::{CryptTable, LuksDevice, LuksError, OpenFlags, Volume};

use crate::luks::{self, COPY, LUKS1_DATA, PASSPHRASES, Refused, luks2_data, refused};
use crate::way::Way;

/// Key slots for which a LUKS2 header has room.
const ROOM: u64 = 3;
const LUKS2_DATA: u64 = luks2_data(COPY, ROOM);

/// Bytes from which on a volume splits a request over processors.
pub(crate) const LONG: usize = 512 << 10;

/// The header in front of the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Front {
    /// No header: the table is known.
    Nothing,
    Luks1,
    Luks2,
}

/// Layout of a volume that is still to be made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fixture {
    pub(crate) front: Front,
    /// The encryption sector, in bytes.
    pub(crate) sector_size: usize,
    /// Size of the volume, in bytes: whole blocks of 4096.
    pub(crate) size: usize,
}

impl Fixture {
    pub(crate) fn choose(random: &mut Random) -> Self {
        let front = match random.below(96) {
            0 => Front::Luks1,
            1 => Front::Luks2,
            _ => Front::Nothing,
        };
        let sector_size = match front {
            Front::Luks1 => 512,
            _ if random.one_in(2) => 512,
            _ => 4096,
        };
        // Some are longer than what a volume writes at once.
        let most = if random.one_in(4) { 20 } else { 6 };
        #[allow(clippy::cast_possible_truncation, reason = "below 20")]
        let mut blocks = 4 + random.below(most) as usize;
        if front == Front::Nothing && random.one_in(64) {
            blocks += LONG / 4096;
        }
        Self {
            front,
            sector_size,
            size: blocks * 4096,
        }
    }

    /// Offset of the data on the disk, in bytes.
    fn start(self) -> u64 {
        match self.front {
            Front::Nothing => 8 * 512,
            Front::Luks1 => LUKS1_DATA,
            Front::Luks2 => LUKS2_DATA,
        }
    }

    /// A disk with this volume on it.
    pub(crate) fn disk(self, seed: u64) -> Result<SimBackend, Refused> {
        let size = self.start() + self.size as u64;
        let header: &[u8] = match (self.front, self.sector_size) {
            (Front::Nothing, _) => return Ok(SimBackend::new(size, seed)),
            (Front::Luks1, _) => {
                static HEADER: OnceLock<Result<Vec<u8>, Refused>> = OnceLock::new();
                kept(&HEADER, || {
                    header(LUKS1_DATA, |disk| luks::format1(disk, 0, PASSPHRASES[0]))
                })?
            }
            (Front::Luks2, 512) => {
                static HEADER: OnceLock<Result<Vec<u8>, Refused>> = OnceLock::new();
                kept(&HEADER, || {
                    header(LUKS2_DATA, |disk| format2(disk, SectorSize::S512))
                })?
            }
            (Front::Luks2, _) => {
                static HEADER: OnceLock<Result<Vec<u8>, Refused>> = OnceLock::new();
                kept(&HEADER, || {
                    header(LUKS2_DATA, |disk| format2(disk, SectorSize::S4096))
                })?
            }
        };
        let mut bytes = header.to_vec();
        bytes.resize(usize::try_from(size).map_err(refused)?, 0);
        Ok(SimBackend::holding(&bytes, seed))
    }

    /// Opens the volume, as `scrim open` does; where no passphrase opens it any more, by the table
    /// that it always had.
    pub(crate) fn open(self, backend: &Arc<dyn Backend>) -> Result<Volume, Refused> {
        self.open_in(Way::default(), backend)
    }

    /// The same, in a way of its own; flags are for those that have no header.
    pub(crate) fn open_in(self, way: Way, backend: &Arc<dyn Backend>) -> Result<Volume, Refused> {
        let unlocked = match self.front {
            Front::Nothing => None,
            Front::Luks1 | Front::Luks2 => unlock(&**backend)?,
        };
        let table = match unlocked {
            Some(table) => table,
            None => self.table(way)?,
        };
        Volume::start(table, way.path, |_| Ok(Arc::clone(backend))).map_err(refused)
    }

    /// The table of this volume, whatever its header says.
    pub(crate) fn table(self, way: Way) -> Result<CryptTable, Refused> {
        CryptTable::parse(&self.line(way)).map_err(refused)
    }

    fn line(self, way: Way) -> String {
        let (sectors, start) = (self.size / 512, self.start() / 512);
        let key = luks::volume_key(0);
        let key = key.expose().iter();
        let key: String = key.map(|byte| format!("{byte:02x}")).collect();
        let options = match self.sector_size {
            512 => format!("allow_discards {}", way.flags),
            size => format!("allow_discards sector_size:{size} {}", way.flags),
        };
        let count = options.split_whitespace().count();
        format!("0 {sectors} crypt aes-xts-plain64 {key} 0 /disk {start} {count} {options}")
    }
}

/// Mends the header and unlocks it by the first passphrase that opens it, if any does.
fn unlock(backend: &dyn Backend) -> Result<Option<CryptTable>, Refused> {
    let device = match LuksDevice::read(backend) {
        Ok(device) => device,
        Err(LuksError::Header(HeaderError::NotLuks)) => return Ok(None),
        Err(error) => return Err(refused(error)),
    };
    if device.needs_repair() {
        LuksDevice::repair(backend).map_err(refused)?;
    }
    for passphrase in PASSPHRASES {
        if let Some(key) = luks::unlock(&device, backend, None, passphrase)? {
            let flags = OpenFlags {
                allow_discards: true,
                ..OpenFlags::default()
            };
            let len = backend.info().size;
            let table = device.table(key, "/disk", len, Placement::Attached, flags);
            return table.map(Some).map_err(refused);
        }
    }
    Ok(None)
}

fn format2(disk: &dyn Backend, sector_size: SectorSize) -> Result<(), Refused> {
    luks::format2_with_room(disk, 0, PASSPHRASES[0], sector_size, COPY, ROOM)
}

/// Returns a header of `len` bytes, as it is on the medium.
fn header(
    len: u64,
    format: impl FnOnce(&dyn Backend) -> Result<(), Refused>,
) -> Result<Vec<u8>, Refused> {
    let disk = SimBackend::new(len + 4096, 0);
    format(&disk)?;
    let mut bytes = disk.contents();
    bytes.truncate(usize::try_from(len).map_err(refused)?);
    Ok(bytes)
}

fn kept(
    place: &'static OnceLock<Result<Vec<u8>, Refused>>,
    make: impl FnOnce() -> Result<Vec<u8>, Refused>,
) -> Result<&'static [u8], Refused> {
    match place.get_or_init(make) {
        Ok(bytes) => Ok(bytes),
        Err(error) => Err(error.clone()),
    }
}
