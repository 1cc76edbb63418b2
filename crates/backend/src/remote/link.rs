//! Requests to an export that outlast the loss of connections: the current session executes them, and when it
//! is lost, the first thread that notices makes another.
//!
//! A new session begins with the journal: every write that the server has acknowledged and no flush has covered is
//! written again, while no other thread is inside. Then the threads whose requests were in flight send them again.
//! All of them can be repeated without harm.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use scrim_nbd::client::{Export, Request};
use scrim_nbd::tls::Protection;
use scrim_nbd::wire::WireError;

use super::claims::Claims;
use super::connection::Failure;
use super::journal::Journal;
use super::outage::{Outage, as_error};
use super::round_trip::RoundTrip;
use super::session::{Changed, Dial, Session};
use super::stream::remaining;

/// Time for which requests on the other connections of a lost session may end by themselves: a server
/// that lives would otherwise carry them out later than the requests that follow them.
const GRACE: Duration = Duration::from_secs(1);

/// Number of bytes of a transfer for each of which, begun or whole, the limit of a request is granted once.
const PER_LIMIT: u64 = 2 << 20;

/// An export, through all sessions with its server.
pub(super) struct Link {
    dial: Dial,
    /// The export's properties at the first connection; they must stay the same.
    pub(super) export: Export,
    pub(super) round_trip: RoundTrip,
    state: Mutex<State>,
    /// Notified when a waiting thread may find what it waits for.
    changed: Condvar,
}

pub(super) struct State {
    /// `None` while the connection is lost.
    session: Option<Arc<Session>>,
    /// The lost session, until its last request has left it.
    lost: Option<Arc<Session>>,
    /// Number of requests in the session, or in the lost one.
    inside: usize,
    /// Outage from the loss of the connection until the server has answered a request again.
    outage: Option<Outage>,
    /// True if a thread tries to make another session.
    recovering: bool,
    pub(super) journal: Journal,
    pub(super) claims: Claims,
    /// True if acknowledged data is lost, which is final, as for a file.
    pub(super) sync_failed: bool,
    /// Everything below this number has been flushed.
    pub(super) flushed: u64,
    pub(super) history: History,
}

/// Counts of reconnections and of bytes that were written again.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct History {
    pub(super) reconnects: u64,
    pub(super) replayed_bytes: u64,
}

/// A request in a session.
struct Inside {
    session: Arc<Session>,
    /// Number below which a flush that is sent now covers every entry of the journal.
    acknowledged: u64,
}

impl Link {
    /// Connects for the first time, with a single attempt.
    pub(super) fn open(dial: Dial) -> io::Result<Self> {
        let (session, export) = Session::open(&dial, Instant::now() + dial.limit)?;
        Ok(Self {
            dial,
            export,
            round_trip: RoundTrip::default(),
            state: Mutex::new(State {
                session: Some(Arc::new(session)),
                lost: None,
                inside: 0,
                outage: None,
                recovering: false,
                journal: Journal::default(),
                claims: Claims::default(),
                sync_failed: false,
                flushed: 0,
                history: History::default(),
            }),
            changed: Condvar::new(),
        })
    }

    /// Returns the time by which a request that is made now has ended.
    pub(super) fn deadline(&self) -> Instant {
        Instant::now() + self.dial.limit
    }

    /// Deadline of a transfer of `len` bytes that begins now. A long transfer has more time, so that a slow
    /// network can carry it, but a time that does not depend on the server.
    pub(super) fn deadline_for(&self, len: u64) -> Instant {
        let parts = u32::try_from(len.div_ceil(PER_LIMIT)).unwrap_or(u32::MAX);
        Instant::now() + self.dial.limit.saturating_mul(parts.max(1))
    }

    /// Returns the number of connections, 0 while the session is lost, and the protection of their traffic.
    pub(super) fn connections(&self) -> (usize, Option<Protection>) {
        let state = self.state();
        let session = state.session.as_ref();
        session.map_or((0, None), |session| (session.len(), session.protection()))
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a change of the state, until the deadline.
    pub(super) fn wait<'a>(
        &'a self,
        state: MutexGuard<'a, State>,
        deadline: Instant,
    ) -> MutexGuard<'a, State> {
        let left = deadline.saturating_duration_since(Instant::now());
        let waited = self.changed.wait_timeout(state, left);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Notifies every waiting thread of a change.
    pub(super) fn tell(&self) {
        self.changed.notify_all();
    }

    /// Executes a request with its data, repeatedly until there is a reply, whose data fills `into`, or the deadline
    /// passes. `done` is called with the reply before any other change: the server's error, or the number below which a
    /// flush has covered all entries.
    ///
    /// # Errors
    /// The error for which there is no reply.
    pub(super) fn run<T>(
        &self,
        request: Request,
        data: &[u8],
        into: &mut [u8],
        deadline: Instant,
        done: impl FnOnce(&mut State, Result<u64, WireError>) -> T,
    ) -> io::Result<T> {
        let mut earlier = None;
        loop {
            let entered = self.enter(deadline);
            let inside = entered.map_err(|error| telling(error, earlier.as_ref()))?;
            let connection = inside.session.least_busy();
            let sent = Instant::now();
            let reply = match connection.call(request, data, into, deadline) {
                Ok(()) => {
                    self.round_trip.learn(request.len, sent.elapsed());
                    Ok(inside.acknowledged)
                }
                Err(Failure::Refused(error)) => Err(error),
                Err(Failure::Lost(error)) => {
                    let mut state = self.state();
                    state.lose(&inside.session, &error);
                    self.tell();
                    self.leave(state);
                    remaining(deadline).map_err(|_| telling(as_error(&error), earlier.as_ref()))?;
                    if error.kind() != io::ErrorKind::TimedOut {
                        earlier = Some(error);
                    }
                    continue;
                }
            };
            let mut state = self.state();
            if state.session.is_some() {
                state.outage = None;
            }
            let result = done(&mut state, reply);
            self.leave(state);
            return Ok(result);
        }
    }

