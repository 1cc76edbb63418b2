//! An image of a Ceph cluster as a [`Backend`].

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustix::io::Errno;
use scrim_rbd::{Cluster, Image, Mode, Settings};

use super::advice::{of_connecting, of_image, of_read_only};
use super::flushes::Flushes;
use super::name::RbdName;
use super::{RbdLock, RbdStatus, opening};
use crate::error::parse_name;
use crate::header_lock::HeaderGate;
use crate::{
    Access, Backend, BackendError, Durability, HeaderLock, Info, LockKind, Medium, Operation,
};

/// An image of a Ceph cluster as a backend.
pub struct RbdBackend {
    name: RbdName,
    /// The name in messages.
    place: String,
    /// Exchanged when an image that is only read is measured again: librbd does not tell it of a new size.
    image: RwLock<Arc<Image>>,
    read_only: bool,
    /// Size in bytes when it was last measured.
    size: AtomicU64,
    object_size: u64,
    /// True once the cluster has refused a request because another client has the lock.
    lock_lost: AtomicBool,
    flushes: Flushes,
    header: HeaderGate,
}

impl RbdBackend {
    /// Opens an image. For writing, its exclusive lock is taken until the result is dropped. A snapshot can be opened
    /// for writing too: [`Backend::info`] tells. Connecting ends after `limit`; requests have no time limit.
    ///
    /// # Errors
    /// When this machine has no librbd, the cluster cannot be reached, there is no such image, or another client has
    /// its lock.
    pub fn open(name: &RbdName, access: Access, limit: Duration) -> Result<Self, BackendError> {
        let place = name.to_string();
        let cluster = Cluster::connect(Settings {
            conf: name.conf.as_deref(),
            id: name.id.as_deref(),
            limit,
        });
        let cluster = cluster.map_err(|error| of_connecting(&place, error))?;
        let pool = opening::pool(&cluster, name)?;
        let read_only = access == Access::ReadOnly || name.snapshot.is_some();
        let mode = match read_only {
            true => Mode::ReadOnly,
            false => Mode::ReadWrite,
        };
        let image = opening::image(&pool, name, mode)?;
        if !read_only {
            opening::lock(&image, name)?;
        }
        let stat = image
            .stat()
            .map_err(|error| of_image(Operation::Open, &place, error))?;
        Ok(Self {
            name: name.clone(),
            place,
            image: RwLock::new(Arc::new(image)),
            read_only,
            size: AtomicU64::new(stat.size),
            object_size: stat.object_size,
            lock_lost: AtomicBool::new(false),
            flushes: Flushes::default(),
            header: HeaderGate::default(),
        })
    }

    /// As [`RbdBackend::open`], for text that may be a name.
    ///
    /// # Errors
    /// As for [`RbdBackend::open`], and when the text is not a name.
    pub fn open_named(text: &str, access: Access, limit: Duration) -> Result<Self, BackendError> {
        Self::open(&parse_name(text)?, access, limit)
    }

    /// Refuses an operation that would have to write.
    ///
    /// # Errors
    /// When it was opened for reading only, or is a snapshot.
    pub fn check_writable(&self) -> Result<(), BackendError> {
        match self.read_only {
            true => Err(self.refuse(Operation::Open)),
            false => Ok(()),
        }
    }

    /// Refuses an image whose data is under two keys: a clone of a LUKS volume that has another header than this.
    ///
    /// # Errors
    /// When it is such a clone, or the cluster does not tell.
    pub fn check_parent(&self) -> Result<(), BackendError> {
        let image = self.image();
        let fail = |error| of_image(Operation::Open, &self.place, error);
        let Some(parent) = opening::luks_parent(&image).map_err(fail)? else {
            return Ok(());
        };
        if opening::luks_uuid(&image).map_err(fail)? == Some(parent.uuid) {
            return Ok(());
        }
        Err(self.mixed(&format!(
            "it is a clone of {}, a LUKS volume with another header: what was not written since is under that key; open \
             it by `rbd`'s own encryption, or, if all of it was written since, end the sharing with `rbd flatten`",
            parent.name
        )))
    }

    /// Refuses a new header on a clone of a LUKS volume: what the clone shares would be under another key.
    ///
    /// # Errors
    /// When it is such a clone, or the cluster does not tell.
    pub fn check_new_header(&self) -> Result<(), BackendError> {
        let fail = |error| of_image(Operation::Open, &self.place, error);
        match opening::luks_parent(&self.image()).map_err(fail)? {
            None => Ok(()),
            Some(parent) => Err(self.mixed(&format!(
                "it is a clone of {}, a LUKS volume, and what the two share would not fit a new header; make an \
                 image that is no clone with `rbd create`",
                parent.name
            ))),
        }
    }

    fn mixed(&self, text: &str) -> BackendError {
        let error = io::Error::new(io::ErrorKind::Unsupported, text);
        BackendError::new(Operation::Open, &self.place, error)
    }

