//! Flushes that several threads ask for at the same time.

use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// One flush at a time, which serves all threads that asked before it began. So no thread is told of success by a flush
/// beside one that failed, and many durable writes share a flush.
#[derive(Default)]
pub(super) struct Flushes {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    in_flight: bool,
    /// Number of flushes that have begun.
    begun: u64,
    /// Number of the last flush that ended.
    done: u64,
    failed: Option<Failure>,
}

/// The first failure, which every later flush reports again.
#[derive(Clone, Copy)]
struct Failure {
    number: Option<i32>,
    kind: io::ErrorKind,
}

impl Flushes {
    /// Waits for a flush that begins from now on.
    ///
    /// # Errors
    /// The error of `flush`, of this or of an earlier call.
    pub(super) fn flush(&self, flush: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let mut state = self.state();
        let wanted = state.begun + 1;
        loop {
            if let Some(failure) = state.failed {
                return Err(failure.into());
            }
            if state.done >= wanted {
                return Ok(());
            }
            if !state.in_flight {
                break;
            }
            state = self
                .ended
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.in_flight = true;
        state.begun += 1;
        let number = state.begun;
        drop(state);
        let flushed = flush();
        let mut state = self.state();
        state.in_flight = false;
        state.done = number;
        if let Err(error) = &flushed {
            state.failed = Some(Failure {
                number: error.raw_os_error(),
                kind: error.kind(),
            });
        }
        self.ended.notify_all();
        flushed
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<Failure> for io::Error {
    fn from(failure: Failure) -> Self {
        match failure.number {
            Some(number) => Self::from_raw_os_error(number),
            None => failure.kind.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_failure_is_final() {
        let flushes = Flushes::default();
        flushes.flush(|| Ok(())).unwrap();
        let failed = flushes.flush(|| Err(io::Error::from_raw_os_error(108)));
        assert_eq!(failed.unwrap_err().raw_os_error(), Some(108));
        let again = flushes.flush(|| panic!("it has failed before"));
        assert_eq!(again.unwrap_err().raw_os_error(), Some(108));
    }

    #[test]
    fn those_who_wait_share_the_next_flush() {
        let flushes = Flushes::default();
        let count = AtomicUsize::new(0);
        let (begun, has_begun) = mpsc::channel();
        let (end, may_end) = mpsc::channel();
        std::thread::scope(|scope| {
            let (flushes, count) = (&flushes, &count);
            scope.spawn(move || {
                let first = flushes.flush(|| {
                    begun.send(()).unwrap();
                    may_end.recv().unwrap();
                    Ok(())
                });
                first.unwrap();
            });
            has_begun.recv().unwrap();
            let waiting = (0..8).map(|_| {
                scope.spawn(move || {
                    let counted = flushes.flush(|| {
                        count.fetch_add(1, Ordering::Relaxed);
                        Ok(())
                    });
                    counted.unwrap();
                })
            });
            let waiting: Vec<_> = waiting.collect();
            end.send(()).unwrap();
            waiting
                .into_iter()
                .for_each(|thread| thread.join().unwrap());
        });
        // The first flush began before the others were asked for, unless a thread came late.
        assert!((1..=8).contains(&count.load(Ordering::Relaxed)));
    }
}
