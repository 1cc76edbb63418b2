//! A thread of a session: it reads requests, and has them executed.

use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use rustix::io::Errno;
use scrim_fuse::reply;
use scrim_fuse::request::{Header, Request};

use super::buffer::{Buffer, Ended};
use super::execute::Executor;
use super::session::Session;
use crate::meter::Meter;

/// A thread of a session.
pub(super) struct Worker {
    executor: Executor,
    buffer: Buffer,
}

impl Worker {
    pub(super) fn new(
        session: Arc<Session>,
        device: Arc<OwnedFd>,
        meter: Arc<Meter>,
        buffer: Buffer,
    ) -> Self {
        Self {
            executor: Executor {
                session,
                device,
                meter,
            },
            buffer,
        }
    }

    /// Serves until nothing is mounted any more, or the session stops.
    pub(super) fn run(mut self) {
        while !self.executor.session.is_stopping() {
            let len = match receive(&self.executor.device, &mut self.buffer) {
                Ok(len) => len,
                // Broken off, by us or because the program has gone.
                Err(Errno::INTR | Errno::NOENT | Errno::AGAIN) => continue,
                // Nothing is mounted any more.
                Err(Errno::NODEV) => break,
                Err(error) => {
                    note_end(&self.executor, &error.into());
                    break;
                }
            };
            self.executor.meter.received();
            self.executor.meter.set_serving(true);
            let served = self.serve(len);
            self.executor.meter.set_serving(false);
            if served.is_err() {
                break;
            }
        }
    }

    /// Serves one request. A panic in the tree fails this one request, so that no program waits for ever.
    fn serve(&mut self, len: usize) -> Result<(), Ended> {
        let Self { executor, buffer } = self;
        let unique = match Header::parse(buffer.request(len)) {
            Ok(header) => header.unique,
            Err(error) => {
                executor.session.note(error.to_string());
                return Ok(());
            }
        };
        let served = catch_unwind(AssertUnwindSafe(|| {
            serve_one(executor, buffer, unique, len)
        }));
        served.unwrap_or_else(|_| {
            let fault = "internal error, please report it".to_owned();
            executor.session.note(fault);
            executor.meter.failed();
            executor.send(&reply::error(unique, Errno::IO))
        })
    }
}

fn serve_one(
    executor: &Executor,
    buffer: &mut Buffer,
    unique: u64,
    len: usize,
) -> Result<(), Ended> {
    let (header, filling) = match Request::parse(buffer.request(len)) {
        Ok(request) => {
            let header = request.header;
            (header, executor.execute(&header, request.operation)?)
        }
        Err(error) => {
            executor.session.note(error.to_string());
            executor.meter.refused();
            return executor.send(&reply::error(unique, Errno::IO));
        }
    };
    match filling {
        Some(filling) => executor.fill(&header, &filling, buffer),
        None => Ok(()),
    }
}

/// Notes that a thread serves no more, although the tree is still mounted.
fn note_end(executor: &Executor, error: &std::io::Error) {
    executor.meter.failed();
    let fault = format!("a thread ended, as it cannot read requests: {error}; mount it again");
    executor.session.note(fault);
}

/// Waits for a request, and reads it by one call.
pub(super) fn receive(device: &OwnedFd, buffer: &mut Buffer) -> Result<usize, Errno> {
    rustix::io::read(device, buffer.free())
}
