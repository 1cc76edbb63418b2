//! Requests in flight on a queue: the pieces of each, and the slots that carry them.

use scrim_volume::queue::{SLOTS, Slot};

use crate::range::Range;

/// Requests of one connection that are in flight. `R` is a request as its protocol knows it.
pub(crate) struct Requests<R, F> {
    /// The index of a request stays while it is in flight.
    entries: Vec<Option<InFlight<R, F>>>,
    /// Pieces that the slots carry, by slot.
    pieces: [Option<Piece>; SLOTS],
    /// The request whose pieces are being started: its index, and the range of pieces not started.
    starting: Option<(usize, Range)>,
}

/// A request with pieces in flight, or still to be started. `F` is a failure of a piece.
pub(crate) struct InFlight<R, F> {
    pub(crate) request: R,
    pub(crate) range: Range,
    /// Number of pieces in flight.
    pieces: u32,
    /// True if the last piece has been started.
    started: bool,
    /// The first failure, and its offset.
    pub(crate) failure: Option<(F, u64)>,
}

#[derive(Clone, Copy)]
struct Piece {
    request: usize,
    range: Range,
}

/// A piece that has completed, with its request, which is [put back](Requests::put_back) unless it is done.
pub(crate) struct Completed<R, F> {
    index: usize,
    pub(crate) piece: Range,
    pub(crate) request: InFlight<R, F>,
}

impl<R, F> Requests<R, F> {
    pub(crate) fn new() -> Self {
        Self {
            // Each has a slot, except for the one that waits for it.
            entries: Vec::with_capacity(SLOTS + 1),
            pieces: [None; SLOTS],
            starting: None,
        }
    }

    /// Enters a request of which no piece has been started; its pieces are started next. The range is not empty.
    pub(crate) fn enter(&mut self, request: R, range: Range) {
        let entry = Some(InFlight {
            request,
            range,
            pieces: 0,
            started: false,
            failure: None,
        });
        let index = match self.entries.iter().position(Option::is_none) {
            Some(free) => {
                self.entries[free] = entry;
                free
            }
            None => {
                self.entries.push(entry);
                self.entries.len() - 1
            }
        };
        self.starting = Some((index, range));
    }

    /// Returns the range of which no piece has been started, of the request entered last; `None` once all are started.
    pub(crate) fn left_to_start(&self) -> Option<Range> {
        self.starting.map(|(_, left)| left)
    }

    /// Counts the next piece of the request entered last as started, in this slot. One must be
    /// [left to start](Self::left_to_start).
    pub(crate) fn start(&mut self, slot: &Slot, piece: Range) {
        debug_assert!(self.starting.is_some(), "no piece is left to start");
        let Some((index, mut left)) = self.starting.take() else {
            return;
        };
        left.offset += u64::from(piece.len);
        left.len -= piece.len;
        if let Some(Some(request)) = self.entries.get_mut(index) {
            request.pieces += 1;
            request.started = left.len == 0;
        }
        self.pieces[slot.index()] = Some(Piece {
            request: index,
            range: piece,
        });
        self.starting = (left.len > 0).then_some((index, left));
    }

    /// Takes the request whose pieces are being started, with the range of those that are not. None of its pieces is in
    /// flight.
    pub(crate) fn take_starting(&mut self) -> Option<(InFlight<R, F>, Range)> {
        let (index, left) = self.starting.take()?;
        let request = self.entries.get_mut(index)?.take()?;
        Some((request, left))
    }

    /// Takes the piece that has completed in a slot, with its request.
    pub(crate) fn complete(&mut self, slot: &Slot) -> Option<Completed<R, F>> {
        let piece = self.pieces[slot.index()].take()?;
        let mut request = self.entries.get_mut(piece.request)?.take()?;
        request.pieces -= 1;
        Some(Completed {
            index: piece.request,
            piece: piece.range,
            request,
        })
    }

    /// Puts a request back that has more pieces in flight, or still to be started.
    pub(crate) fn put_back(&mut self, completed: Completed<R, F>) {
        self.entries[completed.index] = Some(completed.request);
    }
}

impl<R, F> InFlight<R, F> {
    /// Returns whether all pieces have been started, and have completed.
    pub(crate) fn is_done(&self) -> bool {
        self.pieces == 0 && self.started
    }

    /// Records the failure of a piece, unless another one has failed before.
    pub(crate) fn fail(&mut self, failure: F, piece: Range) {
        self.failure.get_or_insert((failure, piece.offset));
    }
}
