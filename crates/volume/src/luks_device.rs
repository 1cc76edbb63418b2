//! A LUKS header on a backend: reading it, unlocking it, and the table that it becomes.

use std::fmt;
use std::io;

use scrim_backend::{Backend, BackendError, LockKind};
use scrim_luks::kdf::{KdfGuard, Unguarded};
use scrim_luks::{
    Backup, BackupError, Consent, DataError, Finding, HEADER_AREA_MAX, Header, HeaderCopy,
    HeaderError, Keyslot, Parsed, Placement, Plan, UnlockError, Unsupported, VolumeKey, WriteError,
    dump,
};
use scrim_sys::memory::SecretBytes;

use crate::open_flags::OpenFlags;
use crate::table::{CryptOptions, CryptSpec, CryptTable, Line, SECTOR, TableError, TargetSpec};

/// A checked LUKS header, as it was on its device when it was read.
pub struct LuksDevice {
    parsed: Parsed,
}

/// The key of a volume, and the key slot that had it.
pub struct Unlocked {
    /// The key slot that the passphrase opened.
    pub slot: u8,
    pub key: VolumeKey,
}

impl LuksDevice {
    /// Reads and checks the header, under the lock that cryptsetup takes too.
    ///
    /// # Errors
    /// When it cannot be read, or no copy of it can be trusted.
    pub fn read(backend: &dyn Backend) -> Result<Self, LuksError> {
        let _lock = backend.lock_header(LockKind::Read)?;
        Self::read_locked(backend)
    }

    pub(crate) fn read_locked(backend: &dyn Backend) -> Result<Self, LuksError> {
        let area = start_of(backend, HEADER_AREA_MAX)?;
        let parsed = Header::parse(&area, backend.info().size)?;
        Ok(Self { parsed })
    }

    /// Reads the first `len` bytes of a device, or all if it has fewer, under the lock: for bytes that
    /// are not a header, or may not be one.
    ///
    /// # Errors
    /// When the storage fails.
    pub fn read_area(backend: &dyn Backend, len: usize) -> Result<Vec<u8>, LuksError> {
        let _lock = backend.lock_header(LockKind::Read)?;
        start_of(backend, len)
    }

    /// Reads the header with its key slots area, as `cryptsetup luksHeaderBackup` saves it.
    ///
    /// # Errors
    /// When it cannot be read, or no copy of it can be trusted.
    pub fn read_backup(backend: &dyn Backend) -> Result<Backup, LuksError> {
        let _lock = backend.lock_header(LockKind::Read)?;
        Self::read_backup_locked(backend)
    }

    pub(crate) fn read_backup_locked(backend: &dyn Backend) -> Result<Backup, LuksError> {
        let header = Self::read_locked(backend)?.into_header();
        let len = usize::try_from(header.backup_len()).unwrap_or(usize::MAX);
        Ok(header.backup(start_of(backend, len)?)?)
    }

    /// A header that was just made, and need not be on its device yet.
    #[must_use]
    pub fn of(header: Header) -> Self {
        Self {
            parsed: Parsed {
                header,
                findings: Vec::new(),
                repair: None,
            },
        }
    }

