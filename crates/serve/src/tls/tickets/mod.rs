//! Session tickets: their keys are random and the server's own, or come from a file that several servers share.

mod error;
mod file;
mod key;
mod keys;

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::crypto::aws_lc_rs::Ticketer;
use rustls::server::ProducesTickets;

pub use self::error::{TicketKeysError, TicketKeysFault};
pub use self::file::rotate_ticket_keys;
pub use self::keys::TicketKeys;
use super::error::TlsError;

/// The maker of a server's tickets: shared keys as long as there are any, and rustls' own random keys otherwise. The
/// shared keys can be exchanged at any time.
pub struct Tickets {
    own: Arc<dyn ProducesTickets>,
    current: RwLock<Arc<dyn ProducesTickets>>,
}

impl Tickets {
    /// Makes tickets by `shared`, or by random keys that are replaced every six hours and never leave the process.
    ///
    /// # Errors
    /// When AWS-LC has no random numbers.
    pub fn new(shared: Option<TicketKeys>) -> Result<Self, TlsError> {
        let own = Ticketer::new()?;
        let tickets = Self {
            current: RwLock::new(Arc::clone(&own)),
            own,
        };
        tickets.exchange(shared);
        Ok(tickets)
    }

    /// Uses other keys from the next handshake on. Tickets of keys that are not among them are not opened any more.
    pub fn exchange(&self, shared: Option<TicketKeys>) {
        let next: Arc<dyn ProducesTickets> = match shared {
            Some(keys) => Arc::new(keys),
            None => Arc::clone(&self.own),
        };
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = next;
    }

    fn current(&self) -> Arc<dyn ProducesTickets> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for Tickets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tickets({:?})", self.current())
    }
}

impl ProducesTickets for Tickets {
    fn enabled(&self) -> bool {
        self.current().enabled()
    }

    fn lifetime(&self) -> u32 {
        self.current().lifetime()
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.current().encrypt(plain)
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        self.current().decrypt(ticket)
    }
}

#[cfg(test)]
mod tests;
