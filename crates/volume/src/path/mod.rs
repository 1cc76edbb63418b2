//! The ways of a crypt target's requests to the cipher and the storage.
//!
//! | module | is |
//! |---|---|
//! | [`choice`] | which way is taken |
//! | [`inline`] | the requester does it all |
//! | [`split`] | long requests, by the requester and idle processors together |
//! | [`kcryptd`] | dm-crypt's queues |
//! | [`request`] | what all of them are given |
//! | [`job`], [`handover`] | what goes from thread to thread in the last two, and how |

mod choice;
pub(crate) mod handover;
mod inline;
pub(crate) mod job;
pub(crate) mod kcryptd;
mod parts;
mod processors;
mod request;
mod split;

use std::io;
use std::sync::Arc;

use scrim_backend::Durability;

pub(crate) use choice::Route;
pub use choice::{DataPath, Direction, UnknownDataPath};
pub(crate) use inline::CryptRunner;
use kcryptd::Kcryptd;
use request::Request;
use split::Splitter;

use crate::stats::Record;
use crate::{CryptOptions, VolumeError};

/// A crypt target at work, with the data path of each direction.
pub(crate) struct CryptPath {
    pub(crate) runner: Arc<CryptRunner>,
    read: Route,
    write: Route,
    /// dm-crypt's queues, where a direction is queued.
    pub(crate) queues: Option<Kcryptd>,
    splitter: Splitter,
}

impl CryptPath {
    /// # Errors
    /// When the system gives no threads for the queues.
    pub(crate) fn start(
        runner: CryptRunner,
        path: DataPath,
        options: &CryptOptions,
    ) -> io::Result<Self> {
        let read = Route::of(path, options, Direction::Read);
        let write = Route::of(path, options, Direction::Write);
        let queues = if [read, write].contains(&Route::Queued) {
            Some(Kcryptd::start(options, &runner)?)
        } else {
            None
        };
        Ok(Self {
            runner: Arc::new(runner),
            read,
            write,
            queues,
            splitter: Splitter::default(),
        })
    }

    pub(crate) fn read(
        &self,
        offset: u64,
        buffer: &mut [u8],
        record: &mut Record,
    ) -> Result<(), VolumeError> {
        let request = Request {
            runner: &self.runner,
            direction: Direction::Read,
            offset,
            memory: buffer,
            durability: Durability::Cached,
        };
        self.carry_out(request, record)
    }

    pub(crate) fn write(
        &self,
        offset: u64,
        data: &mut [u8],
        durability: Durability,
        record: &mut Record,
    ) -> Result<(), VolumeError> {
        let request = Request {
            runner: &self.runner,
            direction: Direction::Write,
            offset,
            memory: data,
            durability,
        };
        self.carry_out(request, record)
    }

    fn carry_out(&self, request: Request<'_>, record: &mut Record) -> Result<(), VolumeError> {
        if let Some(queues) = self.queues_for(request.direction) {
            queues.carry_out(request, record)
        } else if self.route(request.direction) == Route::Auto
            && self.splitter.is_for(request.memory.len())
        {
            self.splitter.carry_out(request, record)
        } else {
            request.inline(record)
        }
    }

    /// Returns the queues, if requests of this direction go through them.
    pub(crate) fn queues_for(&self, direction: Direction) -> Option<&Kcryptd> {
        let queues = self.queues.as_ref();
        queues.filter(|_| self.route(direction) == Route::Queued)
    }

    pub(crate) fn route(&self, direction: Direction) -> Route {
        match direction {
            Direction::Read => self.read,
            Direction::Write => self.write,
        }
    }
}
