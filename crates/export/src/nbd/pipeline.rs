//! The transmission phase on a [`Queue`]: many requests of one connection are in flight at a time, and
//! are answered as they complete, in any order.
//!
//! Reads and writes go through the queue, in pieces of at most [`Queue::lengths`]; [`Transmission`] executes all other
//! requests, in between. A long write is cut where its data has been received. One to another machine, where each piece
//! waits for an answer, is gathered first, if its pieces are to be longer than [`SLOT`]: those of a lone request to an
//! NBD server are not. A long read is answered with one content chunk for each piece, or, where the client has not
//! agreed to that, is collected in a buffer of its own first. Back-pressure comes from the slots: nothing more is
//! received while all of them are in flight.
//!
//! Requests in flight keep locks and a table for which other clients may wait. So the pipeline waits for its client
//! only with the proof that the queue has settled; otherwise it uses the `try_` functions of the link, which do not
//! wait.
//!
//! The queue itself keeps its table in memory, with the keys. So no request waits here for a suspended volume,
//! and no wait for the client outlasts the table: the queue is dropped, and the rest of a request is [kept](Kept) for
//! the [`Transmission`], which has no queue while it waits.

use std::io;
use std::time::Instant;

use scrim_sys::memory::DataBuffer;
use scrim_volume::queue::{Completion, Queue, SLOT, Settled, Slot};

use super::error::{ClientEnd, Entry, Incident, ProtocolError};
use super::gathered::Gathered;
use super::reply::{self, Last, REPLY_MAX};
use super::request::{Command, Request};
use super::transmission::{Failure, Kept, Transmission};
use crate::budget::Taken;
use crate::in_flight::{Completed, InFlight, Requests};
use crate::limits;
use crate::link::{End, Wait};
use crate::meter::Kind;
use crate::protocol::Ended;
use crate::range::{MIN_PIECE, Range, aligned_part, first_piece, pieces};
use scrim_nbd::wire::REQUEST_HEADER;

/// Serves requests through a queue until the connection ends.
pub(super) struct Pipeline<'t, 'a> {
    base: &'t mut Transmission<'a>,
    queue: Queue<'t>,
    requests: Requests<Transfer<'a>, Failure>,
    /// True once the queue is to be dropped: replies then wait in the outbox, which grows.
    is_yielding: bool,
    /// Data of the next piece of a write, as far as it has been received, if it is to be longer than [`SLOT`].
    gathered: Option<Gathered>,
}

/// A read or write that is carried out in pieces.
struct Transfer<'a> {
    cookie: u64,
    work: Work<'a>,
}

enum Work<'a> {
    Write {
        fua: bool,
    },
    /// The data of each piece follows a header of its own.
    Read,
    BufferedRead(BufferedRead<'a>),
}

/// A read that is collected before any of it is sent.
struct BufferedRead<'a> {
    data: DataBuffer,
    allowance: Taken<'a>,
}

impl<'t, 'a> Pipeline<'t, 'a> {
    pub(super) fn new(base: &'t mut Transmission<'a>, queue: Queue<'t>) -> Self {
        Self {
            base,
            queue,
            requests: Requests::new(),
            is_yielding: false,
            gathered: None,
        }
    }

    /// Serves until the connection ends, the volume has another table, or a request has to wait for the volume; drops
    /// the queue. [Closing](crate::link::Link::close) the connection may wait for the client, so it is left to the
    /// caller, which drops the table first.
    pub(super) fn run(mut self) -> Ended<ProtocolError> {
        self.base.may_wait = false;
        let end = loop {
            if let Err(end) = self.step() {
                break end;
            }
        };
        if matches!(end, ClientEnd::Link(End::OtherTable)) {
            return match self.yield_table() {
                Ok(()) => Ended::Left,
                Err(end) => Ended::CutOff(end.into()),
            };
        }
        // Requests that were received are executed, and answered if the client still takes replies.
        self.base.link.begin_farewell();
        if self.settle().is_ok() {
            let _ = self.answer();
        }
        // A queue that fails keeps its requests in flight, so there is no wait for the client.
        match self.settle() {
            Ok(()) => Ended::ToBeClosed(end),
            Err(_) => Ended::CutOff(end),
        }
    }

