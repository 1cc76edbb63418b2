//! The thread of one client: its handshake, and its requests, with a queue for each table of the volume that it uses.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use scrim_nbd::tls::ServerTls;
use scrim_volume::queue::{Queue, Settled};

use crate::export::Export;
use crate::link::{End, Link};
use crate::protocol::{Client, ClientEnd, Ended, Protocol, Session};
use crate::registry::Entry;
use crate::shared::Shared;
use crate::status::Incident;

/// Serves a client that has been sent the greeting, until its connection ends.
pub(crate) fn serve_client<P: Protocol>(
    shared: Arc<Shared<P::Error>>,
    socket: &Arc<OwnedFd>,
    tls: Option<&ServerTls>,
    entry: Entry<P::Error>,
    deadline: Instant,
) {
    let end = converse::<P>(&shared, socket, tls, &entry, deadline);
    match end {
        ClientEnd::Link(End::Gone | End::Stopping | End::OtherTable) => {}
        ClientEnd::Link(End::Deadline) => entry.note(Incident::HandshakeTimeout),
        ClientEnd::Link(End::Tls(error)) => entry.note(Incident::Tls(error)),
        ClientEnd::Protocol(error) => entry.note(Incident::Protocol(error)),
    }
    // First the exports, which hold their volumes, then the entry that `Server::stop` waits for.
    drop(shared);
    drop(entry);
}

/// Carries out the handshake, then serves requests.
fn converse<P: Protocol>(
    shared: &Shared<P::Error>,
    socket: &Arc<OwnedFd>,
    tls: Option<&ServerTls>,
    entry: &Entry<P::Error>,
    deadline: Instant,
) -> ClientEnd<P::Error> {
    let mut link = Link::new(
        Arc::clone(socket),
        Arc::clone(&shared.stop),
        Arc::clone(&shared.pollers),
        Arc::clone(entry.meter()),
        deadline,
    );
    let (export, terms) = match P::negotiate(&mut link, &shared.exports, tls, entry) {
        Ok(agreed) => agreed,
        Err(end) => {
            link.close(Settled::WITHOUT_QUEUE);
            return end;
        }
    };
    if link.end_handshake().is_none() {
        entry.note(Incident::Accept {
            reason: "there is no memory for its buffers".to_owned(),
        });
        return End::Gone.into();
    }
    let client = Client {
        link,
        volume: &export.volume,
        entry,
        read_buffers: &shared.read_buffers,
    };
    let mut session = P::session(client, terms);
    let watched = [socket.as_fd(), shared.stop.as_fd()];
    loop {
        match serve_table(&mut session, &export, &watched, entry) {
            Ended::Left => {}
            Ended::ToBeClosed(end) => {
                session.close();
                return end;
            }
            Ended::CutOff(end) => return end,
        }
    }
}

/// Serves until the connection ends, or the volume has another table.
fn serve_table<E>(
    session: &mut impl Session<E>,
    export: &Export,
    watched: &[BorrowedFd<'_>],
    entry: &Entry<E>,
) -> Ended<E> {
    // In this order: a table that comes in between is noticed.
    session.begin_table(export.volume.generation());
    if session.has_kept() {
        return ended(session.finish_kept().map_err(ClientEnd::from));
    }
    // A request that has to wait does so without a queue, which would keep the table and its key.
    if export.volume.is_suspended() && session.has_request() {
        return ended(session.serve_one());
    }
    let mapping = export.volume.mapping();
    match Queue::new(&export.volume, &mapping, export.engine, watched) {
        Ok(Some(queue)) => return session.serve_queued(queue),
        Ok(None) => {}
        Err(error) => entry.note(Incident::NoQueue {
            reason: error.to_string(),
        }),
    }
    // Only a queue keeps a table that has been replaced.
    drop(mapping);
    loop {
        match session.serve_one() {
            Ok(()) => {}
            Err(end) => return ended(Err(end)),
        }
    }
}

/// Way in which plain calls have ended: after each of them the table may be another one.
fn ended<E>(result: Result<(), ClientEnd<E>>) -> Ended<E> {
    match result {
        Ok(()) | Err(ClientEnd::Link(End::OtherTable)) => Ended::Left,
        Err(end) => Ended::ToBeClosed(end),
    }
}
