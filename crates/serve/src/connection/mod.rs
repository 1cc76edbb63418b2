//! One client's connection, from its first byte to its last.

mod batch;
mod broken;
mod date;
mod h1;
mod h2;
mod head;
mod plain;
mod pool;
mod secure;
mod share;
mod socket;
mod stall;
mod stream_body;
mod transport;

use std::net::SocketAddr;
use std::rc::Rc;

use tokio::net::TcpStream;
use tokio::time::timeout;

pub(crate) use broken::Broken;
pub(crate) use date::Date;
pub(crate) use pool::Pool;
pub(crate) use share::Budget;

use crate::listener::Service;
use crate::tls::{self, Protocol, TlsStream};
use crate::worker::Worker;
use plain::Plain;
use secure::Secure;
use transport::Transport;

/// Whose connection it is, and what it is for.
#[derive(Debug, Clone, Copy)]
struct Client {
    address: SocketAddr,
    service: Service,
    /// Version and suite, where there is TLS.
    tls: Option<(&'static str, &'static str)>,
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
    let mut client = Client {
        address,
        service,
        tls: None,
    };
    let (Service::Https, Some(config)) = (service, worker.tls()) else {
        return h1::serve(&worker, Transport::Plain(Plain::new(socket)), client).await;
    };
    let handshake = tls::accept(&socket, config);
    let Ok(Ok(accepted)) = timeout(worker.limits.handshake, handshake).await else {
        worker.counters.tls.failed.add(1);
        return;
    };
    let facts = accepted.session.facts();
    worker.counters.tls.note(facts);
    client.tls = Some((facts.version, facts.suite));
    match facts.protocol {
        Protocol::Http2 => h2::serve(worker, TlsStream::new(socket, accepted), client).await,
        Protocol::Http11 => {
            let secure = Box::new(Secure::new(socket, accepted));
            h1::serve(&worker, Transport::Secure(secure), client).await;
        }
        // The handshake was all that was asked for.
        Protocol::AcmeTls => {}
    }
}
