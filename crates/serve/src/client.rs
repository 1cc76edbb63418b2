//! The client of a connection.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::address::Address;
use crate::listener::Service;
use crate::log::TlsEntry;
use crate::origin::Origin;

/// A client, with the service and the hosts that its connection may ask for.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    pub(crate) address: SocketAddr,
    /// Shared resources that the client's address holds.
    pub(crate) holdings: Arc<Address>,
    pub(crate) service: Service,
    /// Hosts that the client may ask for.
    pub(crate) origin: Origin,
    /// TLS parameters for the access log; `None` over plain TCP.
    pub(crate) tls: Option<TlsEntry>,
}
