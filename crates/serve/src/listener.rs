//! Sockets that accept clients.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;

use rustix::net::sockopt;

/// Length of the queue of connections that wait to be accepted.
const BACKLOG: i32 = 1024;

/// Service that clients of a listener get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// Files of the sites, over TLS.
    Https,
    /// Files over plain HTTP.
    Http {
        /// True at a loopback address: then only loopback and configured names are answered, against DNS rebinding.
        local: bool,
    },
    /// Redirects to HTTPS, and nothing else.
    Redirect {
        /// Port of HTTPS; `None` for plain HTTP that came to the HTTPS port itself.
        port: Option<u16>,
    },
    /// The status page and its figures.
    Status,
    /// Health of the server, for load balancers.
    Health,
}

impl Service {
    /// Returns whether it is for clients, and not for those who watch the server, whose requests and connections are not
    /// counted.
    #[must_use]
    pub fn is_for_clients(self) -> bool {
        match self {
            Self::Https | Self::Http { .. } | Self::Redirect { .. } => true,
            Self::Status | Self::Health => false,
        }
    }
}

/// A socket that listens.
pub struct Listener {
    pub(crate) socket: TcpListener,
    pub(crate) service: Service,
}

impl Listener {
    /// Listens at an address. An IPv6 address accepts only IPv6 clients, so that `[::]:443` and `0.0.0.0:443` can be used
    /// together.
    ///
    /// # Errors
    /// When the address is not this machine's, is in use, or may not be used.
    pub fn bind(address: SocketAddr, service: Service) -> io::Result<Self> {
        let family = if address.is_ipv6() {
            rustix::net::AddressFamily::INET6
        } else {
            rustix::net::AddressFamily::INET
        };
        let flags = rustix::net::SocketFlags::CLOEXEC;
        let socket =
            rustix::net::socket_with(family, rustix::net::SocketType::STREAM, flags, None)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        if address.is_ipv6() {
            sockopt::set_ipv6_v6only(&socket, true)?;
        }
        rustix::net::bind(&socket, &address)?;
        rustix::net::listen(&socket, BACKLOG)?;
        Self::from_socket(socket, service)
    }

    /// Takes a listening socket that another process has bound.
    ///
    /// # Errors
    /// When it is not a TCP socket that listens.
    pub fn from_socket(socket: OwnedFd, service: Service) -> io::Result<Self> {
        if !sockopt::socket_acceptconn(&socket)? {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the socket is not in the listening state; pass one that listens",
            ));
        }
        let socket = TcpListener::from(socket);
        socket.local_addr()?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket, service })
    }

    /// Address at which it listens.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Returns the service that clients get there.
    #[must_use]
    pub fn service(&self) -> Service {
        self.service
    }
}
