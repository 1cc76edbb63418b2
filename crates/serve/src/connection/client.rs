//! The client of a connection.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::address::Address;
use crate::listener::Service;
use crate::log::TlsEntry;
use crate::origin::Origin;

/// A client, with the service and the hosts that its connection may ask for.
#[derive(Debug, Clone)]
pub(super) struct Client {
    pub(super) address: SocketAddr,
    /// Shared resources that the client's address holds.
    pub(super) holdings: Arc<Address>,
    pub(super) service: Service,
    /// Hosts that the client may ask for.
    pub(super) origin: Origin,
    /// TLS parameters for the access log; `None` over plain TCP.
    pub(super) tls: Option<TlsEntry>,
}
