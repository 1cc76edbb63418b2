//! The transmission phase by plain calls: requests are executed on the connection's thread, in order, as they
//! arrive.
//!
//! A write is encrypted where it was received; a read is decrypted in the send buffer, behind its reply's header. So
//! whole sectors are not copied between buffers. More data than [`limits::PIECE`] moves in
//! pieces:
//!
//! - A long write goes to the volume piece by piece while it arrives, so it needs no buffer of its
//!   length. If the client disconnects in the middle, the pieces that were received are written, as on a disk
//!   that loses power in the middle of a write; NBD promises no more.
//! - A read of up to 1 MiB is collected in the send buffer and sent by one call: pieces would wake the client for
//!   each.
//! - A longer read is one content chunk that is sent as often as the buffer is full, and is followed by a
//!   last chunk that says whether all of it is valid. To a client without structured replies an error can be reported
//!   only before the data, so a read for it that exceeds the send buffer is read as a whole first, into a buffer
//!   of its own. If the memory for such buffers is used up by clients that take no replies, the range is read twice: to
//!   find errors, and to be sent.

use scrim_sys::memory::DataBuffer;
use scrim_volume::queue::Settled;
use scrim_volume::{Durability, Errno, Volume, VolumeError};

use super::error::{ClientEnd, Entry, Incident, ProtocolError};
use super::gathered::Gathered;
use super::reply::{self, Last, REPLY_MAX};
use super::request::{Command, Refusal, Request, Terms};
use crate::budget::{Budget, Taken};
use crate::limits;
use crate::link::{End, Link, Wait};
use crate::meter::Kind;
use crate::protocol::Client;
use crate::range::{MIN_PIECE, Range, aligned_part, missing_of_block, parts, pieces};
use scrim_nbd::wire::{REQUEST_HEADER, WireError};

/// A connection after its handshake.
pub(super) struct Transmission<'a> {
    pub(super) link: Link,
    pub(super) volume: &'a Volume,
    pub(super) terms: Terms,
    pub(super) entry: &'a Entry,
    /// Memory left for the [`Transmission::read_buffer`]s of all connections.
    pub(super) read_buffers: &'a Budget,
    /// Generation of the volume's table at the last [`Transmission::begin_table`].
    pub(super) generation: usize,
    /// True if a request may wait here for a suspended volume: without a queue. With one the request is [kept](Kept)
    /// until the queue is dropped.
    pub(super) may_wait: bool,
    /// Rest of a request that was begun with a queue.
    pub(super) kept: Option<Kept>,
    /// Parts of the budget of read buffers that replies in the outbox use.
    pub(super) allowances: Vec<Taken<'a>>,
}

/// A request that was received with a queue and goes on without one.
pub(super) enum Kept {
    /// The request has not been executed, or is executed again as a whole.
    Whole(Request),
    /// The parts before the last `left` bytes of a read have been answered with chunks.
    Read {
        cookie: u64,
        range: Range,
        left: Range,
        failure: Option<(Failure, u64)>,
    },
    /// The parts before the last `left` bytes of a write have been received and written.
    Write {
        cookie: u64,
        range: Range,
        left: Range,
        fua: bool,
        failure: Option<Failure>,
        /// The first bytes of `left`, which have been received.
        gathered: Option<Gathered>,
    },
}

/// Failure of a request: a number for the client, a text for the events.
pub(super) struct Failure {
    error: WireError,
    reason: String,
}

impl<'a> Transmission<'a> {
    pub(super) fn new(client: Client<'a, ProtocolError>, terms: Terms) -> Self {
        let Client {
            link,
            volume,
            entry,
            read_buffers,
        } = client;
        Self {
            link,
            volume,
            terms,
            entry,
            read_buffers,
            generation: 0,
            may_wait: true,
            kept: None,
            allowances: Vec::new(),
        }
    }

    /// Records the generation of the table with which the next requests are served.
    pub(super) fn begin_table(&mut self, generation: usize) {
        self.generation = generation;
    }

    /// Returns whether a queue has left anything to send or to finish.
    pub(super) fn has_kept(&self) -> bool {
        self.kept.is_some() || !self.allowances.is_empty() || self.link.has_grown()
    }

