//! Changes of a LUKS header, with all others kept out from its reading to the last write.

use scrim_backend::{Backend, BackendError, Durability, HeaderLock, LockKind};
use scrim_luks::{ApplyError, Backup, Consent, Header, Plan, Target};

use crate::luks_device::{LuksDevice, LuksError, start_of};

/// A header device whose header no other program reads or writes until this is dropped.
///
/// Questions to the user and the unlocking of key slots come before it, by a [`LuksDevice`] that
/// [`HeaderSession::header`] then compares with what is there: others who wait for the lock give up
/// after some seconds. What takes time in it is to seal a key: as long as its key derivation is to
/// take.
pub struct HeaderSession<'a> {
    backend: &'a dyn Backend,
    _lock: HeaderLock,
}

impl<'a> HeaderSession<'a> {
    /// Takes the lock for writing, the one that cryptsetup takes too.
    ///
    /// # Errors
    /// When another program keeps it.
    pub fn start(backend: &'a dyn Backend) -> Result<Self, LuksError> {
        let lock = backend.lock_header(LockKind::Write)?;
        Ok(Self {
            backend,
            _lock: lock,
        })
    }

    /// The device that the header lies on.
    pub(crate) fn backend(&self) -> &'a dyn Backend {
        self.backend
    }

    /// The first `len` bytes of the device, or all if it has fewer.
    ///
    /// # Errors
    /// When the storage fails.
    pub fn bytes(&self, len: usize) -> Result<Vec<u8>, LuksError> {
        start_of(self.backend, len)
    }

    /// The header as it is now.
    ///
    /// # Errors
    /// When it cannot be read, or no copy of it can be trusted.
    pub fn read(&self) -> Result<LuksDevice, LuksError> {
        LuksDevice::read_locked(self.backend)
    }

    /// The header with its key slots area, as it is now.
    ///
    /// # Errors
    /// When it cannot be read, or no copy of it can be trusted.
    pub fn read_backup(&self) -> Result<Backup, LuksError> {
        LuksDevice::read_backup_locked(self.backend)
    }

    /// The header, to be changed: it must still be the one that was read `before`, so that what the
    /// user was asked is about the header that is changed.
    ///
    /// # Errors
    /// [`LuksError::Changed`]; [`LuksError::Ambiguous`] when a change would overwrite something that
    /// may not be a copy of this header.
    pub fn header(&self, before: &LuksDevice) -> Result<Header, LuksError> {
        let now = self.read()?;
        if now.consent() == Some(Consent::Ask) {
            return Err(LuksError::Ambiguous);
        }
        if !now.says_the_same_as(before) {
            return Err(LuksError::Changed);
        }
        Ok(now.into_header())
    }

    /// Carries out a plan for the header that was read in this session.
    ///
    /// # Errors
    /// When the storage fails. The plan's maker documents what may be on the device then; the header has
    /// to be read again.
    pub fn apply(&self, plan: &Plan) -> Result<(), LuksError> {
        apply(plan, self.backend)
    }
}

impl LuksDevice {
    /// Rewrites the worse copy of a LUKS2 header from the better one, where a crash or an older program
    /// left them different, as cryptsetup does when it opens a volume. Returns whether it did.
    ///
    /// # Errors
    /// When the storage fails, or the header cannot be read again.
    pub fn repair(backend: &dyn Backend) -> Result<bool, LuksError> {
        let session = HeaderSession::start(backend)?;
        // Another program may have repaired it since.
        let now = session.read()?;
        if !now.needs_repair() {
            return Ok(false);
        }
        let Some(plan) = now.repair_plan()? else {
            return Ok(false);
        };
        session.apply(&plan)?;
        Ok(true)
    }

    /// Writes a new header by a plan, under the lock.
    ///
    /// # Errors
    /// When the storage fails.
    pub fn write(plan: &Plan, backend: &dyn Backend) -> Result<(), LuksError> {
        HeaderSession::start(backend)?.apply(plan)
    }
}

fn apply(plan: &Plan, backend: &dyn Backend) -> Result<(), LuksError> {
    struct Sink<'a>(&'a dyn Backend);
    impl Target for Sink<'_> {
        type Error = BackendError;
        fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<(), BackendError> {
            self.0.write_at(offset, bytes, Durability::Cached)
        }
        fn sync(&mut self) -> Result<(), BackendError> {
            self.0.flush()
        }
    }
    apply_to(plan, &mut Sink(backend))
}

/// Carries out a plan on storage that places its writes itself.
pub(crate) fn apply_to<T>(plan: &Plan, target: &mut T) -> Result<(), LuksError>
where
    T: Target<Error = BackendError>,
{
    plan.apply(target).map_err(|error| match error {
        ApplyError::Target(error) => LuksError::Backend(error),
        ApplyError::Random(error) => LuksError::Random(std::io::Error::other(error)),
    })
}
