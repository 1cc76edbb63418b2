//! A connection's TLS, between its socket and its two buffers.
//!
//! Records are received into a buffer of their own, decrypted there, and their plaintext is copied to
//! the inbox, where it lies without gaps and is encrypted for the disk in place. Replies go the other
//! way, four records a system call.

use std::os::fd::OwnedFd;

use scrim_nbd::tls::{Protection, ServerTls, Session, TlsError, Wire};

use super::link::{End, Inbox, send_all, try_receive};
use super::meter::Meter;

/// The TLS of one connection.
pub(super) struct Secured {
    session: Session,
    incoming: Wire,
    outgoing: Wire,
}

impl Secured {
    pub(super) fn new(tls: &ServerTls) -> Result<Self, TlsError> {
        Ok(Self {
            session: tls.session()?,
            incoming: Wire::to_receive(),
            outgoing: Wire::to_send(),
        })
    }

    pub(super) fn protection(&self) -> Option<Protection> {
        self.session.protection()
    }

    /// Does what the handshake can do with what has come; whether it is over.
    pub(super) fn shake_hands(
        &mut self,
        socket: &OwnedFd,
        inbox: &mut Inbox,
        meter: &Meter,
    ) -> Result<bool, End> {
        self.open(socket, inbox, meter)?;
        Ok(!self.session.is_handshaking())
    }

    /// Receives records without waiting; whether there were any.
    pub(super) fn receive(&mut self, socket: &OwnedFd, meter: &Meter) -> Result<bool, End> {
        match try_receive(socket, self.incoming.room())? {
            None => Ok(false),
            Some(len) => {
                self.incoming.advance(len);
                meter.received();
                Ok(true)
            }
        }
    }

    /// Receives and decrypts without waiting; whether there was any data. It receives at most once: a
    /// client that sends records without data must not keep the thread from looking at the time.
    pub(super) fn try_receive(
        &mut self,
        socket: &OwnedFd,
        inbox: &mut Inbox,
        meter: &Meter,
    ) -> Result<bool, End> {
        if self.open(socket, inbox, meter)? {
            return Ok(true);
        }
        Ok(self.receive(socket, meter)? && self.open(socket, inbox, meter)?)
    }

    /// Decrypts what is here into the inbox; whether it was any data. Alerts and the like are sent at
    /// once.
    fn open(&mut self, socket: &OwnedFd, inbox: &mut Inbox, meter: &Meter) -> Result<bool, End> {
        if self.incoming.is_empty() && !self.session.is_handshaking() {
            return self.more_may_come();
        }
        meter.copied(inbox.make_room());
        let opened = self.session.open(&mut self.incoming, inbox.room());
        if self.session.has_pending() {
            self.send_pending(socket, meter)?;
        }
        let len = opened?;
        inbox.received(len);
        meter.copied(len);
        if len > 0 {
            return Ok(true);
        }
        self.more_may_come()
    }

    fn more_may_come(&self) -> Result<bool, End> {
        if self.session.peer_has_closed() {
            return Err(End::Gone);
        }
        Ok(false)
    }

    /// Encrypts and sends `data`. Blocks while the client does not read, as without TLS.
    pub(super) fn send(
        &mut self,
        socket: &OwnedFd,
        mut data: &[u8],
        meter: &Meter,
    ) -> Result<(), End> {
        while !data.is_empty() {
            let sealed = self.session.seal(data, &mut self.outgoing)?;
            data = data.get(sealed..).unwrap_or_default();
            self.flush(socket, meter)?;
        }
        Ok(())
    }

    /// Says that nothing more comes.
    pub(super) fn close(&mut self, socket: &OwnedFd, meter: &Meter) -> Result<(), End> {
        self.session.close();
        self.send_pending(socket, meter)
    }

    fn send_pending(&mut self, socket: &OwnedFd, meter: &Meter) -> Result<(), End> {
        while self.session.has_pending() {
            self.session.take_pending(&mut self.outgoing);
            self.flush(socket, meter)?;
        }
        Ok(())
    }

    fn flush(&mut self, socket: &OwnedFd, meter: &Meter) -> Result<(), End> {
        meter.sent(send_all(socket, self.outgoing.filled())?);
        self.outgoing.consume(self.outgoing.filled().len());
        Ok(())
    }
}
