//! The ways of a crypt target's requests to the cipher and the storage.
//!
//! | module | is |
//! |---|---|
//! | [`split`] | long requests, by the requester and idle processors together |
//! | [`kcryptd`] | dm-crypt's queues |
//! | [`request`] | what all of them are given |
//! | [`sector_job`] | what goes from thread to thread in the last two |
//! | [`job_list`], [`completion`] | its way to a worker, and back |

pub(crate) mod completion;
pub(crate) mod job_list;
pub(crate) mod kcryptd;
mod processors;
mod request;
pub(crate) mod sector_job;
mod split;

use std::io;
use std::sync::Arc;

use scrim_backend::Durability;

use kcryptd::Kcryptd;
use request::Request;
use split::Splitter;

use crate::crypt_target::CryptTarget;
use crate::data_path::{DataPath, Direction, Route};
use crate::error::VolumeError;
use crate::range_lock::STRIPE;
use crate::stats::Record;
use crate::table::CryptOptions;

/// A crypt target at work, with the data path of each direction.
pub(crate) struct CryptPath {
    pub(crate) target: Arc<CryptTarget>,
    read: Route,
    write: Route,
    /// dm-crypt's queues, where a direction is queued.
    pub(crate) kcryptd: Option<Kcryptd>,
    splitter: Splitter,
}

impl CryptPath {
    /// # Errors
    /// When the system gives no threads for the queues.
    pub(crate) fn start(
        target: CryptTarget,
        path: DataPath,
        options: &CryptOptions,
    ) -> io::Result<Self> {
        let read = Route::of(path, options, Direction::Read);
        let write = Route::of(path, options, Direction::Write);
        let kcryptd = if [read, write].contains(&Route::Queued) {
            Some(Kcryptd::start(options, &target)?)
        } else {
            None
        };
        Ok(Self {
            target: Arc::new(target),
            read,
            write,
            kcryptd,
            splitter: Splitter::default(),
        })
    }

    pub(crate) fn route_read(
        &self,
        offset: u64,
        buffer: &mut [u8],
        record: &mut Record,
    ) -> Result<(), VolumeError> {
        let request = Request {
            target: &self.target,
            direction: Direction::Read,
            offset,
            memory: buffer,
            durability: Durability::Cached,
        };
        self.dispatch(request, record)
    }

    pub(crate) fn route_write(
        &self,
        offset: u64,
        data: &mut [u8],
        durability: Durability,
        record: &mut Record,
    ) -> Result<(), VolumeError> {
        let request = Request {
            target: &self.target,
            direction: Direction::Write,
            offset,
            memory: data,
            durability,
        };
        self.dispatch(request, record)
    }

    fn dispatch(&self, request: Request<'_>, record: &mut Record) -> Result<(), VolumeError> {
        if let Some(kcryptd) = self.kcryptd_for(request.direction) {
            kcryptd.run_queued(request, record)
        } else if self.route(request.direction) == Route::Auto
            && self.splitter.is_for(request.memory.len())
            // Its pieces would each wait for an answer.
            && !self.target.is_remote()
        {
            self.splitter.run_split(request, record)
        } else {
            request.run_inline(record)
        }
    }

    /// Returns the queues, if requests of this direction go through them.
    pub(crate) fn kcryptd_for(&self, direction: Direction) -> Option<&Kcryptd> {
        let kcryptd = self.kcryptd.as_ref();
        kcryptd.filter(|_| self.route(direction) == Route::Queued)
    }

    /// Returns the queues, if they take the range: whole sectors of one stripe.
    pub(crate) fn kcryptd_for_range(
        &self,
        direction: Direction,
        offset: u64,
        len: usize,
    ) -> Option<&Kcryptd> {
        let kcryptd = self.kcryptd_for(direction)?;
        let (unit, len) = (self.target.sector_size as u64, len as u64);
        let last = offset + len.checked_sub(1)?;
        let is_whole = offset.is_multiple_of(unit) && len.is_multiple_of(unit);
        let is_one_stripe = offset / STRIPE == last / STRIPE;
        (is_whole && is_one_stripe).then_some(kcryptd)
    }

    pub(crate) fn route(&self, direction: Direction) -> Route {
        match direction {
            Direction::Read => self.read,
            Direction::Write => self.write,
        }
    }
}
