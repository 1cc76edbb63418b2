//! A connection's socket with its two buffers.
//!
//! One system call receives all requests that have arrived, one sends all replies that are ready.
//! Nothing waits for the client while replies to it are still here: [`Link::require`] sends first.
//!
//! A thread that waits for a client must hold nothing that another client's request waits for. So every call that may
//! wait takes the proof of that, [`Settled`], which a queue gives only while nothing is in flight. The other calls
//! are named `try_…` and never wait, not even to send an alert of TLS. A wait beside a queue ends with
//! [`End::OtherTable`] once its table is retired. Nothing is lost then: the next call continues where this one ended.

mod buffers;
mod end;
mod secured;
mod socket;

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use scrim_nbd::tls::{Protection, ServerTls};
use scrim_volume::queue::Settled;

use crate::budget::Budget;
use crate::limits;
use crate::meter::Meter;
use crate::polling::{self, Window};
use crate::stop::Stop;

use buffers::{Inbox, Outbox};
use secured::Secured;
use socket::{Sending, send_some, try_receive};

pub(crate) use end::End;
pub(crate) use socket::time_left;

/// State of a client for which a link waits. It decides what ends the wait, besides data and the deadline.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Wait {
    /// The client has sent no part of a request. A stop of the server ends the wait.
    Idle,
    /// The client is in the middle of a request. A stop of the server does not end the wait; another table of the
    /// volume does, if a queue is waiting ([`End::OtherTable`]).
    Within,
}

/// A socket with a receive and a send buffer.
pub(crate) struct Link {
    socket: Arc<OwnedFd>,
    stop: Arc<Stop>,
    pollers: Arc<Budget>,
    meter: Arc<Meter>,
    window: Window,
    /// `None` while bytes are sent in plaintext.
    tls: Option<Box<Secured>>,
    /// Time at which a wait for the client ends: in the handshake, and at the end of the
    /// connection.
    deadline: Option<Instant>,
    /// True if the client only has to take the replies that are due.
    is_farewell: bool,
    pub(crate) inbox: Inbox,
    pub(crate) outbox: Outbox,
}

impl Link {
    /// A link for the handshake, which has to be over at the `deadline`.
    pub(crate) fn new(
        socket: Arc<OwnedFd>,
        stop: Arc<Stop>,
        pollers: Arc<Budget>,
        meter: Arc<Meter>,
        deadline: Instant,
    ) -> Self {
        Self {
            socket,
            stop,
            pollers,
            meter,
            window: Window::new(Instant::now()),
            tls: None,
            deadline: Some(deadline),
            is_farewell: false,
            inbox: Inbox::new(),
            outbox: Outbox::new(),
        }
    }

    /// Ends the handshake's deadline, and allocates the buffers for requests; `None` if there is no memory for them.
    pub(crate) fn end_handshake(&mut self) -> Option<()> {
        self.deadline = None;
        self.inbox.widen()?;
        self.outbox.widen(limits::SEND_BUFFER)
    }

    /// From here on the client only has to take the replies that are due, some of them in each [`limits::FAREWELL`].
    /// The deadline of a handshake is not prolonged.
    pub(crate) fn begin_farewell(&mut self) {
        if self.deadline.is_none() {
            self.is_farewell = true;
            self.prolong_farewell();
        }
    }

    fn prolong_farewell(&mut self) {
        if self.is_farewell {
            self.deadline = Instant::now().checked_add(limits::FAREWELL);
        }
    }

    /// Counts bytes that were moved in memory on their way through the link.
    pub(crate) fn count_copy(&self, bytes: usize) {
        self.meter.copied(bytes);
    }

    /// Counts a wait for the client that is not the link's own.
    pub(crate) fn count_sleep(&self) {
        self.meter.slept();
    }

    /// Begins TLS for all bytes from here on; returns when its handshake is over. The outbox is sent before, in
    /// plaintext.
    pub(crate) fn start_tls(&mut self, tls: &ServerTls, settled: Settled<'_>) -> Result<(), End> {
        self.send(settled)?;
        self.tls = Some(Box::new(Secured::new(tls)?));
        loop {
            self.try_receive()?;
            self.send(settled)?;
            if !self.tls.as_ref().is_some_and(|tls| tls.is_handshaking()) {
                return Ok(());
            }
            self.sleep(Wait::Idle, settled)?;
        }
    }

    /// Protection of the connection, under TLS.
    pub(crate) fn protection(&self) -> Option<Protection> {
        self.tls.as_ref().and_then(|tls| tls.protection())
    }

