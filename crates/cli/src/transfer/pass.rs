//! A walk over all pieces of a transfer, several at a time.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::CliError;
use crate::process::interruption::Interruption;
use crate::terminal::progress::Display;

/// Number of bytes that are moved at a time.
pub(super) const PIECE: usize = 1 << 20;
/// Time between two records of the position: a crash costs at most the work of this time.
const CHECKPOINT: Duration = Duration::from_secs(1);
/// Time after which a signal is noticed even though no piece ends.
const WAIT: Duration = Duration::from_millis(100);

/// Outcome of a pass over all pieces.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Done,
    Interrupted,
}

/// Reason why a transfer stopped.
pub(super) enum Failure {
    /// It can be taken up again.
    Resumable(CliError),
    /// It has to be begun again.
    Fatal(CliError),
}

impl From<CliError> for Failure {
    fn from(error: CliError) -> Self {
        Self::Resumable(error)
    }
}

/// A walk over the pieces between two positions, which are shown as they pass.
pub(super) struct Pass<'a> {
    pub(super) what: &'static str,
    pub(super) source: &'a Path,
    pub(super) start: u64,
    pub(super) end: u64,
    /// Number of pieces that are moved at the same time, each by a thread of its own.
    pub(super) at_once: usize,
    pub(super) interruption: &'a Interruption,
    /// Effect of an interruption, as words after "Ctrl-C".
    pub(super) interrupted: &'static str,
}

impl Pass<'_> {
    /// Moves all pieces. Each thread calls `mover` once, and what that returns with the position and the length of each
    /// of its pieces. `save` gets, from time to time and at the end, the position before which everything is moved.
    ///
    /// The first error ends the walk, as does a signal: pieces that have begun are moved, and no further ones begin.
    pub(super) fn run<M>(
        &self,
        mover: impl Fn() -> M + Sync,
        save: impl FnMut(u64) -> Result<(), CliError>,
    ) -> Result<End, Failure>
    where
        M: FnMut(u64, usize) -> Result<(), Failure>,
    {
        let next = AtomicU64::new(self.start);
        let stop = AtomicBool::new(false);
        let work = |moved: &mpsc::Sender<Moved>| {
            let mut mover = mover();
            while !stop.load(Ordering::Relaxed) {
                let at = next.fetch_add(PIECE as u64, Ordering::Relaxed);
                let Some(len) = self.len_at(at) else { break };
                let result = mover(at, len);
                let failed = result.is_err();
                if moved.send(Moved { at, len, result }).is_err() || failed {
                    break;
                }
            }
        };
        thread::scope(|scope| {
            let (sender, moved) = mpsc::channel();
            for _ in 0..self.at_once {
                let sender = sender.clone();
                let work = &work;
                scope.spawn(move || work(&sender));
            }
            drop(sender);
            self.follow(&moved, &stop, save)
        })
    }

    /// Length of the piece at a position; `None` behind the last one.
    fn len_at(&self, at: u64) -> Option<usize> {
        let left = self.end.saturating_sub(at);
        let len = usize::try_from(left).map_or(PIECE, |left| left.min(PIECE));
        (len > 0).then_some(len)
    }

    /// Notes the pieces that have been moved, until all threads have ended.
    fn follow(
        &self,
        moved: &Receiver<Moved>,
        stop: &AtomicBool,
        mut save: impl FnMut(u64) -> Result<(), CliError>,
    ) -> Result<End, Failure> {
        let mut front = Front::at(self.start);
        let source = self.source.display().to_string();
        let mut display = Display::new(self.what, self.interrupted);
        let mut saved = Instant::now();
        let mut failure = None;
        loop {
            match moved.recv_timeout(WAIT) {
                Ok(Moved { at, len, result }) => match result {
                    Ok(()) => {
                        front.passes(at, len);
                        display.moved(&source, front.moved, self.end - self.start);
                    }
                    Err(error) => failure = failure.or(Some(error)),
                },
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if failure.is_none() && saved.elapsed() >= CHECKPOINT {
                failure = save(front.position).err().map(Failure::from);
                saved = Instant::now();
            }
            if failure.is_some() || self.interruption.came() {
                stop.store(true, Ordering::Relaxed);
            }
        }
        if let Some(failure) = failure {
            return Err(failure);
        }
        save(front.position)?;
        Ok(if front.position == self.end {
            End::Done
        } else {
            End::Interrupted
        })
    }
}

/// A piece that a thread has moved, or has failed to move.
struct Moved {
    at: u64,
    len: usize,
    result: Result<(), Failure>,
}

/// Position before which everything is moved, and the pieces behind it that are.
struct Front {
    position: u64,
    /// Start and length of pieces that do not adjoin the position yet.
    ahead: BTreeSet<(u64, usize)>,
    /// Number of bytes that are moved.
    moved: u64,
}

impl Front {
    fn at(position: u64) -> Self {
        Self {
            position,
            ahead: BTreeSet::new(),
            moved: 0,
        }
    }

    fn passes(&mut self, at: u64, len: usize) {
        self.moved += len as u64;
        self.ahead.insert((at, len));
        while let Some(&(at, len)) = self.ahead.first()
            && at == self.position
        {
            self.ahead.pop_first();
            self.position += len as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_position_passes_no_piece_that_is_missing() {
        let mut front = Front::at(10);
        front.passes(20, 10);
        front.passes(40, 5);
        assert_eq!((front.position, front.moved), (10, 15));
        front.passes(10, 10);
        assert_eq!(front.position, 30);
        front.passes(30, 10);
        assert_eq!((front.position, front.moved), (45, 35));
        assert!(front.ahead.is_empty());
    }
}
