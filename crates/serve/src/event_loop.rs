//! The thread of a worker: an event loop that receives commands and serves connections.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::admission::Admitted;
use crate::connection;
use crate::counters::Counters;
use crate::listener::Service;
use crate::proxy;
use crate::sites::Sites;
use crate::tls::kernel::Offload;
use crate::transport::LINGER_TIMEOUT;
use crate::worker::Worker;

/// Interval of the periodic work: lines of the access log are written, and unused files are closed.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// Time after the drain limit until connections are dropped: the lingering close of the last ones takes
/// [`LINGER_TIMEOUT`].
const CLOSE_TIMEOUT: Duration = LINGER_TIMEOUT.saturating_add(Duration::from_secs(1));

/// Command to a worker's thread.
pub(crate) enum Command {
    Serve(Accepted),
    /// Serve these sites from the next request on.
    ReplaceSites(Arc<Sites>),
    /// Use this choice for the TLS records of new connections.
    SetOffload(Offload),
    /// Accept no more requests, and end when those in flight are answered.
    Drain,
}

/// A connection that was accepted and has no worker yet.
pub(crate) struct Accepted {
    pub(crate) socket: std::net::TcpStream,
    pub(crate) address: SocketAddr,
    /// True if a proxy made it, which first tells the client's address.
    pub(crate) is_from_proxy: bool,
    pub(crate) service: Service,
    pub(crate) admitted: Admitted,
}

/// Runs a worker's event loop until it has drained.
pub(crate) fn run(worker: Worker, runtime: Runtime, commands: UnboundedReceiver<Command>) {
    LocalSet::new().block_on(&runtime, process(Rc::new(worker), commands));
    // Blocking threads are not waited for: a disk that never answers must not keep the process.
    runtime.shutdown_background();
}

async fn process(worker: Rc<Worker>, mut commands: UnboundedReceiver<Command>) {
    let sweeping = spawn_local(sweep(Rc::clone(&worker)));
    // Each connection holds a sender; the receiver ends when the last one is dropped.
    let (held, mut released) = mpsc::channel::<()>(1);
    while let Some(command) = commands.recv().await {
        match command {
            Command::Serve(accepted) => {
                let (worker, held) = (Rc::clone(&worker), held.clone());
                spawn_local(async move {
                    serve(worker, accepted).await;
                    drop(held);
                });
            }
            Command::ReplaceSites(sites) => worker.replace_sites(sites),
            Command::SetOffload(offload) => worker.set_offload(offload),
            Command::Drain => break,
        }
    }
    // Connections that are still in the queue are closed with it.
    drop(commands);
    worker.drain();
    drop(held);
    let _ = timeout(worker.limits.drain + CLOSE_TIMEOUT, released.recv()).await;
    sweeping.abort();
    worker.flush_log();
}

async fn serve(worker: Rc<Worker>, accepted: Accepted) {
    let Accepted {
        socket,
        mut address,
        is_from_proxy,
        service,
        mut admitted,
    } = accepted;
    let _open = OpenConnection::count(&worker, service);
    let Ok(socket) = TcpStream::from_std(socket) else {
        return;
    };
    if is_from_proxy {
        match client_of_proxy(&worker, &socket, address, &mut admitted).await {
            Some(client) => address = client,
            None => return,
        }
    }
    connection::serve(worker, socket, address, service).await;
}

/// Address of the client for which a proxy has made a connection; `None` if the proxy does not tell it before the server
/// ends, or the client has as many connections as it may have.
async fn client_of_proxy(
    worker: &Worker,
    socket: &TcpStream,
    peer: SocketAddr,
    admitted: &mut Admitted,
) -> Option<SocketAddr> {
    let received = timeout(worker.limits.handshake, proxy::receive_client(socket, peer));
    let received = tokio::select! {
        received = received => received,
        () = worker.draining() => return None,
    };
    let client = match received.unwrap_or_else(|late| Err(late.into())) {
        Ok(client) => client,
        Err(error) => {
            worker.report_proxy(peer, &error);
            return None;
        }
    };
    let counted = admitted.count_for(client.ip(), &worker.limits);
    if counted.is_err() {
        worker.counters.refused.add(1);
    }
    counted.is_ok().then_some(client)
}

/// A connection that was counted as open when it was accepted, until this is dropped.
struct OpenConnection(Arc<Counters>);

impl OpenConnection {
    /// Counts a connection, if it is for clients.
    fn count(worker: &Worker, service: Service) -> Option<Self> {
        if !service.is_for_clients() {
            return None;
        }
        worker.counters.connections.add(1);
        Some(Self(Arc::clone(&worker.counters)))
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.open.subtract(1);
    }
}

/// Does the worker's periodic work.
async fn sweep(worker: Rc<Worker>) {
    let mut ticks = interval(SWEEP_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        worker.sweep();
    }
}