    /// Completes what is in flight without waiting for the client, so that the queue can be dropped: replies stay in
    /// the outbox, and the rest of a request whose pieces were being started is kept.
    fn yield_table(&mut self) -> Result<(), End> {
        self.is_yielding = true;
        self.settle()?;
        self.answer()?;
        let Some((request, left)) = self.requests.take_starting() else {
            return Ok(());
        };
        let InFlight {
            request: Transfer { cookie, work },
            range,
            failure,
            ..
        } = request;
        self.base.kept = Some(match work {
            Work::Write { fua } => Kept::Write {
                cookie,
                range,
                left,
                fua,
                failure: failure.map(|(failure, _)| failure),
                gathered: self.gathered.take(),
            },
            Work::Read if left != range => Kept::Read {
                cookie,
                range,
                left,
                failure,
            },
            // No part of it has been sent.
            Work::Read | Work::BufferedRead(_) => Kept::Whole(Request {
                cookie,
                is_read: true,
                payload: 0,
                one_chunk: matches!(work, Work::BufferedRead(_)),
                command: Ok(Command::Read(range)),
            }),
        });
        Ok(())
    }

    /// Answers, starts and submits requests, or waits for the next event.
    fn step(&mut self) -> Result<(), ClientEnd> {
        self.answer()?;
        if self.queue.is_waited_for() || self.base.is_stale() {
            // Completed requests are answered before anything else may have to wait.
            self.settle()?;
            self.answer()?;
            self.send()?;
        }
        if self.base.is_stale() {
            return Err(End::OtherTable.into());
        }
        if self.start_received()? {
            let submitted = self.queue.submit();
            return Ok(check(self.base.entry, submitted)?);
        }
        self.send()?;
        if self.queue.has_free_slot() && self.base.link.try_receive()? {
            return Ok(());
        }
        Ok(self.wait()?)
    }

    /// Starts requests whose headers have been received, while there are slots. Returns whether there was one.
    fn start_received(&mut self) -> Result<bool, ClientEnd> {
        let mut any = false;
        while self.queue.has_free_slot()
            && let Some(header) = self.base.link.inbox.first::<REQUEST_HEADER>()
        {
            let request = Request::parse(header, &self.base.terms)?;
            if !self.queue.try_begin() {
                // Nothing is in flight. The request waits where no queue keeps the table.
                self.answer()?;
                self.send()?;
                return Err(End::OtherTable.into());
            }
            self.base.link.inbox.take(REQUEST_HEADER);
            self.start(&request)?;
            any = true;
            if self.base.link.outbox.len() >= limits::SEND_AT {
                self.send()?;
            }
        }
        Ok(any)
    }

    fn start(&mut self, request: &Request) -> Result<(), End> {
        match request.command {
            Ok(Command::Read(range)) if range.len > 0 => self.read(request, range),
            Ok(Command::Write { range, fua }) if range.len > 0 => {
                self.write(request.cookie, range, fua)
            }
            // A write of no bytes is refused or accepted by the volume, so it is executed without the queue.
            Ok(Command::Cache(_) | Command::Write { .. }) => self.defer(request),
            Err(_) if request.payload > 0 => self.defer(request),
            _ => self.execute(request),
        }
    }

    /// Executes a request that waits for nothing but writes in flight, none of which may be of this queue.
    fn execute(&mut self, request: &Request) -> Result<(), End> {
        self.base.kept = Some(Kept::Whole(*request));
        self.reserve(REPLY_MAX)?;
        let settled = settle(&mut self.queue, self.base.entry)?;
        self.base.execute(request, settled)?;
        self.base.kept = None;
        Ok(())
    }

    /// Defers a request until there is no queue: it may have to wait in the middle.
    fn defer(&mut self, request: &Request) -> Result<(), End> {
        self.base.kept = Some(Kept::Whole(*request));
        Err(End::OtherTable)
    }

    fn read(&mut self, request: &Request, range: Range) -> Result<(), End> {
        let cookie = request.cookie;
        if range.len as usize <= SLOT {
            let work = Work::Read;
            self.requests.enter(Transfer { cookie, work }, range);
            let slot = self.slot_for(range)?;
            self.queue
                .start_read(slot, range.offset, range.len as usize);
            return Ok(());
        }
        let len = self.piece_len();
        let in_chunks = self.base.terms.structured && !request.one_chunk;
        let work = if in_chunks || first_piece(range, len) == range {
            Work::Read
        } else {
            let Some((data, allowance)) = self.base.read_buffer(range.len as usize) else {
                return self.defer(request);
            };
            Work::BufferedRead(BufferedRead { data, allowance })
        };
        self.requests.enter(Transfer { cookie, work }, range);
        for piece in pieces(range, len) {
            let slot = self.slot_for(piece)?;
            self.queue
                .start_read(slot, piece.offset, piece.len as usize);
        }
        Ok(())
    }