    /// Sends and finishes what a queue has left, without a queue.
    pub(super) fn finish_kept(&mut self) -> Result<(), End> {
        let settled = Settled::WITHOUT_QUEUE;
        self.may_wait = true;
        // Executed requests are answered before anything else may have to wait.
        self.link.send_kept(settled)?;
        self.allowances.clear();
        match self.kept.take() {
            None => Ok(()),
            Some(Kept::Whole(request)) => self.execute(&request, settled),
            Some(Kept::Read {
                cookie,
                range,
                left,
                failure,
            }) => self.read_rest(cookie, range, left, failure, settled),
            Some(Kept::Write {
                cookie,
                range,
                left,
                fua,
                failure,
                gathered,
            }) => {
                let (left, failure) = self.write_rest_gathered(left, failure, gathered, settled)?;
                let result = match failure {
                    None => self.write_in_pieces(left, fua, settled)?,
                    Some(failure) => {
                        self.link.skip(left.len, Wait::Within, settled)?;
                        Err(failure)
                    }
                };
                self.link.reserve(REPLY_MAX, settled)?;
                self.finish(cookie, Kind::Write, range.len, result);
                Ok(())
            }
        }
    }

    /// Writes what a queue has gathered of a write, unless a part of it has failed, once the last block of it has been
    /// received as a whole: a sector that is written in two parts would be half new if the client went away in between.
    /// Returns the range still to be received, and the first failure.
    fn write_rest_gathered(
        &mut self,
        left: Range,
        failure: Option<Failure>,
        gathered: Option<Gathered>,
        settled: Settled<'_>,
    ) -> Result<(Range, Option<Failure>), End> {
        let Some(mut gathered) = gathered else {
            return Ok((left, failure));
        };
        if failure.is_none() {
            let missing = missing_of_block(left, gathered.len);
            self.link.require(missing, Wait::Within, settled)?;
            gathered.put(self.link.inbox.take(missing));
        }
        let data = gathered.filled();
        let len = u32::try_from(data.len()).map_or(left.len, |len| len.min(left.len));
        let rest = Range {
            offset: left.offset + u64::from(len),
            len: left.len - len,
        };
        let failure = failure.or_else(|| {
            let written = self.volume.write(left.offset, data, Durability::Cached);
            written.err().map(Failure::from)
        });
        Ok((rest, failure))
    }

    /// Returns whether the volume has had another table since [`Transmission::begin_table`]. Plain calls and a queue
    /// both serve it correctly, but perhaps not in the best way.
    pub(super) fn is_stale(&self) -> bool {
        self.generation != self.volume.generation()
    }

    /// Serves one request by plain calls.
    pub(super) fn serve_one(&mut self) -> Result<(), ClientEnd> {
        let settled = Settled::WITHOUT_QUEUE;
        self.may_wait = true;
        self.link.require(1, Wait::Idle, settled)?;
        if self.is_stale() {
            return Err(End::OtherTable.into());
        }
        if self.volume.is_suspended() {
            // Executed requests are answered before anything else may have to wait.
            self.link.send(settled)?;
        }
        self.link.require(REQUEST_HEADER, Wait::Within, settled)?;
        let header = self.link.inbox.first().ok_or(End::Gone)?;
        let request = Request::parse(header, &self.terms)?;
        self.link.inbox.take(REQUEST_HEADER);
        self.execute(&request, settled)?;
        if self.link.outbox.len() >= limits::SEND_AT {
            self.link.send(settled)?;
        }
        Ok(())
    }

    /// Executes a request by plain calls, and answers it. If it may not wait for the volume and would have to, the
    /// result is [`End::OtherTable`], and it is to be executed again.
    pub(super) fn execute(&mut self, request: &Request, settled: Settled<'_>) -> Result<(), End> {
        // Space for the replies that have no data.
        self.link.reserve(REPLY_MAX, settled)?;
        let command = match request.command {
            Ok(command) => command,
            Err(refusal) => return self.refuse(request, refusal, settled),
        };
        let cookie = request.cookie;
        match command {
            Command::Read(range) => self.read(cookie, range, settled),
            Command::Write { range, fua } => self.write(cookie, range, fua, settled),
            Command::Disconnect => Err(End::Gone),
            Command::Flush => {
                let result = self.make_durable(true)?;
                self.finish(cookie, Kind::Flush, 0, result);
                Ok(())
            }
            Command::Trim { range, fua } => {
                let result = self.trim(range, fua)?;
                self.finish(cookie, Kind::Trim, range.len, result);
                Ok(())
            }
            Command::Cache(range) => {
                let result = self.cache(range, settled)?;
                self.finish(cookie, Kind::Cache, range.len, result);
                Ok(())
            }
            Command::WriteZeroes { range, fua } => {
                let result = self.write_zeroes(range, fua)?;
                self.finish(cookie, Kind::WriteZeroes, range.len, result);
                Ok(())
            }
            Command::BlockStatus(range) => {
                self.entry
                    .meter()
                    .executed(Kind::BlockStatus, range.len.into());
                self.put(&reply::allocated(cookie, range.len));
                Ok(())
            }
        }
    }