    /// Returns the image's name.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Returns the state of the image, without asking the cluster, which may not answer.
    #[must_use]
    pub fn status(&self) -> RbdStatus {
        let lock = match (self.read_only, self.lock_lost.load(Ordering::Relaxed)) {
            (true, _) => RbdLock::Unneeded,
            (false, false) => RbdLock::Held,
            (false, true) => RbdLock::Lost,
        };
        RbdStatus {
            client: self.image().pool().cluster().client(),
            lock,
            object_size: self.object_size,
        }
    }

    fn image(&self) -> Arc<Image> {
        Arc::clone(&self.image.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn error(&self, operation: Operation, error: io::Error) -> BackendError {
        let number = error.raw_os_error().map(Errno::from_raw_os_error);
        if matches!(number, Some(Errno::SHUTDOWN | Errno::ROFS)) {
            self.lock_lost.store(true, Ordering::Relaxed);
        }
        of_image(operation, &self.place, error)
    }

    fn refuse(&self, operation: Operation) -> BackendError {
        of_read_only(operation, &self.place, self.name.snapshot.is_some())
    }

    /// Checks that a range is there.
    fn check(&self, operation: Operation, offset: u64, len: u64) -> Result<(), BackendError> {
        match offset.checked_add(len) {
            Some(end) if end <= self.size.load(Ordering::Relaxed) => Ok(()),
            _ => Err(self.error(operation, io::ErrorKind::UnexpectedEof.into())),
        }
    }

    /// Checks that a range is there and may be changed.
    fn check_change(
        &self,
        operation: Operation,
        offset: u64,
        len: u64,
    ) -> Result<(), BackendError> {
        match self.read_only {
            true => Err(self.refuse(operation)),
            false => self.check(operation, offset, len),
        }
    }

    /// Ends a change of an image: its flush, if it is to be durable.
    fn finish(&self, durability: Durability, image: &Image) -> io::Result<()> {
        match durability {
            Durability::Durable => self.flushes.flush(|| image.flush()),
            Durability::Cached => Ok(()),
        }
    }

    /// Returns an image whose size is that of now.
    fn refreshed(&self) -> Result<Arc<Image>, BackendError> {
        let image = self.image();
        if !self.read_only || self.name.snapshot.is_some() {
            return Ok(image);
        }
        let again = Arc::new(opening::image(image.pool(), &self.name, Mode::ReadOnly)?);
        *self.image.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&again);
        Ok(again)
    }
}

impl Backend for RbdBackend {
    fn info(&self) -> Info {
        Info {
            size: self.size.load(Ordering::Relaxed),
            read_only: self.read_only,
        }
    }

    fn medium(&self) -> Medium<'_> {
        // A request for parts of several objects becomes several. Each costs the cluster some 0.1 ms of processor time.
        let longest = usize::try_from(self.object_size).unwrap_or(usize::MAX);
        Medium::Remote {
            longest,
            alone: longest,
        }
    }

    fn measure(&self) -> Result<Info, BackendError> {
        let stat = self.refreshed()?.stat();
        let stat = stat.map_err(|error| self.error(Operation::Open, error))?;
        self.size.store(stat.size, Ordering::Relaxed);
        Ok(self.info())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), BackendError> {
        let len = buffer.len() as u64;
        let operation = Operation::Read { offset, len };
        self.check(operation, offset, len)?;
        let read = self.image().read_at(offset, buffer);
        read.map_err(|error| self.error(operation, error))
    }

    fn write_at(
        &self,
        offset: u64,
        data: &[u8],
        durability: Durability,
    ) -> Result<(), BackendError> {
        let len = data.len() as u64;
        let operation = Operation::Write { offset, len };
        self.check_change(operation, offset, len)?;
        let image = self.image();
        let written = image.write_at(offset, data);
        let written = written.and_then(|()| self.finish(durability, &image));
        written.map_err(|error| self.error(operation, error))
    }

    fn flush(&self) -> Result<(), BackendError> {
        // There is nothing to flush where nothing is written.
        if self.read_only {
            return Ok(());
        }
        let image = self.image();
        let flushed = self.flushes.flush(|| image.flush());
        flushed.map_err(|error| self.error(Operation::Flush, error))
    }

    fn discard(&self, range: Range<u64>) -> Result<(), BackendError> {
        let (offset, len) = (range.start, range.end.saturating_sub(range.start));
        let operation = Operation::Discard { offset, len };
        self.check_change(operation, offset, len)?;
        let discarded = self.image().discard(offset, len);
        discarded.map_err(|error| self.error(operation, error))
    }

    fn write_zeroes(&self, range: Range<u64>, durability: Durability) -> Result<(), BackendError> {
        let (offset, len) = (range.start, range.end.saturating_sub(range.start));
        let operation = Operation::Write { offset, len };
        self.check_change(operation, offset, len)?;
        let image = self.image();
        let zeroed = image.write_zeroes(offset, len);
        let zeroed = zeroed.and_then(|()| self.finish(durability, &image));
        zeroed.map_err(|error| self.error(operation, error))
    }

    /// Takes a lock between the threads of this process. Other clients are kept away by the image's exclusive lock
    /// where it is written; one that reads a header while it is written elsewhere finds its checksums wrong.
    fn lock_header(&self, kind: LockKind) -> Result<HeaderLock, BackendError> {
        self.header.lock(kind, &self.place)
    }
}
