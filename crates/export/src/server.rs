//! A running server: starting it, asking for its status, and stopping it.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use scrim_nbd::Address;

use crate::acceptor::Acceptor;
use crate::export::Export;
use crate::limits::{self, Limits};
use crate::listener::Listener;
use crate::protocol::Protocol;
use crate::shared::Shared;
use crate::status::Status;

/// A running server. `E` is a breach of its protocol. Dropping the server disconnects its clients at once;
/// [`Server::stop`] lets them finish.
pub struct Server<E> {
    /// Dropped after the other threads have ended. So the exports, with their volumes, are released on the thread that
    /// ends the server, and not within the limit of [`Server::stop`].
    shared: Arc<Shared<E>>,
    addresses: Vec<Address>,
    acceptor: Option<JoinHandle<Vec<JoinHandle<()>>>>,
}

/// Connections that [`Server::stop`] did not end in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped {
    /// Clients that were disconnected in the middle of requests, because the limit had passed.
    pub cut_off: usize,
    /// Connections whose thread still waits for the storage. Their volumes stay open.
    pub stuck: usize,
}

impl<E> Server<E> {
    /// Serves `exports` on `listeners` by the protocol `P`.
    ///
    /// # Errors
    /// When there is no export or listener, when a name is too long, has a NUL or is taken twice,
    /// or the system gives no thread.
    pub(crate) fn start_protocol<P: Protocol<Error = E>>(
        exports: Vec<Export>,
        listeners: Vec<Listener>,
        limits: Limits,
    ) -> Result<Self, StartError>
    where
        E: Send + 'static,
    {
        check(&exports, &listeners)?;
        let shared = Arc::new(Shared::new(exports, limits).map_err(StartError::System)?);
        let for_acceptor = Arc::clone(&shared);
        let addresses = listeners.iter().map(|l| l.address().clone()).collect();
        let acceptor = thread::Builder::new()
            .name(format!("{}-accept", P::NAME))
            .stack_size(limits::STACK)
            .spawn(move || Acceptor::<P>::new(&for_acceptor, &listeners).run())
            .map_err(StartError::System)?;
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

impl<E: Clone> Server<E> {
    /// Clients, traffic and the last events.
    #[must_use]
    pub fn status(&self) -> Status<E> {
        self.shared.registry.status()
    }
}

/// Time for disconnected clients' threads to notice.
const SETTLE: Duration = Duration::from_secs(1);

impl<E> Drop for Server<E> {
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