    /// Returns the header; of two copies the better one.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.parsed.header
    }

    /// Returns the defects of the header that do not prevent its use.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.parsed.findings
    }

    /// Returns whether [`LuksDevice::repair`] has something to do: a copy is older or torn, and nothing else lies
    /// in its place.
    #[must_use]
    pub fn needs_repair(&self) -> bool {
        self.consent() == Some(Consent::NotNeeded)
    }

    /// Makes the plan of a repair.
    ///
    /// # Errors
    /// When the better copy cannot be written as it is.
    pub(crate) fn repair_plan(&self) -> Result<Option<Plan>, LuksError> {
        Ok(self.parsed.repair_plan()?)
    }

    /// Checks whether the copy that should be rewritten may be, if there is one.
    pub(crate) fn consent(&self) -> Option<Consent> {
        self.parsed.repair.map(|repair| repair.consent)
    }

    /// Returns the copy that should be rewritten, if there is one.
    pub(crate) fn worse_copy(&self) -> Option<HeaderCopy> {
        self.parsed.repair.map(|repair| repair.copy)
    }

    /// Returns whether both headers say the same, to the last unknown member.
    pub(crate) fn says_the_same_as(&self, other: &Self) -> bool {
        dump::json(self.header()) == dump::json(other.header())
    }

    /// Returns the header, of two copies the better one, without the findings on it.
    #[must_use]
    pub fn into_header(self) -> Header {
        self.parsed.header
    }

    /// Tries the passphrase on the given key slot, or on all in their order.
    ///
    /// # Errors
    /// [`LuksError::NoKey`] when no slot opens; another error when a slot could not be tried and
    /// none of the others opened.
    pub fn unlock(
        &self,
        backend: &dyn Backend,
        slot: Option<u8>,
        passphrase: &SecretBytes,
    ) -> Result<Unlocked, LuksError> {
        self.unlock_guarded(backend, slot, passphrase, &Unguarded)
    }

    /// As [`LuksDevice::unlock`], under the control of `guard`: of several key slots each is tried only
    /// if the guard allows it.
    ///
    /// # Errors
    /// As for [`LuksDevice::unlock`], and the guard's error.
    pub fn unlock_guarded(
        &self,
        backend: &dyn Backend,
        slot: Option<u8>,
        passphrase: &SecretBytes,
        guard: &dyn KdfGuard,
    ) -> Result<Unlocked, LuksError> {
        let header = self.header();
        let slots = header.keyslots_to_try(slot)?;
        let opened = first_that_opens(slots, |id| {
            self.try_keyslot(backend, id, guard, |material| {
                header.unlock_guarded(id, material, passphrase, guard)
            })
        });
        opened?.ok_or(LuksError::NoKey { slot })
    }

    /// Tries the passphrase on one key slot, whatever key it holds: an unbound one too.
    ///
    /// # Errors
    /// As for [`LuksDevice::unlock`].
    pub fn unlock_keyslot(
        &self,
        backend: &dyn Backend,
        slot: u8,
        passphrase: &SecretBytes,
    ) -> Result<Unlocked, LuksError> {
        self.unlock_keyslot_guarded(backend, slot, passphrase, &Unguarded)
    }

    /// Tries the passphrase on all key slots, those too that do not hold the volume key, under the control
    /// of `guard`.
    ///
    /// # Errors
    /// As for [`LuksDevice::unlock_guarded`].
    pub fn unlock_any_keyslot_guarded(
        &self,
        backend: &dyn Backend,
        passphrase: &SecretBytes,
        guard: &dyn KdfGuard,
    ) -> Result<Unlocked, LuksError> {
        let header = self.header();
        let slots = header.keyslots().iter().map(|slot| slot.id);
        let opened = first_that_opens(slots, |id| {
            self.try_keyslot(backend, id, guard, |material| {
                header.unlock_keyslot_guarded(id, material, passphrase, guard)
            })
        });
        opened?.ok_or(LuksError::NoKey { slot: None })
    }

    /// As [`LuksDevice::unlock_keyslot`], under the control of `guard`.
    ///
    /// # Errors
    /// As for [`LuksDevice::unlock_guarded`].
    pub fn unlock_keyslot_guarded(
        &self,
        backend: &dyn Backend,
        slot: u8,
        passphrase: &SecretBytes,
        guard: &dyn KdfGuard,
    ) -> Result<Unlocked, LuksError> {
        let unlock = |material: &[u8]| {
            let header = self.header();
            header.unlock_keyslot_guarded(slot, material, passphrase, guard)
        };
        match self.try_keyslot(backend, slot, guard, unlock) {
            Ok(key) => Ok(Unlocked { slot, key }),
            Err(LuksError::Unlock(UnlockError::WrongPassphrase { slot })) => {
                Err(LuksError::NoKey { slot: Some(slot) })
            }
            Err(other) => Err(other),
        }
    }

    fn try_keyslot(
        &self,
        backend: &dyn Backend,
        slot: u8,
        guard: &dyn KdfGuard,
        unlock: impl FnOnce(&[u8]) -> Result<VolumeKey, UnlockError>,
    ) -> Result<VolumeKey, LuksError> {
        let mut keyslots = self.header().keyslots().iter();
        let keyslot: &Keyslot = keyslots
            .find(|keyslot| keyslot.id == slot)
            .ok_or(UnlockError::UnusedKeyslot { slot })?;
        let range = keyslot.material();
        // A parsed header's ranges are in order and of bounded length.
        let len = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(0);
        let mut material = vec![0; len];
        // A slow server has a time for each read.
        guard
            .go_on()
            .map_err(|source| UnlockError::Kdf { slot, source })?;
        backend.read_at(range.start, &mut material)?;
        Ok(unlock(&material)?)
    }

    /// Returns the table that the header becomes with its key: one crypt target over the data of
    /// `device`, which has `device_len` bytes.
    ///
    /// # Errors
    /// When header and device do not fit each other, or the header asks for a feature that Scrim does not have.
    pub fn table(
        &self,
        key: VolumeKey,
        device: &str,
        device_len: u64,
        placement: Placement,
        flags: OpenFlags,
    ) -> Result<CryptTable, LuksError> {
        let header = self.header();
        let segment = header.data_segment()?;
        let extent = segment.extent(placement, device_len)?;
        let target = CryptSpec {
            options: CryptOptions::new(segment.sector_size).with_flags(flags.and_those_of(header)),
            // The header's key is of no use to the null cipher, whose own is empty.
            key: if segment.cipher.is_null() {
                VolumeKey::new(SecretBytes::zeroed(0))
            } else {
                key
            },
            cipher: segment.cipher,
            iv_offset: segment.iv_offset.0,
            device: device.to_owned(),
            offset: extent.start / SECTOR,
        };
        let line = Line {
            start: 0,
            len: (extent.end - extent.start) / SECTOR,
            target: TargetSpec::Crypt(Box::new(target)),
        };
        Ok(CryptTable::from_lines(vec![line])?)
    }
}

