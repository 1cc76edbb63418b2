//! One connection, shared by all threads that make requests.
//!
//! No thread of its own receives the replies. A thread that waits for a reply while no other thread
//! receives does so itself, and stores the replies to others for them, until its own has come; then
//! another waiting thread takes over. So a thread that is alone with the connection sends and receives
//! with two system calls, and no other thread is involved.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use scrim_nbd::client::{Command, Reply, ReplyError, Request};
use scrim_nbd::tls::Protection;
use scrim_nbd::wire::{SIMPLE_HEADER, WireError};

use super::pending::{Collected, PendingReplies, ReplyHandle};
use super::stream::{Stream, receive_some, remaining};

/// Number of bytes received at a time: the replies of many small requests, or most of a piece.
const INBOX: usize = 64 << 10;

/// Reason why a request was not carried out.
#[derive(Debug)]
pub(super) enum Failure {
    /// The connection is lost; it is unknown whether the server has carried out the request.
    Lost(Arc<io::Error>),
    /// The server answered with an error.
    Refused(WireError),
}

/// A connection after its handshake.
pub(super) struct Connection {
    stream: Stream,
    /// Held while a request is sent, so that its bytes stay together.
    sending: Mutex<()>,
    inbox: Mutex<Inbox>,
    pending: Mutex<PendingReplies>,
    /// Number of requests in flight.
    load: AtomicUsize,
}

impl Connection {
    pub(super) fn new(stream: Stream) -> Self {
        Self {
            stream,
            sending: Mutex::new(()),
            inbox: Mutex::new(Inbox::new()),
            pending: Mutex::new(PendingReplies::default()),
            load: AtomicUsize::new(0),
        }
    }

    /// Returns the protection of the connection's traffic; `None` if it is not encrypted.
    pub(super) fn protection(&self) -> Option<Protection> {
        self.stream.protection()
    }

    /// Returns the number of requests in flight.
    pub(super) fn load(&self) -> usize {
        self.load.load(Ordering::Relaxed)
    }

    /// Sends a request with its data, and waits for the reply, whose data fills `into`.
    pub(super) fn call(
        &self,
        request: Request,
        data: &[u8],
        into: &mut [u8],
        deadline: Instant,
    ) -> Result<(), Failure> {
        let _counted = Counted::new(&self.load);
        let handle = self.ask(request, data, into.len(), deadline)?;
        self.wait(&handle, into, deadline)
    }

    /// Sends several requests without waiting between them, and then waits for all. The server may
    /// carry them out in any order. Returns the result of each.
    pub(super) fn call_all(
        &self,
        requests: &[(Request, Vec<u8>)],
        deadline: Instant,
    ) -> Result<Vec<Result<(), WireError>>, Failure> {
        let asked: Result<Vec<_>, _> = requests
            .iter()
            .map(|(request, data)| self.ask(*request, data, 0, deadline))
            .collect();
        let answers =
            asked?
                .into_iter()
                .map(|handle| match self.wait(&handle, &mut [], deadline) {
                    Ok(()) => Ok(Ok(())),
                    Err(Failure::Refused(error)) => Ok(Err(error)),
                    Err(lost) => Err(lost),
                });
        answers.collect()
    }

    /// Cuts the connection: every request in flight fails.
    pub(super) fn cut(&self, why: io::Error) -> Failure {
        self.stream.cut();
        Failure::Lost(self.pending().close(why))
    }

    /// Tells the server that the connection ends, without waiting for anything.
    pub(super) fn say_goodbye(&self) {
        let request = Request {
            command: Command::Disconnect,
            offset: 0,
            len: 0,
        };
        self.stream.say_last(&request.to_bytes(0));
    }

    fn ask(
        &self,
        request: Request,
        data: &[u8],
        expected: usize,
        deadline: Instant,
    ) -> Result<ReplyHandle, Failure> {
        let handle = self.pending().register(expected).map_err(Failure::Lost)?;
        let header = request.to_bytes(handle.cookie());
        let sending = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = self.stream.send_all([&header, data], deadline);
        drop(sending);
        sent.map_err(|error| self.cut(error))?;
        Ok(handle)
    }