    fn read(&mut self, cookie: u64, range: Range, settled: Settled<'_>) -> Result<(), End> {
        let len = range.len as usize;
        if self.terms.structured {
            if len == 0 {
                self.finish(cookie, Kind::Read, 0, Ok(()));
                return Ok(());
            }
            let header = reply::data(Last::Yes, cookie, range);
            if self.link.can_hold(header.len() + len, settled)? {
                return self.read_whole(cookie, range, &header, settled);
            }
            return self.read_chunk_in_pieces(cookie, range, settled);
        }
        let header = reply::simple(cookie, None);
        if self.link.can_hold(header.len() + len, settled)? {
            return self.read_whole(cookie, range, &header, settled);
        }
        self.read_buffered(cookie, range, &header, settled)
    }

    /// A read that fits the send buffer: the data is read behind the header, which is then the
    /// right one, or is overwritten by an error.
    fn read_whole(
        &mut self,
        cookie: u64,
        range: Range,
        header: &[u8],
        settled: Settled<'_>,
    ) -> Result<(), End> {
        let end = header.len() + range.len as usize;
        self.link.reserve(end.max(REPLY_MAX), settled)?;
        let outbox = &mut self.link.outbox;
        let mut data = &mut outbox.spare()[header.len()..end];
        for piece in parts(range, limits::PIECE) {
            let (now, later) = data.split_at_mut(piece.len as usize);
            if let Err(error) = self.volume.read(piece.offset, now) {
                self.fail(cookie, Kind::Read, error.into(), None);
                return Ok(());
            }
            data = later;
        }
        outbox.spare()[..header.len()].copy_from_slice(header);
        outbox.advance(end);
        self.count_read(range);
        Ok(())
    }

    /// A long read as one content chunk, which is not the last chunk of its reply: an error in the
    /// middle is padded with zeros to the announced length, as the specification asks, and told
    /// afterwards.
    fn read_chunk_in_pieces(
        &mut self,
        cookie: u64,
        range: Range,
        settled: Settled<'_>,
    ) -> Result<(), End> {
        self.put(&reply::data(Last::No, cookie, range));
        let mut failure: Option<(Failure, u64)> = None;
        for piece in pieces(range, limits::PIECE) {
            let len = piece.len as usize;
            self.link.reserve(len, settled)?;
            let data = &mut self.link.outbox.spare()[..len];
            if failure.is_none()
                && let Err(error) = self.volume.read(piece.offset, data)
            {
                failure = Some((error.into(), piece.offset));
            }
            if failure.is_some() {
                data.fill(0);
            }
            self.link.outbox.advance(len);
        }
        self.link.reserve(REPLY_MAX, settled)?;
        match failure {
            Some((failure, offset)) => self.fail(cookie, Kind::Read, failure, Some(offset)),
            None => self.finish(cookie, Kind::Read, range.len, Ok(())),
        }
        Ok(())
    }

    /// Reads the last bytes of a range whose first parts have been answered with chunks, in chunks of their own.
    fn read_rest(
        &mut self,
        cookie: u64,
        range: Range,
        left: Range,
        mut failure: Option<(Failure, u64)>,
        settled: Settled<'_>,
    ) -> Result<(), End> {
        for piece in pieces(left, limits::PIECE) {
            let len = piece.len as usize;
            let header = reply::data(Last::No, cookie, piece);
            self.link.reserve(header.len() + len, settled)?;
            let data = &mut self.link.outbox.spare()[header.len()..header.len() + len];
            match self.volume.read(piece.offset, data) {
                Ok(()) => {
                    self.put(&header);
                    self.link.outbox.advance(len);
                }
                Err(error) => {
                    failure.get_or_insert((error.into(), piece.offset));
                }
            }
        }
        self.link.reserve(REPLY_MAX, settled)?;
        match failure {
            Some((failure, offset)) => self.fail(cookie, Kind::Read, failure, Some(offset)),
            None => self.finish(cookie, Kind::Read, range.len, Ok(())),
        }
        Ok(())
    }

