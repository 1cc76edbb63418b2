//! A connection's socket with its two buffers.
//!
//! One system call receives as many requests as have come, one sends as many replies as are ready.
//! Nothing waits for the client while replies to it are still here: [`Link::require`] sends first.
//!
//! A thread that waits for a client must hold nothing that another client's request waits for. So every call that may
//! wait takes the proof of that, [`Settled`], which a queue gives only while nothing is in flight; the other calls
//! are named `try_…` and never wait, also not to send what TLS has to say. A wait beside a queue ends with
//! [`End::OtherTable`] once its table is retired. Nothing is lost then: the same call goes on where this one has
//! ended.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use scrim_nbd::tls::{Protection, ServerTls, TlsError};
use scrim_sys::memory::DataBuffer;
use scrim_volume::queue::Settled;

use super::budget::Budget;
use super::limits;
use super::meter::Meter;
use super::status::ProtocolError;
use super::stop::Stop;
use super::tls::Secured;
use super::wait::{self, Window};

/// Reason for which a connection, or the way of serving it, ends.
#[derive(Debug, PartialEq)]
pub(super) enum End {
    /// The client said goodbye or went away, or its socket failed.
    Gone,
    /// The server stops.
    Stopping,
    /// The connection does not end: the volume has another table, for which another way of serving may be better, or
    /// holds a request, which waits without a queue.
    OtherTable,
    /// The handshake took too long.
    Deadline,
    /// The client broke the protocol.
    Protocol(ProtocolError),
    /// TLS came to an end: the client's certificate or records were refused, or it refused ours.
    Tls(TlsError),
}

impl From<ProtocolError> for End {
    fn from(error: ProtocolError) -> Self {
        Self::Protocol(error)
    }
}

impl From<TlsError> for End {
    fn from(error: TlsError) -> Self {
        Self::Tls(error)
    }
}

/// Event that ends a wait for the client, besides data and the link's deadline.
#[derive(Debug, Clone, Copy)]
pub(super) enum Wait {
    /// The server stops: the client has no request in flight.
    Idle,
    /// None: the client is in the middle of a request.
    Within,
}

/// A socket with a receive and a send buffer.
pub(super) struct Link {
    socket: Arc<OwnedFd>,
    stop: Arc<Stop>,
    seats: Arc<Budget>,
    meter: Arc<Meter>,
    window: Window,
    /// `None` while the bytes on the socket are those of the protocol.
    tls: Option<Box<Secured>>,
    /// Time at which a wait for the client ends: in the handshake, and at the end of the
    /// connection.
    deadline: Option<Instant>,
    /// True if nothing more is asked of the client than to take what is due.
    is_farewell: bool,
    pub(super) inbox: Inbox,
    pub(super) outbox: Outbox,
}

impl Link {
    /// A link for the handshake, which has to be over at the `deadline`.
    pub(super) fn new(
        socket: Arc<OwnedFd>,
        stop: Arc<Stop>,
        seats: Arc<Budget>,
        meter: Arc<Meter>,
        deadline: Instant,
    ) -> Self {
        Self {
            socket,
            stop,
            seats,
            meter,
            window: Window::new(Instant::now()),
            tls: None,
            deadline: Some(deadline),
            is_farewell: false,
            inbox: Inbox::new(),
            outbox: Outbox::new(),
        }
    }

    /// Lets the client take as long as it likes from here on, and makes buffers for its requests; `None` if there
    /// is no memory for them.
    pub(super) fn end_handshake(&mut self) -> Option<()> {
        self.deadline = None;
        self.inbox.widen()?;
        self.outbox.widen(limits::SEND_BUFFER)
    }

