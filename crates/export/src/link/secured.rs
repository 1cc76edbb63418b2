//! A connection's TLS, between its socket and its two buffers.
//!
//! Records are received into a buffer of their own, decrypted there, and their plaintext is copied to
//! the inbox, where it has no gaps and is encrypted for the disk in place. Replies go the other
//! way, four records for each system call.

use std::os::fd::OwnedFd;

use scrim_nbd::tls::{Protection, ServerTls, Session, TlsError, Wire};

use super::buffers::Inbox;
use super::end::End;
use super::socket::try_receive;
use crate::meter::Meter;

/// The TLS of one connection. It never sends: records wait until [`Link`](super::Link) takes them. So do alerts, since
/// other clients may wait for locks that the thread holds when a broken record comes.
pub(crate) struct Secured {
    session: Session,
    incoming: Wire,
    outgoing: Wire,
}

impl Secured {
    pub(crate) fn new(tls: &ServerTls) -> Result<Self, TlsError> {
        Ok(Self {
            session: tls.session()?,
            incoming: Wire::to_receive(),
            outgoing: Wire::to_send(),
        })
    }

    pub(crate) fn protection(&self) -> Option<Protection> {
        self.session.protection()
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        self.session.is_handshaking()
    }

    /// Receives and decrypts without waiting, or continues the handshake; returns whether there was any data. It
    /// receives at most once: a client that sends records without data must not keep the thread from checking its
    /// deadline.
    pub(crate) fn try_receive(
        &mut self,
        socket: &OwnedFd,
        inbox: &mut Inbox,
        meter: &Meter,
    ) -> Result<bool, End> {
        if self.open(inbox, meter)? {
            return Ok(true);
        }
        let Some(len) = try_receive(socket, self.incoming.spare())? else {
            return Ok(false);
        };
        self.incoming.advance(len);
        meter.received();
        self.open(inbox, meter)
    }

    /// Decrypts the received records into the inbox; returns whether they had any data.
    fn open(&mut self, inbox: &mut Inbox, meter: &Meter) -> Result<bool, End> {
        if self.incoming.is_empty() && !self.session.is_handshaking() {
            return self.more_may_come();
        }
        meter.copied(inbox.compact());
        let len = self.session.open(&mut self.incoming, inbox.spare())?;
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

    /// Encrypts the start of `data` behind what waits to be sent, as much as fits; returns the number of bytes.
    pub(crate) fn seal(&mut self, data: &[u8]) -> Result<usize, End> {
        if data.is_empty() {
            self.session.take_pending(&mut self.outgoing);
            return Ok(0);
        }
        Ok(self.session.seal(data, &mut self.outgoing)?)
    }

    /// Records that are to be sent next.
    pub(crate) fn sealed(&self) -> &[u8] {
        self.outgoing.filled()
    }

    /// Forgets the first `len` bytes of [`Secured::sealed`].
    pub(crate) fn sent(&mut self, len: usize) {
        self.outgoing.consume(len);
    }

    /// Returns whether records wait to be sent.
    pub(crate) fn has_to_send(&self) -> bool {
        !self.outgoing.is_empty() || self.session.has_pending()
    }

    /// Encrypts the alert that ends the connection (`close_notify`); it waits to be sent.
    pub(crate) fn close(&mut self) {
        self.session.close();
    }
}
