//! The server: the state that its threads share, and the work of a client's thread.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use scrim_nbd::wire::REQUEST_HEADER;
use scrim_volume::queue::{Queue, Settled};

use super::acceptor::Acceptor;
use super::budget::Budget;
use super::export::Export;
use super::limits;
use super::link::{End, Link};
use super::listener::Listener;
use super::negotiate::negotiate;
use super::pipeline::{Ended, Pipeline};
use super::registry::{Entry, Registry};
use super::serve::Transmission;
use super::status::{Incident, Status};
use super::stop::Stop;
use super::wait::seats;
use scrim_nbd::Address;
use scrim_nbd::tls::ServerTls;

/// Limits of a server, for callers that want less than [`limits`] allows.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Clients served at the same time.
    pub clients: usize,
    /// Clients served at the same time from one address.
    pub clients_of_peer: usize,
    /// Connections in their handshake at the same time.
    pub newcomers: usize,
    /// Time for a handshake.
    pub handshake: Duration,
    /// Time after which a connection that has not answered the greeting is the first to yield its
    /// place.
    pub answer: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            clients: limits::CLIENTS,
            clients_of_peer: limits::CLIENTS_OF_PEER,
            newcomers: limits::NEWCOMERS,
            handshake: limits::HANDSHAKE,
            answer: limits::ANSWER,
        }
    }
}

/// A running NBD server. Dropping it disconnects its clients at once; [`Server::stop`] lets them
/// finish.
pub struct Server {
    shared: Arc<Shared>,
    addresses: Vec<Address>,
    acceptor: Option<JoinHandle<Vec<JoinHandle<()>>>>,
}

/// State that the threads of a server share.
pub(super) struct Shared {
    exports: Vec<Arc<Export>>,
    pub(super) limits: Limits,
    pub(super) registry: Arc<Registry>,
    pub(super) stop: Arc<Stop>,
    seats: Arc<Budget>,
    reads_apart: Budget,
}

/// Outcome of [`Server::stop`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped {
    /// Clients that were disconnected in the middle of requests, because the limit had passed.
    pub cut_off: usize,
    /// Connections whose thread still waits for the storage. Their volumes stay open.
    pub stuck: usize,
}

impl Server {
    /// Serves `exports` on `listeners`; the first export is the default.
    ///
    /// # Errors
    /// When there is no export or listener, when a name is too long, has a NUL or is taken twice,
    /// or the system gives no thread.
    pub fn start(
        exports: Vec<Export>,
        listeners: Vec<Listener>,
        limits: Limits,
    ) -> Result<Self, StartError> {
        check(&exports, &listeners)?;
        let shared = Arc::new(Shared {
            exports: exports.into_iter().map(Arc::new).collect(),
            limits,
            registry: Arc::new(Registry::new(limits)),
            stop: Arc::new(Stop::new().map_err(StartError::System)?),
            seats: Arc::new(seats()),
            reads_apart: Budget::new(limits::READS_APART),
        });
        let addresses = listeners.iter().map(|l| l.address().clone()).collect();
        let acceptor = {
            let shared = Arc::clone(&shared);
            thread::Builder::new()
                .name("nbd-accept".to_owned())
                .stack_size(limits::STACK)
                .spawn(move || Acceptor::new(&shared, &listeners).run())
                .map_err(StartError::System)?
        };
        Ok(Self {
            shared,
            addresses,
            acceptor: Some(acceptor),
        })
    }

    /// Addresses at which it listens.
    #[must_use]
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// The number of clients served now: those that have got through their handshake.
    #[must_use]
    pub fn clients(&self) -> usize {
        self.shared.registry.clients()
    }

    /// The number of all connections.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.registry.connections()
    }

    /// Clients, traffic and the last events.
    #[must_use]
    pub fn status(&self) -> Status {
        self.shared.registry.status()
    }

    /// Stops: no new client, no new request on an idle connection; requests that have been received
    /// are finished and answered. Clients that are not done after `limit` are disconnected.
    pub fn stop(mut self, limit: Duration) -> Stopped {
        self.end(limit)
    }

    fn end(&mut self, limit: Duration) -> Stopped {
        let Some(acceptor) = self.acceptor.take() else {
            return Stopped {
                cut_off: 0,
                stuck: 0,
            };
        };
        self.shared.stop.raise();
        let threads = acceptor.join().unwrap_or_default();
        let registry = &self.shared.registry;
        let cut_off = registry.wait_until_empty(limit);
        registry.disconnect_all();
        let stuck = registry.wait_until_empty(SETTLE);
        if stuck == 0 {
            for thread in threads {
                // A panic has been noted by the thread's own entry.
                let _ = thread.join();
            }
        }
        Stopped { cut_off, stuck }
    }
}

