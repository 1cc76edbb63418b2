//! Requests on an export: reads, changes, and the flush that makes them durable.

use std::io;
use std::ops::Range;
use std::sync::PoisonError;
use std::time::Instant;

use rustix::io::Errno;
use scrim_nbd::client::{Command, Request};
use scrim_nbd::wire::{WireError, flag};

use super::RemoteBackend;
use super::backend::request;
use super::journal::Write;
use super::link::{Link, error_of};
use super::stream::remaining;
use crate::Durability;
use crate::range::Piece;

/// Size of the journal, in bytes, from which a write flushes first.
const JOURNAL_MAX: usize = 64 << 20;

impl RemoteBackend {
    /// Reads whole blocks, as many as one request may have.
    pub(super) fn read_blocks(
        &self,
        offset: u64,
        into: &mut [u8],
        deadline: Instant,
    ) -> io::Result<()> {
        let request = request(Command::Read, offset, into.len() as u64);
        let answer = self
            .link
            .run(request, &[], into, deadline, |_, answer| answer);
        answer?.map(|_| ()).map_err(error_of)
    }

    /// Writes a piece. Other data in its first and last block is read before, and written with it.
    pub(super) fn write_piece(
        &self,
        piece: &Piece,
        data: &[u8],
        durability: Durability,
        deadline: Instant,
    ) -> io::Result<()> {
        self.limit_journal(deadline)?;
        let claim = Claim::take(&self.link, piece.whole.clone(), deadline)?;
        let durable = durability == Durability::Durable && self.offers(flag::SEND_FUA);
        // After a loss the journal is written again, for a moment over newer data that is on the medium
        // already. If this process dies during that, the durable write must not be lost with it.
        let overtakes = durable && self.link.state().journal.has_part_of(&piece.whole);
        let fua = durable && !overtakes;
        if piece.is_aligned() {
            self.write_blocks(piece.offset, data, fua, deadline)?;
        } else {
            let mut whole = vec![0; piece.whole_len()];
            self.read_blocks(piece.whole.start, &mut whole, deadline)?;
            whole[piece.within()].copy_from_slice(data);
            self.write_blocks(piece.whole.start, &whole, fua, deadline)?;
        }
        drop(claim);
        match overtakes {
            true => self.sync(deadline),
            false => Ok(()),
        }
    }

    /// Writes whole blocks that are claimed.
    fn write_blocks(
        &self,
        offset: u64,
        data: &[u8],
        fua: bool,
        deadline: Instant,
    ) -> io::Result<()> {
        let write = request(Command::Write { fua }, offset, data.len() as u64);
        // What is durable cannot be lost.
        let entry = (!fua).then_some(Write::Bytes(data));
        let answer = self.change(write, data, entry, deadline)?;
        answer.map_err(error_of)?;
        // As after a failed flush.
        if fua && self.link.state().sync_failed {
            return Err(Errno::IO.into());
        }
        Ok(())
    }

    /// Zeroes whole blocks; the inner error is the server's.
    pub(super) fn zero_piece(
        &self,
        blocks: &Range<u64>,
        deadline: Instant,
    ) -> io::Result<Result<(), WireError>> {
        self.limit_journal(deadline)?;
        let _claim = Claim::take(&self.link, blocks.clone(), deadline)?;
        let len = blocks.end - blocks.start;
        let zero = request(Command::WriteZeroes, blocks.start, len);
        self.change(zero, &[], Some(Write::Zeroes(zero.len)), deadline)
    }

    /// Discards whole blocks; the inner error is the server's. The journal keeps no entry for it: the
    /// contents of such blocks are undefined anyway.
    pub(super) fn trim_piece(
        &self,
        blocks: &Range<u64>,
        deadline: Instant,
    ) -> io::Result<Result<(), WireError>> {
        let _claim = Claim::take(&self.link, blocks.clone(), deadline)?;
        let trim = request(Command::Trim, blocks.start, blocks.end - blocks.start);
        self.change(trim, &[], None, deadline)
    }

    /// Executes a change. The entry is the data that the server may still lose.
    fn change(
        &self,
        request: Request,
        data: &[u8],
        entry: Option<Write<'_>>,
        deadline: Instant,
    ) -> io::Result<Result<(), WireError>> {
        self.link
            .run(request, data, &mut [], deadline, |state, answer| {
                let fua = request.command == Command::Write { fua: true };
                match answer {
                    Ok(_) if state.sync_failed => {}
                    Ok(_) => {
                        let entry = entry.filter(|_| self.offers(flag::SEND_FLUSH));
                        if let Some(entry) = entry {
                            state.journal.add(request.offset, entry);
                        }
                    }
                    // It may be an earlier write that could not be made durable, and no reply says so
                    // twice.
                    Err(WireError::Io | WireError::NoSpc) if fua => state.give_up_syncing(),
                    Err(_) => {}
                }
                answer.map(|_| ())
            })
    }

    /// Flushes when the journal has become too large.
    fn limit_journal(&self, deadline: Instant) -> io::Result<()> {
        if self.link.state().journal.cost() < JOURNAL_MAX {
            return Ok(());
        }
        match self.sync(deadline) {
            // The next flush reports that; the journal is empty from now on.
            Err(_) if self.link.state().sync_failed => Ok(()),
            done => done,
        }
    }

    /// Makes everything durable that has been acknowledged.
    pub(super) fn sync(&self, deadline: Instant) -> io::Result<()> {
        if self.info.read_only || !self.offers(flag::SEND_FLUSH) {
            return Ok(());
        }
        let wanted = self.link.state().journal.next();
        let waited;
        let _turn = match self.flushing.try_lock() {
            Ok(turn) => {
                waited = false;
                turn
            }
            Err(_) => {
                waited = true;
                let turn = self.flushing.lock();
                turn.unwrap_or_else(PoisonError::into_inner)
            }
        };
        let state = self.link.state();
        if state.sync_failed {
            return Err(Errno::IO.into());
        }
        // The flush that was waited for has covered this one too.
        if waited && state.flushed >= wanted {
            return Ok(());
        }
        drop(state);
        let flush = request(Command::Flush, 0, 0);
        let answer = self.link.run(
            flush,
            &[],
            &mut [],
            deadline,
            |state, answer| match answer {
                // Writes may have been lost before this flush.
                Ok(_) if state.sync_failed => Err(WireError::Io),
                Ok(covered) => {
                    state.journal.forget(covered);
                    state.flushed = state.flushed.max(covered);
                    Ok(())
                }
                Err(error) => {
                    state.give_up_syncing();
                    Err(error)
                }
            },
        );
        answer?.map_err(error_of)
    }
}

/// A range that only one thread may change while this lives.
struct Claim<'a> {
    link: &'a Link,
    range: Range<u64>,
}

impl<'a> Claim<'a> {
    /// Waits until no other change has claimed a part of the range.
    fn take(link: &'a Link, range: Range<u64>, deadline: Instant) -> io::Result<Self> {
        let mut state = link.state();
        while !state.claims.take(&range) {
            remaining(deadline)?;
            state.claims.waiting += 1;
            state = link.wait(state, deadline);
            state.claims.waiting -= 1;
        }
        drop(state);
        Ok(Self { link, range })
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut state = self.link.state();
        state.claims.give_back(&self.range);
        if state.claims.waiting > 0 {
            self.link.tell();
        }
    }
}
