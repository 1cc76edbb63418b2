//! NBD as the protocol of a server.

use std::sync::Arc;

use scrim_nbd::tls::ServerTls;
use scrim_nbd::wire::REQUEST_HEADER;
use scrim_volume::queue::{Queue, Settled};

use super::error::{ClientEnd, Entry, ProtocolError};
use super::negotiate::{GREETING, negotiate};
use super::pipeline::Pipeline;
use super::request::Terms;
use super::transmission::Transmission;
use crate::export::Export;
use crate::limits::Limits;
use crate::link::{End, Link};
use crate::listener::Listener;
use crate::protocol::{Agreed, Client, Ended, Protocol, Session};
use crate::server::{self, StartError};

/// A running NBD server.
pub type Server = server::Server<ProtocolError>;

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
        Self::start_protocol::<Nbd>(exports, listeners, limits)
    }
}

/// The Network Block Device protocol.
struct Nbd;

impl Protocol for Nbd {
    type Error = ProtocolError;
    type Terms = Terms;

    const NAME: &'static str = "nbd";
    const GREETING: &'static [u8] = &GREETING;

    fn negotiate(
        link: &mut Link,
        exports: &[Arc<Export>],
        tls: Option<&ServerTls>,
        entry: &Entry,
    ) -> Result<Agreed<Terms>, ClientEnd> {
        negotiate(link, exports, tls, entry)
    }

    fn session(client: Client<'_, ProtocolError>, terms: Terms) -> impl Session<ProtocolError> {
        Transmission::new(client, terms)
    }
}

impl Session<ProtocolError> for Transmission<'_> {
    fn begin_table(&mut self, generation: usize) {
        Transmission::begin_table(self, generation);
    }

    fn has_kept(&self) -> bool {
        Transmission::has_kept(self)
    }

    fn finish_kept(&mut self) -> Result<(), End> {
        Transmission::finish_kept(self)
    }

    fn has_request(&self) -> bool {
        self.link.inbox.first::<REQUEST_HEADER>().is_some()
    }

    fn serve_one(&mut self) -> Result<(), ClientEnd> {
        Transmission::serve_one(self)
    }

    fn serve_queued(&mut self, queue: Queue<'_>) -> Ended<ProtocolError> {
        Pipeline::new(self, queue).run()
    }

    fn close(&mut self) {
        self.link.close(Settled::WITHOUT_QUEUE);
    }
}
