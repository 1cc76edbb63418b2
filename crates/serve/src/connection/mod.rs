//! Connections of clients, from the first byte to the last.

mod batch;
mod broken;
mod date;
mod farewell;
mod fill;
mod h1;
mod h2;
mod head;
mod kernel;
mod plain;
mod pool;
mod secure;
mod send_file;
mod share;
mod socket;
mod stall;
mod stream_body;
mod transport;

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::Arc;

use rustls::ServerConfig;
use tokio::net::TcpStream;
use tokio::time::timeout;

pub(crate) use broken::Broken;
pub(crate) use date::Date;
pub(crate) use farewell::FAREWELL;
pub(crate) use pool::Pool;
pub(crate) use share::{Budget, Reservation};

use crate::address::Address;
use crate::admission;
use crate::listener::Service;
use crate::origin::Origin;
use crate::tls::kernel::{KernelSession, Outcome, Path, Why};
use crate::tls::{self, Accepted, Facts, Protocol, Shake, TlsStream};
use crate::worker::Worker;
use farewell::{Talk, depart};
use kernel::Kernel;
use plain::Plain;
use secure::Secure;
use transport::Transport;

/// Bytes that the kernel keeps for a client and has not sent yet: one batch, and some. All sockets of a machine share
/// the kernel's memory for TCP (`tcp_mem`): at the usual 4 MiB for each, some hundred clients that read nothing
/// would use it up, and the kernel would refuse what is sent to all others.
const UNSENT_MAX: u32 = 160 << 10;

/// A client, and its rights by this connection.
#[derive(Debug, Clone)]
struct Client {
    address: SocketAddr,
    /// Its address's part of the things that the worker's connections share.
    has: Arc<Address>,
    service: Service,
    /// Hosts that it may ask for.
    origin: Origin,
    /// Facts about TLS, if the connection has it.
    tls: Option<Secured>,
}

/// Facts of a connection's TLS.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Secured {
    pub(crate) version: &'static str,
    pub(crate) suite: &'static str,
    /// The maker of its records.
    pub(crate) path: Path,
}

/// Serves a connection to its end.
pub(crate) async fn serve(
    worker: Rc<Worker>,
    socket: TcpStream,
    address: SocketAddr,
    service: Service,
) {
    // Answers leave whole: there is nothing that a short packet should wait for.
    let _ = socket.set_nodelay(true);
    // Kernels before 3.12 do not know it, and work without.
    let _ = scrim_sys::tcp::limit_unsent(socket.as_fd(), UNSENT_MAX);
    let mut client = Client {
        address,
        has: worker.addresses.of(admission::client(address.ip())),
        service,
        origin: match service {
            Service::Http { local: true } => Origin::Loopback,
            _ => Origin::Plain,
        },
        tls: None,
    };
    let (Service::Https, Some(config)) = (service, worker.tls()) else {
        let transport = Transport::Plain(Plain::new(socket));
        return h1::serve(&worker, transport, client, Vec::new()).await;
    };
    let handshake = secure(&worker, &socket, config);
    let begun = timeout(worker.limits.handshake, handshake).await;
    let (facts, carrier) = match begun {
        Ok(Ok(Begun::Secured(facts, origin, carrier))) => {
            client.origin = origin;
            (facts, carrier)
        }
        other => {
            worker.counters.tls.failed.add(1);
            match other {
                Ok(Ok(Begun::Http(incoming))) => {
                    client.service = Service::Redirect { port: None };
                    let transport = Transport::Plain(Plain::new(socket));
                    h1::serve(&worker, transport, client, incoming).await;
                }
                // It was told why, and should hear that. Nobody waits for long for a client that broke the protocol.
                Ok(Err(error)) if error.kind() == io::ErrorKind::InvalidData => {
                    let _ = timeout(FAREWELL, depart(&socket, Talk::Frames, &worker.limits)).await;
                }
                _ => {}
            }
            return;
        }
    };
    let path = carrier.path();
    worker.counters.tls.note(&facts, path);
    client.tls = Some(Secured {
        version: facts.version,
        suite: facts.suite,
        path,
    });
    match (facts.protocol, carrier) {
        (Protocol::Http2, Carrier::User(accepted, _)) => {
            h2::serve(worker, TlsStream::new(socket, accepted), client).await;
        }
        (Protocol::Http11, Carrier::User(accepted, _)) => {
            let secure = Box::new(Secure::new(socket, accepted));
            let transport = Transport::Secure(secure);
            h1::serve(&worker, transport, client, Vec::new()).await;
        }
        (Protocol::Http11, Carrier::Kernel(session)) => {
            let kernel = Box::new(Kernel::new(socket, *session));
            let transport = Transport::Kernel(kernel);
            h1::serve(&worker, transport, client, Vec::new()).await;
        }
        // The handshake was all that was asked for. HTTP/2 is not given to the kernel.
        (Protocol::AcmeTls, _) | (Protocol::Http2, Carrier::Kernel(_)) => {}
    }
}

/// The maker of a connection's records, with its keys.
enum Carrier {
    User(Accepted, Why),
    Kernel(Box<KernelSession>),
}

impl Carrier {
    fn path(&self) -> Path {
        match self {
            Self::User(_, why) => Path::User(*why),
            Self::Kernel(_) => Path::Kernel,
        }
    }
}

/// Beginning of a connection.
enum Begun {
    /// Its handshake is over.
    Secured(Box<Facts>, Origin, Carrier),
    /// HTTP without TLS came: its first bytes.
    Http(Vec<u8>),
}

/// Makes the handshake of a connection, and gives its keys to the kernel or to a session.
async fn secure(
    worker: &Worker,
    socket: &TcpStream,
    config: Arc<ServerConfig>,
) -> io::Result<Begun> {
    let mut shaken = match tls::shake(socket, config).await? {
        Shake::Done(shaken) => *shaken,
        Shake::Http(incoming) => return Ok(Begun::Http(incoming)),
    };
    let origin = match shaken.established.server_name.take() {
        Some(asked) => Origin::Named(Rc::new(asked)),
        None => Origin::Secure,
    };
    let facts = Box::new(shaken.established.facts.clone());
    let records = worker.limits.records;
    let offload = worker.offload();
    let (shaken, why) = match offload.choose(&shaken.established) {
        Err(why) => (shaken, why),
        Ok(offer) => match tls::kernel::take(socket, shaken, offer, records)? {
            Outcome::Kernel(session) => {
                return Ok(Begun::Secured(facts, origin, Carrier::Kernel(session)));
            }
            Outcome::User(shaken, why) => (*shaken, why),
        },
    };
    let carrier = Carrier::User(shaken.accept(records)?, why);
    Ok(Begun::Secured(facts, origin, carrier))
}
