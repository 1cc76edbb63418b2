//! HTTP/1.1 over TLS in user space: files are read into the payload of records, encrypted there, and sent.

use tokio::net::TcpStream;

use super::batch::{Batch, RECORDS};
use super::error::TransportError;
use super::fill::fill;
use super::pool::{Lease, PoolHandle};
use super::socket::{receive, send_all, send_from, send_now, send_some};
use crate::http::Body;
use crate::limits::Limits;
use crate::tls::{Accepted, Opened, Session, TlsError};

/// Limit on the bytes for a slow client that are moved to a buffer of their own, so that the pool's buffer is free for
/// another connection.
const UNSENT_COPY_MAX: usize = 32 << 10;

/// A connection whose TLS records are made in user space.
pub(crate) struct Secure {
    socket: TcpStream,
    session: Session,
    /// Received bytes that are not decrypted yet.
    wire: Vec<u8>,
    /// Encrypted alerts and handshake messages that are not sent yet.
    control: Vec<u8>,
    /// Number of records that are sent with one call: one for a slow client, since unsent bytes occupy memory.
    records: usize,
}

impl Secure {
    /// Continues a connection after its handshake, with the bytes that were received after it.
    pub(crate) fn new(socket: TcpStream, accepted: Accepted) -> Self {
        Self {
            socket,
            session: accepted.session,
            wire: accepted.incoming,
            control: Vec::new(),
            records: RECORDS,
        }
    }

    pub(super) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Appends received data to `inbox`; returns 0 at the end of the client's data.
    pub(super) async fn receive(
        &mut self,
        inbox: &mut Vec<u8>,
        limits: &Limits,
    ) -> Result<usize, TransportError> {
        let had = inbox.len();
        loop {
            let opened = self.open(inbox);
            // That may be the alert for an error of the client.
            self.send_control(opened.as_ref().err(), limits).await?;
            let open = opened?;
            if !open || inbox.len() > had {
                return Ok(inbox.len() - had);
            }
            let received = receive(&mut self.socket, &mut self.wire).await;
            if received.map_err(TransportError::Client)? == 0 {
                return Ok(0);
            }
        }
    }

    /// Decrypts the complete records; returns false at the end of the client's data.
    fn open(&mut self, inbox: &mut Vec<u8>) -> Result<bool, TlsError> {
        let mut done = 0;
        let open = loop {
            let rest = &mut self.wire[done..];
            match self.session.open(rest)? {
                Opened::Data { at, taken } => {
                    inbox.extend_from_slice(&rest[at]);
                    done += taken;
                }
                Opened::Nothing { taken } => done += taken,
                Opened::Incomplete(_) => break true,
                Opened::Closed => break false,
            }
        };
        self.wire.drain(..done);
        if self.wire.is_empty() {
            // An idle connection holds no buffer.
            self.wire = Vec::new();
        }
        Ok(open)
    }

    /// Sends the alerts and handshake messages that are due. If the future is dropped, the rest is sent first the next
    /// time.
    async fn send_control(
        &mut self,
        fault: Option<&TlsError>,
        limits: &Limits,
    ) -> Result<(), TransportError> {
        let mut spent = None;
        match fault {
            Some(fault) => self.session.fail(fault, &mut self.control),
            None if self.session.control_is_due() => {
                if let Err(error) = self.session.control(&mut self.control) {
                    // The key is used up and cannot be changed: the client is told that the connection ends.
                    self.session.fail(&error, &mut self.control);
                    spent = Some(error);
                }
            }
            None => {}
        }
        send_from(&self.socket, &mut self.control, limits).await?;
        spent.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Sends the head and the body of an answer.
    pub(super) async fn send(
        &mut self,
        mut head: &[u8],
        body: &mut Body,
        pool: PoolHandle<'_>,
        limits: &Limits,
    ) -> Result<(), TransportError> {
        while !head.is_empty() || body.length() > 0 {
            self.send_control(None, limits).await?;
            let before_control = usize::try_from(self.session.records_left()).unwrap_or(RECORDS);
            let mut lease = pool.lend(self.records.min(before_control));
            let mut batch = Batch::new(lease.take(), self.session.layout(), lease.records());
            let copied = batch.put(head);
            head = &head[copied..];
            let batch = fill(batch, body, pool).await?;
            self.send_batch(batch, lease, limits).await?;
            if body.length() > 0 {
                tokio::task::yield_now().await;
            }
        }
        Ok(())
    }

    async fn send_batch(
        &mut self,
        mut batch: Batch,
        lease: Lease<'_>,
        limits: &Limits,
    ) -> Result<(), TransportError> {
        let records = batch.seal(&mut self.session)?;
        let sent = send_now(&self.socket, records)?;
        let mut left = &records[sent..];
        if left.is_empty() {
            self.records = (self.records * 2).min(RECORDS);
            lease.give_back(batch.into_buffer());
            return Ok(());
        }
        self.records = 1;
        while left.len() > UNSENT_COPY_MAX {
            let sent = send_some(&self.socket, left, false, limits).await?;
            left = &left[sent..];
        }
        let left = left.to_vec();
        lease.give_back(batch.into_buffer());
        send_all(&self.socket, &left, false, limits).await
    }

    /// Sends close_notify, without which a client cannot tell the end from a truncation.
    pub(super) async fn finish(&mut self, limits: &Limits) -> Result<(), TransportError> {
        self.session.close(&mut self.control);
        self.send_control(None, limits).await
    }
}
