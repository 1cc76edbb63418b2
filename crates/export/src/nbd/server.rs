//! The server: accepts clients and gives each a thread.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use scrim_volume::queue::{Queue, Settled};

use super::budget::Budget;
use super::export::Export;
use super::limits;
use super::link::{End, Link};
use super::listener::Listener;
use super::negotiate::negotiate;
use super::pipeline::Pipeline;
use super::registry::{Entry, Registry};
use super::serve::Transmission;
use super::status::{Incident, Peer, Status};
use super::stop::Stop;
use super::wait::seats;
use scrim_nbd::Address;
use scrim_nbd::tls::ServerTls;

/// What a server limits, for those who want less than [`limits`] allows.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Clients served at the same time.
    pub clients: usize,
    /// Time for a handshake.
    pub handshake: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            clients: limits::CLIENTS,
            handshake: limits::HANDSHAKE,
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

/// What the threads of a server share.
struct Shared {
    exports: Vec<Arc<Export>>,
    limits: Limits,
    registry: Arc<Registry>,
    stop: Arc<Stop>,
    seats: Arc<Budget>,
    reads_apart: Budget,
}

/// How a server ended.
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
            registry: Arc::new(Registry::default()),
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
                .spawn(move || accept_clients(&shared, &listeners))
                .map_err(StartError::System)?
        };
        Ok(Self {
            shared,
            addresses,
            acceptor: Some(acceptor),
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// The number of clients connected now.
    #[must_use]
    pub fn clients(&self) -> usize {
        self.shared.registry.clients()
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

/// Accepts clients until the server stops; returns their threads.
fn accept_clients(shared: &Arc<Shared>, listeners: &[Listener]) -> Vec<JoinHandle<()>> {
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    while wait_for_client(shared, listeners) {
        threads.retain(|thread| !thread.is_finished());
        for listener in listeners {
            let served = match listener.accept() {
                Ok(None) => continue,
                Ok(Some((socket, peer))) => serve_client(shared, socket, peer, listener.tls()),
                Err(error) => Err(error),
            };
            match served {
                Ok(thread) => threads.extend(thread),
                Err(error) => {
                    shared.registry.note(Incident::Accept {
                        reason: error.to_string(),
                    });
                    // Without descriptors or memory the listener stays ready: do not spin on it.
                    pause(shared);
                }
            }
        }
    }
    threads
}

/// Waits until a client may be waiting; `false` when the server stops.
fn wait_for_client(shared: &Shared, listeners: &[Listener]) -> bool {
    let mut sources: Vec<PollFd<'_>> = listeners
        .iter()
        .map(|listener| PollFd::new(listener, PollFlags::IN))
        .collect();
    sources.push(PollFd::new(&*shared.stop, PollFlags::IN));
    match poll(&mut sources, None) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(_) => pause(shared),
    }
    !shared.stop.is_raised()
}

fn pause(shared: &Shared) {
    let timeout = Timespec {
        tv_sec: 0,
        tv_nsec: limits::ACCEPT_PAUSE.subsec_nanos().into(),
    };
    let mut sources = [PollFd::new(&*shared.stop, PollFlags::IN)];
    let _ = poll(&mut sources, Some(&timeout));
}

/// Gives a client a thread; `None` when too many are served.
fn serve_client(
    shared: &Arc<Shared>,
    socket: OwnedFd,
    peer: Peer,
    tls: Option<&ServerTls>,
) -> io::Result<Option<JoinHandle<()>>> {
    let socket = Arc::new(socket);
    let most = shared.limits.clients;
    let Some(entry) = shared.registry.enter(Arc::clone(&socket), peer, most) else {
        return Ok(None);
    };
    let shared = Arc::clone(shared);
    let tls = tls.cloned();
    let thread = thread::Builder::new()
        .name(format!("nbd-{}", entry.id()))
        .stack_size(limits::STACK)
        .spawn(move || {
            let end = converse(&shared, &socket, tls.as_ref(), &entry);
            match end {
                End::Gone | End::Stopping | End::OtherTable => {}
                End::Deadline => entry.note(Incident::HandshakeTimeout),
                End::Protocol(error) => entry.note(Incident::Protocol(error)),
                End::Tls(error) => entry.note(Incident::Tls(error)),
            }
            // First what holds the volume, then the entry that `stop` waits for.
            drop(shared);
            drop(entry);
        })?;
    Ok(Some(thread))
}

/// Handshake and transmission.
fn converse(shared: &Shared, socket: &Arc<OwnedFd>, tls: Option<&ServerTls>, entry: &Entry) -> End {
    let time = shared.limits.handshake;
    let Some(deadline) = Instant::now().checked_add(time) else {
        return End::Deadline;
    };
    let mut link = Link::new(
        Arc::clone(socket),
        Arc::clone(&shared.stop),
        Arc::clone(&shared.seats),
        Arc::clone(entry.meter()),
        deadline,
    );
    let (export, terms) = match negotiate(&mut link, &shared.exports, tls) {
        Ok(agreed) => agreed,
        Err(end) => {
            link.close(Settled::WITHOUT_QUEUE);
            return end;
        }
    };
    link.end_handshake();
    entry.chose(&export.name, link.protection());
    let mut transmission = Transmission {
        link,
        volume: &export.volume,
        terms,
        entry,
        reads_apart: &shared.reads_apart,
        generation: 0,
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
    let mapping = export.volume.mapping();
    match Queue::new(&export.volume, &mapping, export.engine, watched) {
        Ok(Some(queue)) => return Pipeline::new(transmission, queue).run(),
        Ok(None) => {}
        Err(error) => entry.note(Incident::NoQueue {
            reason: error.to_string(),
        }),
    }
    // Only a queue keeps a table that is no longer at work.
    drop(mapping);
    transmission.run()
}

/// Why a server did not start.
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
