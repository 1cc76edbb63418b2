//! Storage that says it is on another machine, and takes long requests.

use std::ops::Range;
use std::sync::Arc;

use scrim_backend::{Backend, BackendError, Durability, HeaderLock, Info, LockKind, Medium};

struct Remote(Arc<dyn Backend>);

/// Returns the storage as one on another machine.
pub(crate) fn remote(backend: Arc<dyn Backend>) -> Arc<dyn Backend> {
    Arc::new(Remote(backend))
}

impl Backend for Remote {
    fn info(&self) -> Info {
        self.0.info()
    }

    fn medium(&self) -> Medium<'_> {
        Medium::Remote {
            longest: 3 << 20,
            alone: 300 << 10,
        }
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), BackendError> {
        self.0.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, data: &[u8], how: Durability) -> Result<(), BackendError> {
        self.0.write_at(offset, data, how)
    }

    fn flush(&self) -> Result<(), BackendError> {
        self.0.flush()
    }

    fn discard(&self, range: Range<u64>) -> Result<(), BackendError> {
        self.0.discard(range)
    }

    fn write_zeroes(&self, range: Range<u64>, how: Durability) -> Result<(), BackendError> {
        self.0.write_zeroes(range, how)
    }

    fn lock_header(&self, kind: LockKind) -> Result<HeaderLock, BackendError> {
        self.0.lock_header(kind)
    }
}
