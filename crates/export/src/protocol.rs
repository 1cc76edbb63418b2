//! The seam between a server and its protocol: all that a server's threads ask of the protocol.
//!
//! A server listens, accepts, counts and stops. It gives each client a thread, a [`Link`] and a place in the registry,
//! and each table of a volume a queue. The protocol greets, agrees on an export, and executes requests.

use std::sync::Arc;

use scrim_nbd::tls::ServerTls;
use scrim_volume::Volume;
use scrim_volume::queue::Queue;

use crate::budget::Budget;
use crate::export::Export;
use crate::link::{End, Link};
use crate::registry::Entry;

/// A protocol by which clients use exports.
pub(crate) trait Protocol: 'static {
    /// A client's breach of the protocol.
    type Error: Clone + Send + 'static;

    /// Properties of a connection on which its handshake has agreed.
    type Terms;

    /// Prefix of the names of the server's threads.
    const NAME: &'static str;

    /// Bytes that the server sends to a client first; they fit an empty socket's send buffer.
    const GREETING: &'static [u8];

    /// Carries out the rest of the handshake. On success the client has [taken its place](Entry::take_place).
    ///
    /// # Errors
    /// The reason for which the connection ends.
    fn negotiate(
        link: &mut Link,
        exports: &[Arc<Export>],
        tls: Option<&ServerTls>,
        entry: &Entry<Self::Error>,
    ) -> Result<Agreed<Self::Terms>, ClientEnd<Self::Error>>;

    /// Begins to serve the requests of a client that has agreed on an export.
    fn session<'a>(
        client: Client<'a, Self::Error>,
        terms: Self::Terms,
    ) -> impl Session<Self::Error>;
}

/// An export, and the terms on which a client uses it: the result of a handshake.
pub(crate) type Agreed<T> = (Arc<Export>, T);

/// A client whose handshake is over, with all that its requests need.
pub(crate) struct Client<'a, E> {
    pub(crate) link: Link,
    pub(crate) volume: &'a Volume,
    pub(crate) entry: &'a Entry<E>,
    /// Bytes left for reads of all connections that are collected before any of them is sent.
    pub(crate) read_buffers: &'a Budget,
}

/// The requests of one client. `E` is a breach of the protocol.
///
/// Requests are served with a queue, or by plain calls. A queue keeps its table in memory, with the keys. So a session
/// drops the queue once the volume has another table, or a request has to wait for the volume, and keeps what is left
/// to finish without a queue.
pub(crate) trait Session<E> {
    /// Records the generation of the table with which the next requests are served. Once the volume has a table of
    /// another generation, serving ends with [`End::OtherTable`] or [`Ended::Left`].
    fn begin_table(&mut self, generation: usize);

    /// Returns whether a queue has left anything to send or to finish.
    fn has_kept(&self) -> bool;

    /// Sends and finishes what a queue has left, without a queue.
    ///
    /// # Errors
    /// The reason for which the connection ends, or [`End::OtherTable`].
    fn finish_kept(&mut self) -> Result<(), End>;

    /// Returns whether a request has been received that is not begun.
    fn has_request(&self) -> bool;

    /// Serves one request by plain calls, waiting for it where none has been received.
    ///
    /// # Errors
    /// The reason for which the connection ends, or [`End::OtherTable`].
    fn serve_one(&mut self) -> Result<(), ClientEnd<E>>;

    /// Serves requests with `queue`, until the connection ends, the volume has another table, or a request has to wait
    /// for the volume. The queue is gone then.
    fn serve_queued(&mut self, queue: Queue<'_>) -> Ended<E>;

    /// Sends the replies that are due, and closes the connection in order.
    fn close(&mut self);
}

/// Reason for which a client is not served any more. `E` is a breach of the protocol.
pub(crate) enum ClientEnd<E> {
    Link(End),
    Protocol(E),
}

impl<E> From<End> for ClientEnd<E> {
    fn from(end: End) -> Self {
        Self::Link(end)
    }
}

/// The way in which serving with one table has ended.
pub(crate) enum Ended<E> {
    /// The connection goes on.
    Left,
    /// The connection ends, and is to be closed in order. That may wait for the client, so the caller drops the table
    /// first.
    ToBeClosed(ClientEnd<E>),
    /// The connection ends at once.
    CutOff(ClientEnd<E>),
}