/// The first key slot that `attempt` opens; `None` if the passphrase is wrong for all of them. A slot that cannot be tried
/// leaves the others to try.
fn first_that_opens(
    slots: impl IntoIterator<Item = u8>,
    mut attempt: impl FnMut(u8) -> Result<VolumeKey, LuksError>,
) -> Result<Option<Unlocked>, LuksError> {
    let mut untried = None;
    for slot in slots {
        match attempt(slot) {
            Ok(key) => return Ok(Some(Unlocked { slot, key })),
            Err(LuksError::Unlock(UnlockError::WrongPassphrase { .. })) => {}
            Err(LuksError::Unlock(error)) if error.is_the_end() => return Err(error.into()),
            Err(other) => untried = Some(other),
        }
    }
    untried.map_or(Ok(None), Err)
}

/// Reads the first `len` bytes of a device, or all if it has fewer.
pub(crate) fn start_of(backend: &dyn Backend, len: usize) -> Result<Vec<u8>, LuksError> {
    let size = backend.info().size;
    let mut bytes = vec![0; usize::try_from(size).map_or(len, |size| size.min(len))];
    backend.read_at(0, &mut bytes)?;
    Ok(bytes)
}

/// Reason why a LUKS volume cannot be opened, made or changed.
#[derive(Debug)]
pub enum LuksError {
    /// The header device failed.
    Backend(BackendError),
    /// There is no header that can be trusted.
    Header(HeaderError),
    /// No key slot opens with this passphrase.
    NoKey {
        /// The only slot that was tried; `None` when all were.
        slot: Option<u8>,
    },
    /// A key slot could not be tried.
    Unlock(UnlockError),
    /// The header asks for a feature that Scrim does not have.
    Unsupported(Unsupported),
    /// Header and data device do not fit each other.
    Data(DataError),
    /// The header's numbers do not make a table.
    Table(TableError),
    /// The header cannot be written.
    Write(WriteError),
    /// The operating system gave no random bytes.
    Random(io::Error),
    /// The bytes of the header do not make a backup.
    Backup(BackupError),
    /// The header is no longer the one that was read before.
    Changed,
    /// A copy of the header should be repaired, and only the user can decide that.
    Ambiguous,
}

impl fmt::Display for LuksError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Backend(error) => error.fmt(f),
            Self::Header(error) => error.fmt(f),
            Self::NoKey { slot: None } => f.write_str("no key available with this passphrase"),
            Self::NoKey { slot: Some(slot) } => {
                write!(f, "the passphrase does not open key slot {slot}")
            }
            Self::Unlock(error) => error.fmt(f),
            Self::Unsupported(error) => error.fmt(f),
            Self::Data(error) => error.fmt(f),
            Self::Table(error) => error.fmt(f),
            Self::Write(error) => error.fmt(f),
            Self::Random(error) => write!(f, "no random bytes from the system: {error}"),
            Self::Backup(error) => error.fmt(f),
            Self::Changed => f.write_str(
                "another program has changed the header meanwhile; nothing was written: look at \
                 it, then try again",
            ),
            Self::Ambiguous => f.write_str(
                "one copy of the header is not to be trusted, and a change would overwrite it; \
                 nothing was written: repair the header first",
            ),
        }
    }
}

impl std::error::Error for LuksError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(match self {
            Self::Backend(error) => error,
            Self::Header(error) => error,
            Self::NoKey { .. } | Self::Changed | Self::Ambiguous => return None,
            Self::Unlock(error) => error,
            Self::Unsupported(error) => error,
            Self::Data(error) => error,
            Self::Table(error) => error,
            Self::Write(error) => error,
            Self::Random(error) => error,
            Self::Backup(error) => error,
        })
    }
}

macro_rules! from {
    ($($kind:ident($error:ty)),*) => {$(
        impl From<$error> for LuksError {
            fn from(error: $error) -> Self {
                Self::$kind(error)
            }
        }
    )*};
}

from!(
    Backend(BackendError),
    Header(HeaderError),
    Unlock(UnlockError),
    Unsupported(Unsupported),
    Data(DataError),
    Table(TableError),
    Write(WriteError),
    Backup(BackupError)
);
