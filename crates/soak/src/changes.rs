//! Changes of headers, as the program makes them: read, and then, under the lock, compared, changed
//! and written.

use std::sync::OnceLock;

use scrim_backend::sim::SimBackend;
use scrim_backend::{Backend, Durability};
use scrim_crypt::SectorSize;
use scrim_luks::kdf::{Argon2Cost, Hash, Kdf};
use scrim_luks::{
    Backup, Diagnosis, Edit, HEADER_AREA_MAX, Header, InPlace, LastKey, NewDigest, NewKeyslot,
    Placement, Plan, RestoreNote,
};
use scrim_volume::{HeaderSession, LuksDevice};

use crate::luks::{
    COPY, LUKS1_DATA, PASSPHRASES, Refused, add_key, format1, format2_with_room, luks2_data,
    new_keyslot, refused, secret, volume_key,
};

/// The headers here have the volume key of this number.
const NUMBER: u8 = 0;

/// Key slots for which there is room in a saved LUKS2 header.
const ROOM: u64 = 4;
/// Offset of its data.
pub(crate) const ROOMY_LUKS2_DATA: u64 = luks2_data(COPY, ROOM);

#[derive(Debug, Clone, Copy)]
pub(crate) enum Version {
    Luks1,
    Luks2,
}

impl Version {
    /// A backup of a header with the first passphrase in slot 0 and the second in slot 1, the same in
    /// every run: it is not on the disk.
    fn saved(self) -> Result<Backup, Refused> {
        static SAVED: [OnceLock<Result<Vec<u8>, Refused>>; 2] = [OnceLock::new(), OnceLock::new()];
        let [luks1, luks2] = &SAVED;
        let (saved, data) = match self {
            Self::Luks1 => (luks1, LUKS1_DATA),
            Self::Luks2 => (luks2, ROOMY_LUKS2_DATA),
        };
        let bytes = saved.get_or_init(|| {
            let disk = SimBackend::new(data + 4096, 0);
            let (first, size) = (PASSPHRASES[0], SectorSize::S512);
            match self {
                Self::Luks1 => format1(&disk, NUMBER, first)?,
                Self::Luks2 => format2_with_room(&disk, NUMBER, first, size, COPY, ROOM)?,
            }
            add_key(&disk, NUMBER, PASSPHRASES[1], None)?;
            let backup = LuksDevice::read_backup(&disk).map_err(refused)?;
            Ok(backup.bytes().to_vec())
        });
        Backup::parse(bytes.clone()?).map_err(refused)
    }
}

/// Puts the header that [`restore`] restores onto a device that is blank.
pub(crate) fn write_saved(disk: &dyn Backend, version: Version) -> Result<(), Refused> {
    write(disk, 0, version.saved()?.bytes())
}

/// Puts the saved header back.
pub(crate) fn restore(disk: &dyn Backend, version: Version) -> Result<(), Refused> {
    restore_backup(disk, &version.saved()?).map(drop)
}

/// Puts a backup back; the key slots that the user is told a power cut may take.
pub(crate) fn restore_backup(disk: &dyn Backend, backup: &Backup) -> Result<Vec<u8>, Refused> {
    let session = HeaderSession::start(disk).map_err(refused)?;
    let device = session.bytes(backup.restore_len()).map_err(refused)?;
    let restore = backup.restore(&device, disk.info().size, Placement::Attached);
    let restore = restore.map_err(refused)?;
    session.apply(&restore.plan).map_err(refused)?;
    let at_risk = restore.notes.into_iter().find_map(|note| match note {
        RestoreNote::AtRisk { slots } => Some(slots),
        _ => None,
    });
    Ok(at_risk.unwrap_or_default())
}

/// Seals the key of a slot by another passphrase. With `to` it is to have that number.
pub(crate) fn change_key(
    disk: &dyn Backend,
    slot: u8,
    passphrase: &str,
    to: Option<u8>,
    in_place: InPlace,
) -> Result<(), Refused> {
    reseal(disk, slot, passphrase, &new_keyslot(to), in_place).map(drop)
}

/// Gives slot 0, which the first passphrase opens, another key derivation.
pub(crate) fn convert_key(disk: &dyn Backend, kdf: Kdf) -> Result<(), Refused> {
    let new = NewKeyslot {
        kdf,
        ..new_keyslot(None)
    };
    reseal(disk, 0, PASSPHRASES[0], &new, InPlace::Refuse).map(drop)
}