    fn write(&mut self, cookie: u64, range: Range, fua: bool) -> Result<(), End> {
        let work = Work::Write { fua };
        self.requests.enter(Transfer { cookie, work }, range);
        if range.len as usize > SLOT {
            let len = self.piece_len();
            if len > SLOT && self.can_gather() {
                return self.write_gathered(len);
            }
        }
        while let Some(left) = self.requests.left_to_start() {
            let piece = self.receive_piece(left)?;
            let slot = self.slot_for(piece)?;
            let data = self.base.link.inbox.take(piece.len as usize);
            let len = data.len();
            self.queue.start_write(slot, piece.offset, data);
            self.base.link.count_copy(len);
        }
        Ok(())
    }

    /// Returns the length of the pieces of a long request, in bytes.
    fn piece_len(&self) -> usize {
        let lengths = self.queue.lengths();
        match self.queue.is_idle() {
            true => lengths.alone,
            false => lengths.longest,
        }
    }

    /// Returns whether there is memory for data that is gathered.
    fn can_gather(&mut self) -> bool {
        if self.gathered.is_none() {
            self.gathered = Gathered::allocate(self.queue.lengths().longest);
        }
        self.gathered.is_some()
    }

    /// Writes a range in pieces that end at multiples of `piece_len`, each once all of it has been received.
    fn write_gathered(&mut self, piece_len: usize) -> Result<(), End> {
        while let Some(left) = self.requests.left_to_start() {
            let piece = first_piece(left, piece_len);
            let len = piece.len as usize;
            while let Some(missing) = self.missing(len) {
                self.receive(missing.min(MIN_PIECE as usize))?;
                let Some(gathered) = &mut self.gathered else {
                    return Err(End::Gone);
                };
                let inbox = &mut self.base.link.inbox;
                gathered.put(inbox.take(missing));
            }
            let slot = self.slot_for(piece)?;
            let Some(gathered) = &mut self.gathered else {
                return Err(End::Gone);
            };
            gathered.len = 0;
            let data = &mut gathered.buffer;
            self.queue.start_write_of(slot, piece.offset, data, len);
            self.base.link.count_copy(len);
        }
        Ok(())
    }

    /// Returns the number of bytes that are missing from a gathered piece of `len`; `None` if it is complete.
    fn missing(&self, len: usize) -> Option<usize> {
        let gathered = self.gathered.as_ref().map_or(0, |gathered| gathered.len);
        len.checked_sub(gathered).filter(|missing| *missing > 0)
    }

    /// Takes a slot for the next piece of a request, waiting for one if all that take its length are in flight. The
    /// piece counts as started from then on.
    fn slot_for(&mut self, piece: Range) -> Result<Slot, End> {
        let is_long = piece.len as usize > SLOT;
        let has_free = match is_long {
            true => Queue::has_free_long_slot,
            false => Queue::has_free_slot,
        };
        while !has_free(&self.queue) {
            let waited = self.queue.wait_for_completion();
            check(self.base.entry, waited)?;
            self.answer()?;
        }
        if self.is_yielding || !self.queue.try_begin() {
            return Err(End::OtherTable);
        }
        let slot = match is_long {
            true => self.queue.take_long(),
            false => self.queue.take(),
        };
        let slot = slot.ok_or(End::Gone)?;
        self.requests.start(&slot, piece);
        Ok(slot)
    }

    /// Answers requests whose last piece has completed.
    fn answer(&mut self) -> Result<(), End> {
        while let Some(Completion { slot, result }) = self.queue.next_completion() {
            let answered = match self.requests.complete(&slot) {
                Some(completed) => self.end_piece(&slot, completed, result.map_err(Failure::from)),
                None => Ok(()),
            };
            self.queue.give_back(slot);
            answered?;
        }
        Ok(())
    }

