//! Waiting for calls that end only when the storage answers, and giving up when it does not.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use scrim_sys::apart::spawn_apart;

use super::session::Session;

/// Pause between two looks at whether requests are being answered.
const LOOK: Duration = Duration::from_millis(100);

/// A wait that lasts while the storage of a session answers requests, and ends some time after the last answer.
///
/// The kernel may need minutes to write its cache to a slow storage, so the whole wait has no limit.
pub struct StallLimit {
    /// `None` for a wait that ends after the limit in any case.
    session: Option<Arc<Session>>,
    limit: Duration,
    /// True if time in which no request waits does not count.
    only_requests: bool,
    answered: u64,
    since: Instant,
}

impl StallLimit {
    /// Starts a wait that ends once `session` has answered nothing for `limit`.
    pub(super) fn new(session: &Arc<Session>, limit: Duration) -> Self {
        Self {
            session: Some(Arc::clone(session)),
            ..Self::fixed(limit)
        }
    }

    /// Starts a wait that ends after `limit`.
    pub(super) fn fixed(limit: Duration) -> Self {
        Self {
            session: None,
            limit,
            only_requests: false,
            answered: 0,
            since: Instant::now(),
        }
    }

    /// Leaves out time in which no request waits for the storage: a program that computes is not held up by it.
    #[must_use]
    pub fn of_requests_only(self) -> Self {
        Self {
            only_requests: true,
            ..self
        }
    }

    /// Returns whether nothing was answered for too long.
    pub fn is_over(&mut self) -> bool {
        let session = self.session.as_ref();
        // Not what is answered from memory, such as attributes.
        let answered = session.map_or(0, |session| {
            let traffic = session.traffic();
            traffic.requests() + traffic.failed
        });
        let is_idle = self.only_requests && session.is_some_and(|session| !session.is_serving());
        if is_idle || answered != self.answered {
            self.answered = answered;
            self.since = Instant::now();
        }
        self.since.elapsed() >= self.limit
    }

    /// Runs `work` on a thread of its own; `None` if the wait for it is over before it ends, after which it goes on alone.
    ///
    /// A process that is killed within a call of its own that waits for a file system it serves would never end, so such a
    /// thread has no descriptor of the FUSE device. `work` uses no descriptor but those that it opens. A helper program
    /// waits in a process of its own, and is started by an ordinary thread.
    pub(super) fn wait_for<T: Send + 'static>(
        &mut self,
        is_call: bool,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<Option<T>> {
        let (done, wait) = mpsc::channel();
        let run = move || {
            // Nobody receives it once the wait is over.
            let _ = done.send(work());
        };
        const NAME: &str = "fuse-unmount";
        match is_call {
            true => drop(spawn_apart(NAME, run)?),
            false => drop(thread::Builder::new().name(NAME.to_owned()).spawn(run)?),
        }
        loop {
            match wait.recv_timeout(LOOK) {
                Ok(result) => return Ok(Some(result)),
                Err(RecvTimeoutError::Timeout) if !self.is_over() => {}
                Err(_) => return Ok(None),
            }
        }
    }
}