/// More PBKDF2 iterations than a new key slot has.
pub(crate) const MORE_ITERATIONS: Kdf = Kdf::Pbkdf2 {
    hash: Hash::Sha256,
    iterations: 2,
};

/// The cheapest Argon2id that there is.
pub(crate) const ARGON2ID: Kdf = Kdf::Argon2id {
    cost: Argon2Cost {
        time: 1,
        memory_kib: 8,
        lanes: 1,
    },
};

/// Makes a key slot another one; those that the user is told a power cut may take.
pub(crate) fn reseal(
    disk: &dyn Backend,
    slot: u8,
    passphrase: &str,
    new: &NewKeyslot,
    in_place: InPlace,
) -> Result<Vec<u8>, Refused> {
    let mut at_risk = Vec::new();
    change(disk, |header, _| {
        let passphrase = secret(passphrase);
        let changed = header.change_keyslot(slot, &volume_key(NUMBER), &passphrase, new, in_place);
        let changed = changed.map_err(refused)?;
        at_risk.extend(changed.in_place.then_some(slot));
        Ok(changed.plan)
    })?;
    Ok(at_risk)
}

/// Adds a key slot for a key that is not the volume key.
pub(crate) fn add_unbound_key(disk: &dyn Backend, passphrase: &str) -> Result<(), Refused> {
    let digest = NewDigest {
        hash: Hash::Sha256,
        iterations: 1,
    };
    change(disk, |header, _| {
        let passphrase = secret(passphrase);
        let key = volume_key(NUMBER + 1);
        let added = header.add_unbound_keyslot(&key, &passphrase, &new_keyslot(None), digest);
        Ok(added.map_err(refused)?.plan)
    })
}

/// Removes a key slot, even if it is the last.
pub(crate) fn remove_key(disk: &dyn Backend, slot: u8) -> Result<(), Refused> {
    change(disk, |header, _| {
        header
            .remove_keyslots(&[slot], LastKey::Lose)
            .map_err(refused)
    })
}

/// Removes all key slots.
pub(crate) fn erase(disk: &dyn Backend) -> Result<(), Refused> {
    change(disk, |header, _| header.erase().map_err(refused))
}

/// Applies edits to a header.
pub(crate) fn edit(disk: &dyn Backend, edits: &[Edit]) -> Result<(), Refused> {
    change(disk, |header, _| header.edit(edits).map_err(refused))
}

/// Converts a header to the other version.
pub(crate) fn convert(disk: &dyn Backend) -> Result<(), Refused> {
    change(disk, |header, session| {
        let converted = match header {
            Header::Luks1(_) => {
                let len = usize::try_from(header.backup_len()).map_err(refused)?;
                let bytes = session.bytes(len).map_err(refused)?;
                header.convert_to_luks2(&bytes, disk.info().size)
            }
            Header::Luks2(_) => header.convert_to_luks1(),
        };
        Ok(converted.map_err(refused)?.plan)
    })
}

/// Mends a header, whatever is wrong with it: what has to be asked is answered with yes.
pub(crate) fn repair(disk: &dyn Backend) -> Result<(), Refused> {
    let session = HeaderSession::start(disk).map_err(refused)?;
    let area = session.bytes(HEADER_AREA_MAX).map_err(refused)?;
    let plan = Diagnosis::of(&area, disk.info().size).plan();
    let plan = plan
        .map_err(refused)?
        .ok_or("there was nothing to repair")?;
    session.apply(&plan).map_err(refused)
}

fn change(
    disk: &dyn Backend,
    make: impl FnOnce(&mut Header, &HeaderSession<'_>) -> Result<Plan, Refused>,
) -> Result<(), Refused> {
    let before = LuksDevice::read(disk).map_err(refused)?;
    let session = HeaderSession::start(disk).map_err(refused)?;
    let mut header = session.header(&before).map_err(refused)?;
    let plan = make(&mut header, &session)?;
    session.apply(&plan).map_err(refused)
}

/// Writes bytes to the device, and flushes it.
pub(crate) fn write(disk: &dyn Backend, offset: u64, bytes: &[u8]) -> Result<(), Refused> {
    disk.write_at(offset, bytes, Durability::Cached)
        .and_then(|()| disk.flush())
        .map_err(refused)
}