    fn end_piece(
        &mut self,
        slot: &Slot,
        mut completed: Completed<Transfer<'a>, Failure>,
        result: Result<(), Failure>,
    ) -> Result<(), End> {
        let Completed { piece, request, .. } = &mut completed;
        match result {
            Err(failure) => request.fail(failure, *piece),
            Ok(()) => self.collect(slot, *piece, request)?,
        }
        if request.is_done() {
            self.reserve(REPLY_MAX)?;
            return self.finish(completed.request);
        }
        self.requests.put_back(completed);
        Ok(())
    }

    /// Copies the data of a read from its slot.
    fn collect(
        &mut self,
        slot: &Slot,
        piece: Range,
        in_flight: &mut InFlight<Transfer<'a>, Failure>,
    ) -> Result<(), End> {
        let len = piece.len as usize;
        let is_last = in_flight.is_done() && in_flight.failure.is_none();
        let request = &mut in_flight.request;
        match &mut request.work {
            Work::Write { .. } => Ok(()),
            Work::BufferedRead(read) => {
                #[allow(clippy::cast_possible_truncation, reason = "within the buffer")]
                let start = (piece.offset - in_flight.range.offset) as usize;
                self.queue.collect(slot, &mut read.data[start..start + len]);
                self.base.link.count_copy(len);
                Ok(())
            }
            Work::Read => {
                let last = if is_last { Last::Yes } else { Last::No };
                let cookie = request.cookie;
                if len > SLOT {
                    return self.send_long(slot, piece, cookie, last);
                }
                self.reserve(REPLY_MAX + len)?;
                self.put_header(piece, cookie, last);
                self.base.link.count_copy(len);
                let outbox = &mut self.base.link.outbox;
                self.queue.collect(slot, &mut outbox.spare()[..len]);
                outbox.advance(len);
                Ok(())
            }
        }
    }

    /// Puts the header of a piece's data into the outbox.
    fn put_header(&mut self, piece: Range, cookie: u64, last: Last) {
        if self.base.terms.structured {
            self.base.put(&reply::data(last, cookie, piece));
        } else {
            self.base.put(&reply::simple(cookie, None));
        }
    }

    /// Sends the data of a long piece from its slot, except for the first part, which joins its header in the outbox.
    /// Data that the client does not take at once is copied there too.
    fn send_long(&mut self, slot: &Slot, piece: Range, cookie: u64, last: Last) -> Result<(), End> {
        self.send_due()?;
        self.reserve(REPLY_MAX + limits::SEND_AT)?;
        self.put_header(piece, cookie, last);
        let data = self.queue.plaintext(slot).ok_or(End::Gone)?;
        let (first, mut due) = data.split_at(data.len().min(limits::SEND_AT));
        let link = &mut self.base.link;
        link.outbox.put(first);
        if !self.is_yielding {
            link.try_send_with(&mut due)?;
        }
        link.count_copy(first.len() + due.len());
        link.keep(due)
    }

    /// Answers a request whose last piece has completed.
    fn finish(&mut self, request: InFlight<Transfer<'a>, Failure>) -> Result<(), End> {
        let InFlight {
            request: Transfer { cookie, work },
            range,
            failure,
            ..
        } = request;
        match (work, failure) {
            (Work::Write { fua }, failure) => {
                let result = match failure {
                    Some((failure, _)) => Err(failure),
                    // Not `Volume::flush`, which may wait for a reload that waits for other requests of this queue.
                    None if fua => self.queue.flush().map_err(Failure::from),
                    None => Ok(()),
                };
                self.base.finish(cookie, Kind::Write, range.len, result);
            }
            (Work::Read, Some((failure, offset))) => {
                self.base.fail(cookie, Kind::Read, failure, Some(offset));
            }
            (Work::BufferedRead(_), Some((failure, _))) => {
                self.base.fail(cookie, Kind::Read, failure, None);
            }
            (Work::Read, None) => self.base.count_read(range),
            (Work::BufferedRead(read), None) => {
                self.base.count_read(range);
                if self.base.terms.structured {
                    self.base.put(&reply::data(Last::Yes, cookie, range));
                } else {
                    self.base.put(&reply::simple(cookie, None));
                }
                return self.send_buffered(read);
            }
        }
        Ok(())
    }

    /// Sends the data of a read, behind its header in the outbox; data that cannot be sent now is copied there.
    fn send_buffered(&mut self, read: BufferedRead<'a>) -> Result<(), End> {
        let mut due = &*read.data;
        if !self.is_yielding {
            let settled = settle(&mut self.queue, self.base.entry)?;
            match self.base.link.send_with(&mut due, settled) {
                Err(End::OtherTable) => self.is_yielding = true,
                sent => return sent,
            }
        }
        self.base.link.keep(due)?;
        self.base.allowances.push(read.allowance);
        Ok(())
    }

