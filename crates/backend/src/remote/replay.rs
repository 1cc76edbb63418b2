//! Writing the journal again, to a server that may have lost its writes.
//!
//! Flushes in between cover a part, which no later attempt has to write, so that even a journal that takes longer than
//! the time of one request is complete after some attempts. So that each attempt reaches a flush, no
//! more writes are sent ahead of replies than the server has answered soon: it begins with one.

use std::io;
use std::time::{Duration, Instant};

use scrim_nbd::client::Command;

use super::backend::request;
use super::connection::{Connection, Failure};
use super::journal::BATCH;
use super::link::{Link, error_of};
use super::outage::as_error;

/// Number of bytes written again before a flush covers them.
const REPLAY_FLUSH: u64 = 4 << 20;

impl Link {
    /// Writes the journal again. It keeps its entries, and none is added while there is no session.
    pub(super) fn replay(&self, connection: &Connection, deadline: Instant) -> io::Result<()> {
        let time = deadline.saturating_duration_since(Instant::now());
        let mut pace = Pace::new(time);
        let mut next = self.state().journal.first();
        let mut uncovered = 0;
        let mut since = Instant::now();
        loop {
            let batch = self.state().journal.batch(next, pace.most);
            if batch.is_empty() {
                return Ok(());
            }
            let began = Instant::now();
            let answers = connection.call_all(&batch, deadline).map_err(cause)?;
            pace.took(batch.len(), began.elapsed());
            next += batch.len() as u64;
            let bytes = batch.iter().map(|(request, _)| u64::from(request.len));
            let bytes = bytes.sum::<u64>();
            let mut state = self.state();
            state.history.replayed_bytes += bytes;
            // The server refused some of it.
            state.sync_failed |= answers.iter().any(Result::is_err);
            drop(state);
            uncovered += bytes;
            if uncovered >= REPLAY_FLUSH || since.elapsed() >= time / 4 {
                self.cover(next, connection, deadline)?;
                uncovered = 0;
                since = Instant::now();
            }
        }
    }

    /// Flushes the entries that have been written again, and forgets them: all below `end`.
    fn cover(&self, end: u64, connection: &Connection, deadline: Instant) -> io::Result<()> {
        let flush = request(Command::Flush, 0, 0);
        let flushed = connection.call(flush, &[], &mut [], deadline);
        let mut state = self.state();
        match flushed {
            Ok(()) => {}
            Err(Failure::Refused(_)) => state.sync_failed = true,
            Err(lost) => return Err(cause(lost)),
        }
        state.journal.forget(end);
        Ok(())
    }
}

/// Number of writes that are sent ahead of their replies.
struct Pace {
    most: usize,
    /// Time within which replies count as soon.
    soon: Duration,
}

impl Pace {
    /// The pace of an attempt that has `time` left.
    fn new(time: Duration) -> Self {
        Self {
            most: 1,
            soon: time / 16,
        }
    }

    /// Adapts the pace: `writes` writes together took `time`.
    fn took(&mut self, writes: usize, time: Duration) {
        if time > self.soon {
            self.most = (self.most / 2).max(1);
        } else if writes >= self.most {
            self.most = (self.most * 2).min(BATCH);
        }
    }
}

/// Returns the error for which a journal could not be written again.
fn cause(failure: Failure) -> io::Error {
    match failure {
        Failure::Lost(error) => as_error(&error),
        Failure::Refused(error) => error_of(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quick_server_gets_more_at_a_time_and_a_slow_one_less() {
        let mut pace = Pace::new(Duration::from_secs(16));
        let (quick, slow) = (Duration::from_millis(1), Duration::from_secs(2));
        let mut most = Vec::new();
        for _ in 0..7 {
            pace.took(pace.most, quick);
            most.push(pace.most);
        }
        assert_eq!(most, [2, 4, 8, 16, 32, 64, 64]);
        // Fewer than there might have been say nothing about more.
        pace.took(1, slow);
        pace.took(1, quick);
        assert_eq!(pace.most, 32);
        for _ in 0..7 {
            pace.took(pace.most, slow);
        }
        assert_eq!(pace.most, 1);
    }
}