    /// Asks nothing more of the client from here on than to take what is due, some of it in each
    /// [`limits::FAREWELL`]. What is left of the handshake's time is not prolonged.
    pub(super) fn begin_farewell(&mut self) {
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
    pub(super) fn count_copy(&self, bytes: usize) {
        self.meter.copied(bytes);
    }

    /// Counts a wait for the client that is not the link's own.
    pub(super) fn count_sleep(&self) {
        self.meter.slept();
    }

    /// Begins TLS for all bytes from here on; returns when its handshake is over. What is in the
    /// outbox is sent before, as it is.
    pub(super) fn start_tls(&mut self, tls: &ServerTls, settled: Settled<'_>) -> Result<(), End> {
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
    pub(super) fn protection(&self) -> Option<Protection> {
        self.tls.as_ref().and_then(|tls| tls.protection())
    }

    /// Returns whether all bytes go under TLS.
    pub(super) fn is_secure(&self) -> bool {
        self.tls.is_some()
    }

    /// Sends what is due and says goodbye, if anyone still listens.
    pub(super) fn close(&mut self, settled: Settled<'_>) {
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
    pub(super) fn is_stopping(&self) -> bool {
        self.stop.is_raised()
    }

    /// Waits until at least `len` bytes are in the inbox. `len` is at most its capacity.
    pub(super) fn require(
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
    pub(super) fn skip(&mut self, len: u32, wait: Wait, settled: Settled<'_>) -> Result<(), End> {
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

    /// Makes room for `len` bytes in the outbox, sending what is in it where it must. `len` is at
    /// most its capacity.
    pub(super) fn make_room(&mut self, len: usize, settled: Settled<'_>) -> Result<(), End> {
        if self.outbox.spare().len() < len {
            self.send(settled)?;
        }
        Ok(())
    }

    /// Checks whether the outbox can hold `len` bytes. Where they do not fit, it becomes the one for long replies,
    /// if there is memory for that.
    pub(super) fn can_hold(&mut self, len: usize, settled: Settled<'_>) -> Result<bool, End> {
        if len > self.outbox.capacity() && self.outbox.capacity() < limits::LONG_SEND_BUFFER {
            self.send(settled)?;
            // Without that memory it goes out in pieces.
            let _ = self.outbox.widen(limits::LONG_SEND_BUFFER);
        }
        Ok(len <= self.outbox.capacity())
    }

    /// Returns whether something is to be sent.
    pub(super) fn has_to_send(&self) -> bool {
        let tls = self.tls.as_ref();
        !self.outbox.filled().is_empty() || tls.is_some_and(|tls| tls.has_to_send())
    }

    /// Sends what is in the outbox, and what TLS has to say.
    pub(super) fn send(&mut self, settled: Settled<'_>) -> Result<(), End> {
        self.transmit(None, Some(settled)).map(drop)
    }

    /// Sends as much of it as the socket takes without waiting; returns whether that was all.
    pub(super) fn try_send(&mut self) -> Result<bool, End> {
        self.transmit(None, None)
    }

    /// Sends what is in the outbox and then `data`, which is shortened to the part that was not
    /// taken.
    pub(super) fn send_with(&mut self, data: &mut &[u8], settled: Settled<'_>) -> Result<(), End> {
        self.send(settled)?;
        self.transmit(Some(data), Some(settled)).map(drop)
    }

    /// Sends what is in the outbox, and gives back memory that it has [grown](Self::grow) by.
    pub(super) fn send_kept(&mut self, settled: Settled<'_>) -> Result<(), End> {
        self.send(settled)?;
        self.outbox.shrink();
        Ok(())
    }

    /// Makes room for `len` bytes in the outbox without sending what is in it: it grows where it must.
    pub(super) fn grow(&mut self, len: usize) -> Result<(), End> {
        self.outbox.grow(len).ok_or(End::Gone)
    }

    /// Returns whether the outbox has memory that it should give back.
    pub(super) fn has_grown(&self) -> bool {
        self.outbox.has_grown
    }

    /// Puts `data` into the outbox behind what is to be sent.
    pub(super) fn keep(&mut self, data: &[u8]) -> Result<(), End> {
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
                // TLS may have something to say to records without data.
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

    /// Waits for data, or for what `wait` ends for.
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
        // Data that has come is looked at first: what was sent before the stop is still served.
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
    pub(super) fn learn(&mut self, start: Instant) {
        self.window.learn(start.elapsed());
    }

    /// Looks for data until the window closes, which opened at `start`.
    pub(super) fn poll_socket(&mut self, start: Instant) -> Result<bool, End> {
        let window = self.window.length(start);
        if window.is_zero() {
            return Ok(false);
        }
        let seats = Arc::clone(&self.seats);
        let Some(_seat) = seats.take(1) else {
            return Ok(false);
        };
        loop {
            wait::pause();
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
    pub(super) fn try_receive(&mut self) -> Result<bool, End> {
        if let Some(tls) = &mut self.tls {
            return tls.try_receive(&self.socket, &mut self.inbox, &self.meter);
        }
        self.meter.copied(self.inbox.make_room());
        match try_receive(&self.socket, self.inbox.room())? {
            None => Ok(false),
            Some(len) => {
                self.inbox.received(len);
                self.meter.received();
                Ok(true)
            }
        }
    }
}

/// Receives what has come, without waiting; returns its length, or `None` if nothing has come.
pub(super) fn try_receive(socket: &OwnedFd, room: &mut [u8]) -> Result<Option<usize>, End> {
    loop {
        return match recv(socket, &mut *room, RecvFlags::DONTWAIT) {
            Ok((_, 0)) => Err(End::Gone),
            Ok((_, len)) => Ok(Some(len)),
            Err(Errno::AGAIN) => Ok(None),
            Err(Errno::INTR) => continue,
            Err(_) => Err(End::Gone),
        };
    }
}

/// Time left until `deadline`; `None` without a deadline. Fails once the deadline has passed.
pub(super) fn time_left(deadline: Option<Instant>) -> Result<Option<Timespec>, End> {
    let Some(deadline) = deadline else {
        return Ok(None);
    };
    match deadline.checked_duration_since(Instant::now()) {
        Some(left) if !left.is_zero() => Ok(Some(timespec(left))),
        _ => Err(End::Deadline),
    }
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}

/// Behaviour of a send while the client accepts no bytes.
#[derive(Clone, Copy)]
enum Sending<'q> {
    AtOnce,
    /// Waits until the deadline, if there is one. That holds up this client only.
    Waiting(Option<Instant>, Settled<'q>),
}

/// Sends the start of `data`, which is not empty; returns the number of bytes sent, or `None` if the socket takes none
/// now and `how` does not allow to wait.
fn send_some(socket: &OwnedFd, data: &[u8], how: Sending<'_>) -> Result<Option<usize>, End> {
    let flags = match how {
        Sending::Waiting(None, settled) if settled.retired().is_none() => SendFlags::NOSIGNAL,
        _ => SendFlags::NOSIGNAL | SendFlags::DONTWAIT,
    };
    loop {
        match (send(socket, data, flags), how) {
            (Ok(sent), _) => return Ok(Some(sent)),
            (Err(Errno::INTR), _) => {}
            (Err(Errno::AGAIN), Sending::AtOnce) => return Ok(None),
            (Err(Errno::AGAIN), Sending::Waiting(deadline, settled)) => {
                let timeout = time_left(deadline)?;
                let retired = settled.retired().map_or_else(
                    || PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::empty()),
                    |file| PollFd::from_borrowed_fd(file, PollFlags::IN),
                );
                let mut sources = [PollFd::new(socket, PollFlags::OUT), retired];
                let _ = poll(&mut sources, timeout.as_ref());
                let [room, retired] = sources.map(|source| source.revents());
                if room.is_empty() && retired.contains(PollFlags::IN) {
                    return Err(End::OtherTable);
                }
            }
            (Err(_), _) => return Err(End::Gone),
        }
    }
}

/// Received bytes that no request has taken yet.
pub(super) struct Inbox {
    buffer: DataBuffer,
    start: usize,
    end: usize,
}

impl Inbox {
    fn new() -> Self {
        Self {
            buffer: DataBuffer::zeroed(limits::HANDSHAKE_BUFFER),
            start: 0,
            end: 0,
        }
    }

    /// Takes the buffer for requests; `None` if there is no memory for it.
    fn widen(&mut self) -> Option<()> {
        let mut wide = DataBuffer::try_zeroed(limits::RECEIVE_BUFFER)?;
        let left = self.start..self.end;
        wide[..left.len()].copy_from_slice(&self.buffer[left.clone()]);
        (self.start, self.end) = (0, left.len());
        self.buffer = wide;
        Some(())
    }

    pub(super) fn len(&self) -> usize {
        self.end - self.start
    }

    /// The first `N` bytes, if they are there.
    pub(super) fn first<const N: usize>(&self) -> Option<&[u8; N]> {
        self.buffer[self.start..self.end].first_chunk()
    }

    /// Takes the first `len` bytes, at most as many as there are. They stay where they are until
    /// more is received.
    pub(super) fn take(&mut self, len: usize) -> &mut [u8] {
        let taken = self.start..self.start + len.min(self.len());
        self.start = taken.end;
        &mut self.buffer[taken]
    }

    /// Makes room to receive to; tells how many bytes were moved for it. What is left moves to the front
    /// when the buffer is half used up; it is never more than part of one request.
    pub(super) fn make_room(&mut self) -> usize {
        let left = self.len();
        let used_up = self.end > self.buffer.len() / 2;
        if left > 0 && !used_up {
            return 0;
        }
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, left);
        left
    }

    /// Free part of the buffer, into which the next bytes are received.
    pub(super) fn room(&mut self) -> &mut [u8] {
        &mut self.buffer[self.end..]
    }

    pub(super) fn received(&mut self, len: usize) {
        self.end += len;
    }
}

/// Replies that are ready to be sent.
pub(super) struct Outbox {
    buffer: DataBuffer,
    /// Number of bytes that have been sent.
    sent: usize,
    len: usize,
    /// True if it has memory only for what is in it now.
    has_grown: bool,
}

impl Outbox {
    fn new() -> Self {
        Self {
            buffer: DataBuffer::zeroed(limits::HANDSHAKE_BUFFER),
            sent: 0,
            len: 0,
            has_grown: false,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    fn capacity(&self) -> usize {
        self.buffer.len()
    }

    /// Takes a buffer of `len` bytes; nothing is in the present one. `None` where there is no memory for it.
    fn widen(&mut self, len: usize) -> Option<()> {
        self.buffer = DataBuffer::try_zeroed(len)?;
        self.clear();
        Some(())
    }

    /// Makes room for `len` more bytes, whatever the capacity was; `None` if there is no memory for them.
    fn grow(&mut self, len: usize) -> Option<()> {
        if self.spare().len() >= len {
            return Some(());
        }
        let due = self.filled().len();
        let mut larger = DataBuffer::try_zeroed(due + len)?;
        larger[..due].copy_from_slice(self.filled());
        self.buffer = larger;
        (self.sent, self.len) = (0, due);
        self.has_grown = true;
        Some(())
    }

    /// Gives back memory that it has grown by; there is nothing in it.
    fn shrink(&mut self) {
        if std::mem::take(&mut self.has_grown) {
            // Without memory for another one it stays as it is.
            let _ = self.widen(limits::SEND_BUFFER);
        }
    }

    /// The part that is still free.
    pub(super) fn spare(&mut self) -> &mut [u8] {
        &mut self.buffer[self.len..]
    }

    /// Counts the first `len` bytes of [`Outbox::spare`] as filled.
    pub(super) fn advance(&mut self, len: usize) {
        self.len += len.min(self.buffer.len() - self.len);
    }

    /// Appends `bytes`, for which there is room.
    pub(super) fn put(&mut self, bytes: &[u8]) {
        self.spare()[..bytes.len()].copy_from_slice(bytes);
        self.advance(bytes.len());
    }

    fn filled(&self) -> &[u8] {
        &self.buffer[self.sent..self.len]
    }

    fn clear(&mut self) {
        (self.sent, self.len) = (0, 0);
    }
}