    /// Waits for a session; makes one if it is lost and no other thread does.
    fn enter(&self, deadline: Instant) -> io::Result<Inside> {
        let mut state = self.state();
        loop {
            if let Some(session) = &state.session {
                let session = Arc::clone(session);
                state.inside += 1;
                return Ok(Inside {
                    session,
                    acknowledged: state.journal.next(),
                });
            }
            let now = Instant::now();
            let limit = self.dial.limit;
            if let Some(outage) = &state.outage {
                let soon = outage.wait(now).is_zero();
                if now >= deadline || (outage.is_lasting(now, limit) && !soon) {
                    return Err(outage.error());
                }
            }
            if state.recovering {
                state = self.wait(state, deadline);
            } else {
                state.recovering = true;
                state = self.recover(state, deadline);
                state.recovering = false;
                self.tell();
            }
        }
    }

    /// Takes a request out of its session. The last one to leave a lost session lets it be replaced.
    fn leave(&self, mut state: MutexGuard<'_, State>) {
        state.inside -= 1;
        if state.inside == 0 && state.session.is_none() {
            self.tell();
        }
    }

    /// Makes one attempt to have a session again, once no request is in the lost one.
    fn recover<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        deadline: Instant,
    ) -> MutexGuard<'a, State> {
        let grace_ends = deadline.min(Instant::now() + GRACE);
        while state.inside > 0 && Instant::now() < grace_ends {
            state = self.wait(state, grace_ends);
        }
        if let Some(lost) = state.lost.take() {
            lost.cut();
        }
        // Each of them returns at once after the cut.
        while state.inside > 0 {
            state = self.wait(state, Instant::now() + GRACE);
        }
        loop {
            let now = Instant::now();
            let wait = state
                .outage
                .as_ref()
                .map_or(Duration::ZERO, |o| o.wait(now));
            if now >= deadline {
                return state;
            }
            if wait.is_zero() {
                break;
            }
            state = self.wait(state, deadline.min(now + wait));
        }
        drop(state);
        let opened = self.open_again(deadline);
        let mut state = self.state();
        match opened {
            Ok(session) => {
                state.session = Some(Arc::new(session));
                state.history.reconnects += 1;
                if state.sync_failed {
                    state.give_up_syncing();
                }
            }
            Err(error) => {
                if let Some(outage) = &mut state.outage {
                    outage.attempt_failed(Instant::now(), error);
                }
            }
        }
        state
    }

    /// Connects, and writes again what the server may have lost.
    fn open_again(&self, deadline: Instant) -> io::Result<Session> {
        let (session, export) = Session::open(&self.dial, deadline)?;
        if export != self.export {
            let (before, now) = (self.export, export);
            return Err(io::Error::other(Changed { before, now }));
        }
        self.replay(session.least_busy(), deadline)?;
        Ok(session)
    }
}

impl State {
    /// Records that a request has found a session lost.
    fn lose(&mut self, session: &Arc<Session>, why: &Arc<io::Error>) {
        let current = self.session.as_ref();
        if current.is_some_and(|current| Arc::ptr_eq(current, session)) {
            self.lost = self.session.take();
            let now = Instant::now();
            match &mut self.outage {
                // The server accepted the connection, and answered nothing.
                Some(outage) => outage.attempt_failed(now, as_error(why)),
                None => self.outage = Some(Outage::begin(now, Arc::clone(why))),
            }
        }
    }

    /// Records that acknowledged data is lost: from now on every flush fails, and nothing is kept for one.
    pub(super) fn give_up_syncing(&mut self) {
        self.sync_failed = true;
        let end = self.journal.next();
        self.journal.forget(end);
    }
}

/// Returns the error of a request whose time is over: the error by which the connection was lost, if there is one,
/// which says more than a timeout.
fn telling(error: io::Error, earlier: Option<&Arc<io::Error>>) -> io::Error {
    match earlier {
        Some(earlier) if error.kind() == io::ErrorKind::TimedOut => as_error(earlier),
        _ => error,
    }
}

/// Translates a server's error into one of this system.
pub(super) fn error_of(error: WireError) -> io::Error {
    let errno = match error {
        WireError::Perm => Errno::PERM,
        WireError::NoMem => Errno::NOMEM,
        WireError::Inval => Errno::INVAL,
        WireError::NoSpc => Errno::NOSPC,
        WireError::NotSup => Errno::NOTSUP,
        WireError::Io | WireError::Shutdown => Errno::IO,
    };
    errno.into()
}