    /// Returns whether TLS has begun.
    pub(crate) fn is_secure(&self) -> bool {
        self.tls.is_some()
    }

    /// Sends what is due, and the alert that ends TLS, if the client still takes it.
    pub(crate) fn close(&mut self, settled: Settled<'_>) {
        self.begin_farewell();
        let _ = self.send(settled);
        if let Some(tls) = &mut self.tls {
            // After an error of TLS only the alert is sent.
            self.outbox.clear();
            tls.close();
            let _ = self.send(settled);
        }
    }

    /// Returns whether the server stops.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stop.is_raised()
    }

    /// Waits until at least `len` bytes are in the inbox. `len` is at most its capacity.
    pub(crate) fn require(
        &mut self,
        len: usize,
        wait: Wait,
        settled: Settled<'_>,
    ) -> Result<(), End> {
        while self.inbox.len() < len {
            self.send(settled)?;
            self.receive(wait, settled)?;
        }
        Ok(())
    }

    /// Receives and forgets `len` bytes.
    pub(crate) fn skip(&mut self, len: u32, wait: Wait, settled: Settled<'_>) -> Result<(), End> {
        let mut left = len as usize;
        loop {
            let now = left.min(self.inbox.len());
            self.inbox.take(now);
            left -= now;
            if left == 0 {
                return Ok(());
            }
            self.require(1, wait, settled)?;
        }
    }

    /// Sends what is in the outbox if `len` more bytes do not fit it. `len` is at most its capacity.
    pub(crate) fn reserve(&mut self, len: usize, settled: Settled<'_>) -> Result<(), End> {
        if self.outbox.spare().len() < len {
            self.send(settled)?;
        }
        Ok(())
    }

    /// Checks whether the outbox can hold `len` bytes. If not, it is replaced by the one for long replies, if there is
    /// memory for that.
    pub(crate) fn can_hold(&mut self, len: usize, settled: Settled<'_>) -> Result<bool, End> {
        if len > self.outbox.capacity() && self.outbox.capacity() < limits::LONG_SEND_BUFFER {
            self.send(settled)?;
            // Without that memory the reply is sent in pieces.
            let _ = self.outbox.widen(limits::LONG_SEND_BUFFER);
        }
        Ok(len <= self.outbox.capacity())
    }

    /// Returns whether something is to be sent.
    pub(crate) fn has_to_send(&self) -> bool {
        let tls = self.tls.as_ref();
        !self.outbox.filled().is_empty() || tls.is_some_and(|tls| tls.has_to_send())
    }

    /// Sends what is in the outbox, and waiting records of TLS.
    pub(crate) fn send(&mut self, settled: Settled<'_>) -> Result<(), End> {
        self.transmit(None, Some(settled)).map(drop)
    }

    /// Sends as much of that as the socket takes without waiting; returns whether it was all.
    pub(crate) fn try_send(&mut self) -> Result<bool, End> {
        self.transmit(None, None)
    }

    /// Sends what is in the outbox and then `data`, which is shortened to the part that was not
    /// taken.
    pub(crate) fn send_with(&mut self, data: &mut &[u8], settled: Settled<'_>) -> Result<(), End> {
        self.send(settled)?;
        self.transmit(Some(data), Some(settled)).map(drop)
    }

    /// Sends as much of that as the socket takes without waiting; `data` is shortened to the part that was not taken.
    pub(crate) fn try_send_with(&mut self, data: &mut &[u8]) -> Result<(), End> {
        if self.try_send()? {
            self.transmit(Some(data), None)?;
        }
        Ok(())
    }

    /// Sends what is in the outbox, and gives back the memory that it has [grown](Self::grow) by.
    pub(crate) fn send_kept(&mut self, settled: Settled<'_>) -> Result<(), End> {
        self.send(settled)?;
        self.outbox.shrink();
        Ok(())
    }

    /// Makes the outbox larger, without sending what is in it, if `len` more bytes do not fit it.
    pub(crate) fn grow(&mut self, len: usize) -> Result<(), End> {
        self.outbox.grow(len).ok_or(End::Gone)
    }

    /// Returns whether the outbox has memory that it should give back.
    pub(crate) fn has_grown(&self) -> bool {
        self.outbox.has_grown
    }

    /// Puts `data` into the outbox behind what is to be sent.
    pub(crate) fn keep(&mut self, data: &[u8]) -> Result<(), End> {
        self.grow(data.len())?;
        self.outbox.put(data);
        Ok(())
    }

    /// Sends `data`, or what is in the outbox; under TLS as records, behind those that wait. Returns whether that
    /// was all, which it is where the thread is settled and waits.
    fn transmit(
        &mut self,
        mut data: Option<&mut &[u8]>,
        settled: Option<Settled<'_>>,
    ) -> Result<bool, End> {
        loop {
            let from = match &data {
                Some(data) => data,
                None => self.outbox.filled(),
            };
            let mut taken = 0;
            let due = match &mut self.tls {
                None => from,
                Some(tls) => {
                    if tls.sealed().is_empty() {
                        taken = tls.seal(from)?;
                    }
                    tls.sealed()
                }
            };
            if due.is_empty() {
                self.outbox.clear();
                return Ok(true);
            }
            let how = match settled {
                None => Sending::AtOnce,
                Some(settled) => Sending::Waiting(self.deadline, settled),
            };
            let sent = send_some(&self.socket, due, how);
            let len = sent.as_ref().ok().copied().flatten().unwrap_or(0);
            match &mut self.tls {
                None => taken = len,
                Some(tls) => tls.sent(len),
            }
            // What is sealed has been taken, however the attempt to send it ended.
            match &mut data {
                Some(data) => **data = data.get(taken..).unwrap_or_default(),
                None => self.outbox.sent += taken,
            }
            if sent?.is_none() {
                return Ok(false);
            }
            self.meter.sent(1);
            self.prolong_farewell();
        }
    }

    fn receive(&mut self, wait: Wait, settled: Settled<'_>) -> Result<(), End> {
        if self.try_receive()? {
            return Ok(());
        }
        let start = Instant::now();
        if !self.poll_socket(start)? {
            loop {
                // Records without data may need an answer of TLS.
                self.send(settled)?;
                self.sleep(wait, settled)?;
                if self.try_receive()? {
                    break;
                }
            }
        }
        self.learn(start);
        Ok(())
    }

    /// Waits for data, or for another event that ends a wait of this kind.
    fn sleep(&self, wait: Wait, settled: Settled<'_>) -> Result<(), End> {
        self.meter.slept();
        let timeout = time_left(self.deadline)?;
        let unwatched = || PollFd::from_borrowed_fd(self.socket.as_fd(), PollFlags::empty());
        let retired = settled.retired();
        let mut sources = [
            PollFd::new(&self.socket, PollFlags::IN),
            match wait {
                Wait::Within => unwatched(),
                Wait::Idle => PollFd::new(&self.stop, PollFlags::IN),
            },
            retired.map_or_else(unwatched, |file| {
                PollFd::from_borrowed_fd(file, PollFlags::IN)
            }),
        ];
        match poll(&mut sources, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return Err(End::Gone),
        }
        let [data, stop, retired] = sources.map(|source| source.revents());
        // Data first: requests that were sent before the stop are still served.
        if !data.is_empty() {
            return Ok(());
        }
        if stop.contains(PollFlags::IN) {
            return Err(End::Stopping);
        }
        if retired.contains(PollFlags::IN) {
            return Err(End::OtherTable);
        }
        Ok(())
    }

    /// Learns from data that came after a wait which began at `start`.
    pub(crate) fn learn(&mut self, start: Instant) {
        self.window.learn(start.elapsed());
    }

    /// Polls for data until the window closes, which opened at `start`.
    pub(crate) fn poll_socket(&mut self, start: Instant) -> Result<bool, End> {
        let window = self.window.length(start);
        if window.is_zero() {
            return Ok(false);
        }
        let pollers = Arc::clone(&self.pollers);
        let Some(_taken) = pollers.take(1) else {
            return Ok(false);
        };
        loop {
            polling::pause();
            let offered = Instant::now();
            std::thread::yield_now();
            let now = Instant::now();
            let go_on = self.window.offered(offered, now);
            if self.try_receive()? {
                return Ok(true);
            }
            if !go_on || now.saturating_duration_since(start) >= window {
                return Ok(false);
            }
        }
    }

    /// Receives what has come, without waiting; returns whether there was anything.
    pub(crate) fn try_receive(&mut self) -> Result<bool, End> {
        if let Some(tls) = &mut self.tls {
            return tls.try_receive(&self.socket, &mut self.inbox, &self.meter);
        }
        self.meter.copied(self.inbox.compact());
        match try_receive(&self.socket, self.inbox.spare())? {
            None => Ok(false),
            Some(len) => {
                self.inbox.received(len);
                self.meter.received();
                Ok(true)
            }
        }
    }
}