    /// Allocates the buffer of a read that is collected before any of it is sent; `None` if not enough memory is left.
    pub(super) fn read_buffer(&self, len: usize) -> Option<(DataBuffer, Taken<'a>)> {
        let allowance = self.read_buffers.take(len)?;
        Some((DataBuffer::try_zeroed(len)?, allowance))
    }

    /// Counts a read that has been answered.
    pub(super) fn count_read(&self, range: Range) {
        self.entry.meter().executed(Kind::Read, range.len.into());
    }

    /// A long read for a client without structured replies.
    fn read_buffered(
        &mut self,
        cookie: u64,
        range: Range,
        header: &[u8],
        settled: Settled<'_>,
    ) -> Result<(), End> {
        let Some((mut data, _allowance)) = self.read_buffer(range.len as usize) else {
            return self.read_twice(cookie, range, header, settled);
        };
        if let Err(error) = self.volume.read(range.offset, &mut data) {
            self.fail(cookie, Kind::Read, error.into(), None);
            return Ok(());
        }
        self.count_read(range);
        self.put(header);
        self.link.send_with(&mut &*data, settled)
    }

    /// The same without a buffer of its own. A failure of the second read ends the connection: there is no other way to
    /// tell the client.
    fn read_twice(
        &mut self,
        cookie: u64,
        range: Range,
        header: &[u8],
        settled: Settled<'_>,
    ) -> Result<(), End> {
        if let Err(failure) = self.cache(range, settled)? {
            self.fail(cookie, Kind::Read, failure, None);
            return Ok(());
        }
        self.put(header);
        for piece in pieces(range, limits::PIECE) {
            let len = piece.len as usize;
            self.link.reserve(len, settled)?;
            let data = &mut self.link.outbox.spare()[..len];
            if let Err(error) = self.volume.read(piece.offset, data) {
                self.entry.meter().failed();
                self.entry.note(Incident::RequestFailed {
                    reason: error.to_string(),
                });
                return Err(End::Gone);
            }
            self.link.outbox.advance(len);
        }
        self.count_read(range);
        Ok(())
    }

    fn write(
        &mut self,
        cookie: u64,
        range: Range,
        fua: bool,
        settled: Settled<'_>,
    ) -> Result<(), End> {
        let len = range.len as usize;
        let result = if len <= limits::PIECE {
            self.link.require(len, Wait::Within, settled)?;
            let data = self.link.inbox.take(len);
            let written = self.volume.write(range.offset, data, durability(fua));
            written.map_err(Failure::from)
        } else {
            self.write_in_pieces(range, fua, settled)?
        };
        self.finish(cookie, Kind::Write, range.len, result);
        Ok(())
    }

    /// Writes a long payload as it arrives. After an error the rest is received and dropped.
    fn write_in_pieces(
        &mut self,
        range: Range,
        fua: bool,
        settled: Settled<'_>,
    ) -> Result<Result<(), Failure>, End> {
        let mut offset = range.offset;
        let mut left = range.len;
        while left > 0 {
            let wanted = left.min(MIN_PIECE) as usize;
            self.link.require(wanted, Wait::Within, settled)?;
            let here = aligned_part(offset, left, self.link.inbox.len());
            let data = self.link.inbox.take(here as usize);
            if let Err(error) = self.volume.write(offset, data, Durability::Cached) {
                self.link.skip(left - here, Wait::Within, settled)?;
                return Ok(Err(error.into()));
            }
            offset += u64::from(here);
            left -= here;
        }
        self.make_durable(fua)
    }

    fn trim(&self, range: Range, fua: bool) -> Result<Result<(), Failure>, End> {
        self.in_steps(range, fua, |step| {
            let (offset, len) = (step.offset, step.len.into());
            match self.may_wait {
                true => Some(self.volume.discard(offset, len)),
                false => self.volume.try_discard(offset, len),
            }
        })
    }

    fn write_zeroes(&self, range: Range, fua: bool) -> Result<Result<(), Failure>, End> {
        self.in_steps(range, fua, |step| {
            let (offset, len) = (step.offset, step.len.into());
            match self.may_wait {
                true => Some(self.volume.write_zeroes(offset, len, Durability::Cached)),
                false => self
                    .volume
                    .try_write_zeroes(offset, len, Durability::Cached),
            }
        })
    }