    /// Waits for a reply, and receives it if no other thread receives.
    fn wait(
        &self,
        handle: &ReplyHandle,
        into: &mut [u8],
        deadline: Instant,
    ) -> Result<(), Failure> {
        let mut pending = self.pending();
        loop {
            match pending.collect(handle) {
                Some(Collected::Reply(Ok(data))) => {
                    drop(pending);
                    into.copy_from_slice(&data);
                    if !data.is_empty() {
                        self.pending().give_back(handle, data);
                    }
                    return Ok(());
                }
                Some(Collected::Reply(Err(error))) => {
                    drop(pending);
                    return Err(self.refused(error));
                }
                Some(Collected::Lost(error)) => return Err(Failure::Lost(error)),
                None => {}
            }
            if pending.begin_receiving() {
                drop(pending);
                let received = self.receive(handle, into, deadline);
                // Cut first: the next thread to receive might begin in the middle of a reply.
                let received = received.map_err(|error| self.cut(error));
                self.pending().end_receiving(handle);
                return received?.map_err(|error| self.refused(error));
            }
            let Ok(left) = remaining(deadline) else {
                drop(pending);
                return Err(self.cut(io::ErrorKind::TimedOut.into()));
            };
            pending.park(handle);
            let woken = handle.wake.wait_timeout(pending, left);
            (pending, _) = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Converts a refusal. A server that shuts down counts as lost: it may come back.
    fn refused(&self, error: WireError) -> Failure {
        match error {
            WireError::Shutdown => self.cut(io::Error::other("the server is shutting down")),
            error => Failure::Refused(error),
        }
    }

    /// Receives replies until that of `handle` has come, and then those that have come with it.
    fn receive(
        &self,
        handle: &ReplyHandle,
        into: &mut [u8],
        deadline: Instant,
    ) -> io::Result<Result<(), WireError>> {
        let mut inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let reply = inbox.reply(&self.stream, deadline)?;
            if reply.cookie != handle.cookie() {
                self.hand_out(&mut inbox, reply, deadline)?;
                continue;
            }
            let answer = match reply.error {
                None => Ok(inbox.fill(&self.stream, into, deadline)?),
                Some(error) => Err(error),
            };
            if !inbox.filled().is_empty() {
                self.pending().received(handle);
            }
            while self.has_another(&inbox)? {
                let reply = inbox.reply(&self.stream, deadline)?;
                self.hand_out(&mut inbox, reply, deadline)?;
            }
            return Ok(answer);
        }
    }

    /// Checks whether a whole reply to another thread has been received already.
    fn has_another(&self, inbox: &Inbox) -> io::Result<bool> {
        let Some(header) = inbox.filled().first_chunk() else {
            return Ok(false);
        };
        let reply = Reply::parse(header).map_err(broken)?;
        let expected = match reply.error {
            None => self.pending().expected(reply.cookie).map_err(broken)?,
            Some(_) => 0,
        };
        Ok(inbox.filled().len() - SIMPLE_HEADER >= expected)
    }

    /// Gives a reply to the thread that waits for it.
    fn hand_out(&self, inbox: &mut Inbox, reply: Reply, deadline: Instant) -> io::Result<()> {
        let buffer = self.pending().buffer(reply.cookie);
        let mut data = buffer.map_err(broken)?;
        let answer = match reply.error {
            None => {
                inbox.fill(&self.stream, &mut data, deadline)?;
                Ok(data)
            }
            Some(error) => Err(error),
        };
        self.pending().deliver(reply.cookie, answer);
        Ok(())
    }

    fn pending(&self) -> MutexGuard<'_, PendingReplies> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn broken(error: ReplyError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// A request in flight, as long as it lives.
struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn new(load: &'a AtomicUsize) -> Self {
        load.fetch_add(1, Ordering::Relaxed);
        Self(load)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Received bytes that have not been taken yet.
struct Inbox {
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Inbox {
    fn new() -> Self {
        Self {
            buffer: vec![0; INBOX].into_boxed_slice(),
            start: 0,
            end: 0,
        }
    }

    fn filled(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Takes a reply without its data.
    fn reply(&mut self, stream: &Stream, deadline: Instant) -> io::Result<Reply> {
        loop {
            if let Some(header) = self.filled().first_chunk() {
                let reply = Reply::parse(header).map_err(broken)?;
                self.start += SIMPLE_HEADER;
                return Ok(reply);
            }
            // What is left is less than a header.
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            let into = &mut self.buffer[self.end..];
            self.end += receive_some(stream, into, deadline)?;
        }
    }

    /// Fills `into`, with bytes that have come and then straight from the socket.
    fn fill(&mut self, stream: &Stream, into: &mut [u8], deadline: Instant) -> io::Result<()> {
        let here = self.filled().len().min(into.len());
        let (first, mut rest) = into.split_at_mut(here);
        first.copy_from_slice(&self.filled()[..here]);
        self.start += here;
        while !rest.is_empty() {
            let len = receive_some(stream, rest, deadline)?;
            rest = rest.get_mut(len..).unwrap_or_default();
        }
        Ok(())
    }
}
