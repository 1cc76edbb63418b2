//! The header of an open volume, read by the process that serves it.
//!
//! A server may take only one client, and the process that serves the volume is that client: no other process could
//! read the header there.

use std::io;
use std::ops::Range;

use scrim_backend::{
    Backend, BackendError, Durability, HeaderLock, Info, LockKind, Medium, Operation,
};

use crate::args::VolumeName;
use crate::error::CliError;
use crate::nbd::control::{Client, READ_MAX, Request, Status};
use crate::nbd::runtime::RuntimeDir;

/// The bytes of an open volume's device before its data.
pub(crate) struct ServedHeader {
    runtime: RuntimeDir,
    name: VolumeName,
    /// The device, as messages name it.
    place: String,
    size: u64,
}

impl ServedHeader {
    pub(crate) fn of(name: VolumeName, status: &Status) -> Self {
        Self {
            runtime: RuntimeDir::locate(),
            name,
            place: status.device.clone(),
            size: status.offset_sectors.saturating_mul(512),
        }
    }

    fn ask(&self, request: Request) -> Result<Vec<u8>, CliError> {
        let answer = Client::connect(&self.runtime, &self.name)?.ask(request)?;
        Ok(answer.expose().to_vec())
    }

    fn refuse(&self, operation: Operation) -> BackendError {
        let error = io::Error::from(io::ErrorKind::ReadOnlyFilesystem);
        BackendError::new(operation, &self.place, error)
    }
}

impl Backend for ServedHeader {
    fn info(&self) -> Info {
        Info {
            size: self.size,
            read_only: true,
        }
    }

    fn medium(&self) -> Medium<'_> {
        Medium::Remote {
            longest: READ_MAX,
            alone: READ_MAX,
        }
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), BackendError> {
        let mut at = offset;
        for part in buffer.chunks_mut(READ_MAX) {
            let len = part.len();
            let fail = |error: io::Error| {
                let len = len as u64;
                BackendError::new(Operation::Read { offset: at, len }, &self.place, error)
            };
            let request = Request::ReadHeader { offset: at, len };
            let bytes = self
                .ask(request)
                .map_err(|error| fail(io::Error::other(error.to_string())))?;
            if bytes.len() != len {
                return Err(fail(io::ErrorKind::UnexpectedEof.into()));
            }
            part.copy_from_slice(&bytes);
            at += len as u64;
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8], _: Durability) -> Result<(), BackendError> {
        let len = data.len() as u64;
        Err(self.refuse(Operation::Write { offset, len }))
    }

    fn flush(&self) -> Result<(), BackendError> {
        Ok(())
    }

    fn discard(&self, range: Range<u64>) -> Result<(), BackendError> {
        self.write_zeroes(range, Durability::Cached)
    }

    fn write_zeroes(&self, range: Range<u64>, _: Durability) -> Result<(), BackendError> {
        let (offset, len) = (range.start, range.end - range.start);
        Err(self.refuse(Operation::Write { offset, len }))
    }

    fn lock_header(&self, _: LockKind) -> Result<HeaderLock, BackendError> {
        Ok(HeaderLock::unneeded())
    }
}
