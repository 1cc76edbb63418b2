//! Connections of clients, from the first byte to the last.

mod activity;
mod h1;
mod h2;
mod head;
mod paced;
mod source;
mod stream_body;
mod write_timeout;

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::admission;
use crate::client::Client;
use crate::listener::Service;
use crate::log::TlsEntry;
use crate::origin::Origin;
use crate::tls::kernel::{FallbackReason, KernelSession, Outcome, Path};
use crate::tls::{self, Accepted, Facts, HandshakeOutcome, Protocol, TlsStream};
use crate::transport::{
    DiscardLimit, Kernel, LINGER_TIMEOUT, Plain, Secure, Transport, lingering_close,
};
use crate::worker::Worker;

/// Limit on the unsent bytes in a socket's send queue: slightly more than one batch. All sockets of a machine share the
/// kernel's memory for TCP (`tcp_mem`). With the usual 4 MiB for each, some hundred clients that read nothing would use
/// it up, and the kernel would refuse to send to all others.
const UNSENT_MAX: u32 = 160 << 10;

/// Time for a whole connection that asks for the server's health. There are few places for them, which must not be held.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);

/// Serves a connection to its end.
pub(crate) async fn serve(
    worker: Rc<Worker>,
    socket: TcpStream,
    address: SocketAddr,
    service: Service,
) {
    // Answers are sent whole, so that Nagle's algorithm would only delay the last packet.
    let _ = socket.set_nodelay(true);
    // Kernels before 3.12 do not know the option, and work without it.
    let _ = scrim_sys::tcp::limit_unsent(socket.as_fd(), UNSENT_MAX);
    let mut client = Client {
        address,
        holdings: worker.addresses.of(admission::client(address.ip())),
        service,
        origin: match service {
            Service::Http { local: true } => Origin::Loopback,
            _ => Origin::Plain,
        },
        tls: None,
    };
    let (Service::Https, Some(config)) = (service, worker.tls()) else {
        let transport = Transport::Plain(Plain::new(socket));
        let served = h1::serve(&worker, transport, client, Vec::new());
        if service == Service::Health {
            let _late = timeout(CHECK_TIMEOUT, served).await;
        } else {
            served.await;
        }
        return;
    };
    let handshake = secure(&worker, &socket, config);
    let negotiated = timeout(worker.limits.handshake, handshake).await;
    let (facts, layer) = match negotiated {
        Ok(Ok(Negotiated::Secured(facts, origin, layer))) => {
            client.origin = origin;
            (facts, layer)
        }
        other => {
            worker.counters.tls.failed.add(1);
            match other {
                Ok(Ok(Negotiated::Http(incoming))) => {
                    client.service = Service::Redirect { port: None };
                    let transport = Transport::Plain(Plain::new(socket));
                    h1::serve(&worker, transport, client, incoming).await;
                }
                // The client broke the protocol. The lingering close lets it receive the alert, within a short timeout.
                Ok(Err(error)) if error.kind() == io::ErrorKind::InvalidData => {
                    let _ = timeout(
                        LINGER_TIMEOUT,
                        lingering_close(&socket, DiscardLimit::ControlFrames, &worker.limits),
                    )
                    .await;
                }
                _ => {}
            }
            return;
        }
    };
    let path = layer.path();
    worker.counters.tls.record(&facts, path);
    client.tls = Some(TlsEntry {
        version: facts.version,
        suite: facts.suite,
        path,
    });
    match (facts.protocol, layer) {
        (Protocol::Http2, RecordLayer::User(accepted, _)) => {
            h2::serve(worker, TlsStream::new(socket, accepted), client).await;
        }
        (Protocol::Http11, RecordLayer::User(accepted, _)) => {
            let secure = Box::new(Secure::new(socket, accepted));
            let transport = Transport::Secure(secure);
            h1::serve(&worker, transport, client, Vec::new()).await;
        }
        (Protocol::Http11, RecordLayer::Kernel(session)) => {
            let kernel = Box::new(Kernel::new(socket, *session));
            let transport = Transport::Kernel(kernel);
            h1::serve(&worker, transport, client, Vec::new()).await;
        }
        // An ACME challenge consists of the handshake alone. HTTP/2 is never given to the kernel.
        (Protocol::AcmeTls, _) | (Protocol::Http2, RecordLayer::Kernel(_)) => {}
    }
}

/// The implementation of TLS records that a connection uses, with its keys.
enum RecordLayer {
    User(Accepted, FallbackReason),
    Kernel(Box<KernelSession>),
}

impl RecordLayer {
    fn path(&self) -> Path {
        match self {
            Self::User(_, why) => Path::User(*why),
            Self::Kernel(_) => Path::Kernel,
        }
    }
}

/// Result of the beginning of a connection.
enum Negotiated {
    /// The handshake is complete.
    Secured(Box<Facts>, Origin, RecordLayer),
    /// The client sent HTTP without TLS: its first bytes.
    Http(Vec<u8>),
}

/// Performs the TLS handshake of a connection, and gives its keys to the kernel or to a session.
async fn secure(
    worker: &Worker,
    socket: &TcpStream,
    config: Arc<ServerConfig>,
) -> io::Result<Negotiated> {
    let mut completed = match tls::perform_handshake(socket, config).await? {
        HandshakeOutcome::Done(completed) => *completed,
        HandshakeOutcome::Http(incoming) => return Ok(Negotiated::Http(incoming)),
    };
    let origin = match completed.established.server_name.take() {
        Some(asked) => Origin::Named(Rc::new(asked)),
        None => Origin::Secure,
    };
    let facts = Box::new(completed.established.facts.clone());
    let records = worker.limits.records;
    let offload = worker.offload();
    let (completed, why) = match offload.choose(&completed.established) {
        Err(why) => (completed, why),
        Ok(offer) => match tls::kernel::hand_over(socket, completed, offer, records)? {
            Outcome::Kernel(session) => {
                return Ok(Negotiated::Secured(
                    facts,
                    origin,
                    RecordLayer::Kernel(session),
                ));
            }
            Outcome::User(completed, why) => (*completed, why),
        },
    };
    let layer = RecordLayer::User(completed.accept(records)?, why);
    Ok(Negotiated::Secured(facts, origin, layer))
}