/// Time for disconnected clients' threads to notice.
const SETTLE: Duration = Duration::from_secs(1);

impl Drop for Server {
    fn drop(&mut self) {
        self.end(Duration::ZERO);
    }
}

fn check(exports: &[Export], listeners: &[Listener]) -> Result<(), StartError> {
    if exports.is_empty() || exports.len() > limits::EXPORTS || listeners.is_empty() {
        return Err(StartError::Nothing);
    }
    for (index, export) in exports.iter().enumerate() {
        for text in [&export.name, &export.description] {
            if text.len() > limits::NAME || text.contains('\0') {
                return Err(StartError::Name(export.name.clone()));
            }
        }
        if exports[..index]
            .iter()
            .any(|other| other.name == export.name)
        {
            return Err(StartError::Name(export.name.clone()));
        }
    }
    Ok(())
}

/// Serves a client that has been greeted, to the end.
pub(super) fn serve_client(
    shared: Arc<Shared>,
    socket: &Arc<OwnedFd>,
    tls: Option<&ServerTls>,
    entry: Entry,
    deadline: Instant,
) {
    let end = converse(&shared, socket, tls, &entry, deadline);
    match end {
        End::Gone | End::Stopping | End::OtherTable => {}
        End::Deadline => entry.note(Incident::HandshakeTimeout),
        End::Protocol(error) => entry.note(Incident::Protocol(error)),
        End::Tls(error) => entry.note(Incident::Tls(error)),
    }
    // First what holds the volume, then the entry that `stop` waits for.
    drop(shared);
    drop(entry);
}

/// Carries out the handshake and the transmission phase.
fn converse(
    shared: &Shared,
    socket: &Arc<OwnedFd>,
    tls: Option<&ServerTls>,
    entry: &Entry,
    deadline: Instant,
) -> End {
    let mut link = Link::new(
        Arc::clone(socket),
        Arc::clone(&shared.stop),
        Arc::clone(&shared.seats),
        Arc::clone(entry.meter()),
        deadline,
    );
    let (export, terms) = match negotiate(&mut link, &shared.exports, tls, entry) {
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
        return End::Gone;
    }
    let mut transmission = Transmission {
        link,
        volume: &export.volume,
        terms,
        entry,
        reads_apart: &shared.reads_apart,
        generation: 0,
        may_wait: true,
        kept: None,
        allowances: Vec::new(),
    };
    let watched = [socket.as_fd(), shared.stop.as_fd()];
    loop {
        let end = serve_one_table(&mut transmission, &export, &watched, entry);
        if !matches!(end, End::OtherTable) {
            return end;
        }
    }
}

/// Serves until the connection ends, or the volume has another table.
fn serve_one_table(
    transmission: &mut Transmission<'_>,
    export: &Export,
    watched: &[BorrowedFd<'_>],
    entry: &Entry,
) -> End {
    // In this order: a table that comes in between is noticed.
    transmission.generation = export.volume.generation();
    if transmission.has_kept() {
        return transmission.run_kept();
    }
    // A request that has to wait does so without a queue, which would keep the table and its key.
    if export.volume.is_suspended() && transmission.link.inbox.first::<REQUEST_HEADER>().is_some() {
        return transmission.run_one();
    }
    let mapping = export.volume.mapping();
    let ended = match Queue::new(&export.volume, &mapping, export.engine, watched) {
        Ok(Some(queue)) => Some(Pipeline::new(transmission, queue).run()),
        Ok(None) => None,
        Err(error) => {
            entry.note(Incident::NoQueue {
                reason: error.to_string(),
            });
            None
        }
    };
    // Only a queue keeps a table that is no longer at work.
    drop(mapping);
    match ended {
        None => transmission.run(),
        Some(Ended::Left) => End::OtherTable,
        Some(Ended::CutOff(end)) => end,
        Some(Ended::ToBeClosed(end)) => {
            transmission.link.close(Settled::WITHOUT_QUEUE);
            end
        }
    }
}

/// Reason for which a server did not start.
#[derive(Debug)]
pub enum StartError {
    /// No export, no listener, or more than [`limits::EXPORTS`] exports.
    Nothing,
    /// An export's name or description is too long, has a NUL, or the name is there twice.
    Name(String),
    /// The system refused a thread or a descriptor.
    System(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => write!(
                f,
                "a server needs an address and 1 to {} exports",
                limits::EXPORTS
            ),
            Self::Name(name) => write!(
                f,
                "the export name {name:?} is too long, has a NUL in it, or is taken; choose \
                 another"
            ),
            Self::System(error) => write!(f, "cannot start the server: {error}"),
        }
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::System(error) => Some(error),
            _ => None,
        }
    }
}