    /// Executes a long command in steps. It can be executed again, so `step` returns `None` where it would have to
    /// wait.
    fn in_steps(
        &self,
        range: Range,
        fua: bool,
        step: impl Fn(Range) -> Option<Result<(), VolumeError>>,
    ) -> Result<Result<(), Failure>, End> {
        for part in pieces(range, limits::STEP) {
            let result = match self.check_stop() {
                Ok(()) => step(part).ok_or(End::OtherTable)?.map_err(Failure::from),
                Err(failure) => Err(failure),
            };
            if result.is_err() {
                return Ok(result);
            }
        }
        self.make_durable(fua)
    }

    /// Reads and drops the data: the backend's cache holds ciphertext afterwards.
    fn cache(&mut self, range: Range, settled: Settled<'_>) -> Result<Result<(), Failure>, End> {
        for piece in pieces(range, limits::PIECE) {
            let len = piece.len as usize;
            self.link.reserve(len, settled)?;
            let buffer = &mut self.link.outbox.spare()[..len];
            let read = self
                .volume
                .read(piece.offset, buffer)
                .map_err(Failure::from);
            if let Err(failure) = read.and_then(|()| self.check_stop()) {
                return Ok(Err(failure));
            }
        }
        Ok(Ok(()))
    }

    /// Fails a long command if the server stops.
    fn check_stop(&self) -> Result<(), Failure> {
        if self.link.is_stopping() {
            return Err(Failure {
                error: WireError::Shutdown,
                reason: "the server stops".to_owned(),
            });
        }
        Ok(())
    }

    /// Flushes once for everything that a command with `NBD_CMD_FLAG_FUA` wrote in several pieces.
    fn make_durable(&self, fua: bool) -> Result<Result<(), Failure>, End> {
        if !fua {
            return Ok(Ok(()));
        }
        let flushed = match self.may_wait {
            true => self.volume.flush(),
            false => self.volume.try_flush().ok_or(End::OtherTable)?,
        };
        Ok(flushed.map_err(Failure::from))
    }

    /// Replies to a command without data in its reply; the outbox has [`REPLY_MAX`] bytes left.
    pub(super) fn finish(
        &mut self,
        cookie: u64,
        kind: Kind,
        len: u32,
        result: Result<(), Failure>,
    ) {
        if let Err(failure) = result {
            return self.fail(cookie, kind, failure, None);
        }
        self.entry.meter().executed(kind, len.into());
        if self.terms.structured {
            self.put(&reply::done(cookie));
        } else {
            self.put(&reply::simple(cookie, None));
        }
    }

    /// Replies that the volume failed; `offset` is given if a part of the data has been sent. The outbox
    /// has [`REPLY_MAX`] bytes left.
    pub(super) fn fail(&mut self, cookie: u64, kind: Kind, failure: Failure, offset: Option<u64>) {
        self.entry.meter().executed(kind, 0);
        self.entry.meter().failed();
        self.put_error(
            cookie,
            failure.error,
            "the volume failed the request",
            offset,
        );
        self.entry.note(Incident::RequestFailed {
            reason: failure.reason,
        });
    }

    fn refuse(
        &mut self,
        request: &Request,
        refusal: Refusal,
        settled: Settled<'_>,
    ) -> Result<(), End> {
        self.entry.meter().refused();
        self.link.skip(request.payload, Wait::Within, settled)?;
        self.put_error(request.cookie, refusal.error, refusal.reason, None);
        Ok(())
    }

    fn put_error(&mut self, cookie: u64, error: WireError, reason: &str, offset: Option<u64>) {
        if self.terms.structured {
            self.put(&reply::error(cookie, error, reason, offset));
        } else {
            self.put(&reply::simple(cookie, Some(error)));
        }
    }

    /// Puts a reply of at most [`REPLY_MAX`] bytes into the outbox, where space was reserved for it.
    pub(super) fn put(&mut self, reply: &[u8]) {
        self.link.outbox.put(reply);
    }
}

fn durability(fua: bool) -> Durability {
    if fua {
        Durability::Durable
    } else {
        Durability::Cached
    }
}

impl From<VolumeError> for Failure {
    fn from(error: VolumeError) -> Self {
        Self {
            error: match error.errno() {
                Errno::Perm => WireError::Perm,
                Errno::Io => WireError::Io,
                Errno::Inval => WireError::Inval,
                Errno::NoSpc => WireError::NoSpc,
                Errno::NotSup => WireError::NotSup,
            },
            reason: error.to_string(),
        }
    }
}