    /// Waits for the next piece of a write with `left` bytes to come: all of them if they fit a slot, else those that
    /// have been received, so that none is moved in memory to receive the rest.
    fn receive_piece(&mut self, left: Range) -> Result<Range, End> {
        let whole = left.len as usize <= SLOT;
        let wanted = if whole { left.len } else { MIN_PIECE };
        self.receive(wanted as usize)?;
        let received = self.base.link.inbox.len().min(SLOT);
        Ok(Range {
            offset: left.offset,
            len: aligned_part(left.offset, left.len, received),
        })
    }

    /// Waits until `len` bytes are in the inbox. Pieces in flight are answered meanwhile, as they complete.
    fn receive(&mut self, len: usize) -> Result<(), End> {
        while self.base.link.inbox.len() < len {
            if self.base.link.try_receive()? {
                continue;
            }
            if !self.queue.is_idle() && !self.queue.is_waited_for() {
                self.base.link.try_send()?;
                self.wait_in_flight()?;
                self.answer()?;
                continue;
            }
            // The client may take any time to send the rest.
            self.settle()?;
            self.answer()?;
            let settled = settle(&mut self.queue, self.base.entry)?;
            self.base.link.require(len, Wait::Within, settled)?;
        }
        Ok(())
    }

    /// Sends what is due.
    fn send(&mut self) -> Result<(), End> {
        if self.base.link.try_send()? {
            return Ok(());
        }
        let settled = settle(&mut self.queue, self.base.entry)?;
        self.base.link.send(settled)
    }

    /// Sends what is in the outbox if `len` more bytes do not fit it. If that would outlast the table the outbox grows
    /// instead, so that a reply never ends with [`End::OtherTable`].
    fn reserve(&mut self, len: usize) -> Result<(), End> {
        if self.base.link.outbox.spare().len() >= len {
            return Ok(());
        }
        self.send_due()?;
        if !self.is_yielding {
            return Ok(());
        }
        self.base.link.grow(len)
    }

    /// Sends what is in the outbox, except once the queue is to be dropped.
    fn send_due(&mut self) -> Result<(), End> {
        if !self.is_yielding {
            match self.send() {
                Err(End::OtherTable) => self.is_yielding = true,
                sent => return sent,
            }
        }
        Ok(())
    }

    /// Waits until nothing is in flight; completed requests are not answered yet.
    fn settle(&mut self) -> Result<(), End> {
        settle(&mut self.queue, self.base.entry).map(drop)
    }

    /// Waits for a completion or for data of the client, whichever comes first.
    fn wait(&mut self) -> Result<(), End> {
        let idle = self.queue.is_idle();
        if idle && self.base.link.is_stopping() {
            return Err(End::Stopping);
        }
        let start = Instant::now();
        self.queue.leave_if_idle();
        if idle && self.base.link.poll_socket(start)? {
            self.base.link.learn(start);
            return Ok(());
        }
        if self.base.link.has_to_send() {
            return Ok(());
        }
        self.base.link.count_sleep();
        let waited = self.wait_in_flight();
        if idle {
            self.base.link.learn(start);
        }
        waited
    }

    /// Waits for a completion, or for data of the client if it can be received now.
    fn wait_in_flight(&mut self) -> Result<(), End> {
        // Data that is not received now, or the signal of a server that stops, would end every wait.
        let waited = if self.base.link.is_stopping() || !self.queue.has_free_slot() {
            self.queue.wait_for_completion()
        } else {
            self.queue.wait()
        };
        check(self.base.entry, waited)
    }
}

/// Waits until nothing is in flight on a queue; completed requests are not answered yet.
fn settle<'q>(queue: &'q mut Queue<'_>, entry: &Entry) -> Result<Settled<'q>, End> {
    check(entry, queue.settle())
}

/// Notes the failure of a queue, which ends its connection.
fn check<T>(entry: &Entry, result: io::Result<T>) -> Result<T, End> {
    result.map_err(|error| {
        entry.note(Incident::RequestFailed {
            reason: format!("the system failed the queue of a connection: {error}"),
        });
        End::Gone
    })
}
