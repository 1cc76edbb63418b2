//! The server: a thread that accepts connections, and the threads of the workers.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::io::Errno;
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio::task::{LocalSet, spawn_local};

use crate::access::{self, AddressRules, Logins};
use crate::admission::Admission;
use crate::blocking;
use crate::compression::Results;
use crate::counters::{Figures, Tally};
use crate::event_loop::{self, Accepted, Command};
use crate::health::Health;
use crate::limits::Limits;
use crate::listener::{Listener, Service};
use crate::log::{AccessLog, Lines};
use crate::operator::OnFault;
use crate::proxy::TrustedProxies;
use crate::sites::Sites;
use crate::status::{Status, Volumes};
use crate::tls::kernel::Offload;
use crate::worker::{Reports, Worker};

/// Pause after the system had no resources for another connection.
const ACCEPT_RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Parts that a server is made of.
pub struct Parts {
    /// Sockets that accept connections.
    pub listeners: Vec<Listener>,
    /// Sites that are served.
    pub sites: Sites,
    /// Configuration of TLS; needed where HTTPS is served.
    pub tls: Option<Arc<ServerConfig>>,
    /// Choice between the kernel and user space for making TLS records.
    pub offload: Offload,
    /// Limits on the resources that clients can take.
    pub limits: Limits,
    /// Proxies whose connections begin with the client's address.
    pub proxies: TrustedProxies,
    /// Addresses that may ask for the server's health.
    pub health_clients: AddressRules,
    /// Threads that serve; at least one.
    pub threads: usize,
    /// Log of all requests.
    pub log: Option<Arc<AccessLog>>,
    /// Callback that receives faults of files that cannot be sent.
    pub on_fault: OnFault,
    /// Source of the volumes' facts on the status page.
    pub volumes: Volumes,
}

/// A server that runs: its workers and the thread that accepts connections.
pub struct Server {
    workers: Vec<UnboundedSender<Command>>,
    threads: Vec<JoinHandle<()>>,
    accepting: watch::Sender<bool>,
    tally: Arc<Tally>,
    /// Health of the server; `None` if no listener tells it.
    health: Option<Arc<Health>>,
}

impl Server {
    /// Starts the threads of the server.
    ///
    /// # Errors
    /// If the system has no resources for a thread or an event loop, or a listener needs TLS and `parts` has none.
    pub fn start(parts: Parts) -> io::Result<Self> {
        let Parts {
            listeners,
            sites,
            tls,
            offload,
            limits,
            proxies,
            health_clients,
            threads,
            log,
            on_fault,
            volumes,
        } = parts;
        if serves(&listeners, Service::Https) && tls.is_none() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "a listener serves HTTPS, but there is no TLS configuration: give one",
            ));
        }
        let count = threads.max(1);
        let tally = Arc::new(Tally {
            workers: (0..count).map(|_| Arc::default()).collect(),
            refused: AtomicU64::new(0),
        });
        let status = Arc::new(Status::new(Arc::clone(&tally), volumes));
        let sites = Arc::new(sites);
        let logins =
            Logins::new().ok_or_else(|| io::Error::other("there are no random numbers"))?;
        let logins = Arc::new(logins);
        let health = serves(&listeners, Service::Health)
            .then(|| Health::start(&sites, Arc::clone(&on_fault)))
            .transpose()?
            .map(Arc::new);
        let (accepting, stopped) = watch::channel(true);
        let mut server = Self {
            workers: Vec::new(),
            threads: Vec::new(),
            accepting,
            tally: Arc::clone(&tally),
            health: health.clone(),
        };
        // A compression keeps a processor busy, so there are no more than workers; two let two clients have one each.
        let compressed = Arc::new(Results::new(limits.compressed, count.max(2)));
        for (number, counters) in tally.workers.iter().enumerate() {
            let (commands, receiver) = unbounded_channel();
            server.workers.push(commands);
            let sites = (Arc::clone(&sites), Arc::clone(&logins));
            let tls = (tls.clone(), offload.clone());
            let reports = Reports {
                counters: Arc::clone(counters),
                lines: log.clone().map(Lines::new),
                status: Arc::clone(&status),
                health: health.clone(),
                on_fault: Arc::clone(&on_fault),
            };
            let memory = (limits.memory / count, Arc::clone(&compressed));
            let runtime = new_runtime()?;
            server.spawn(&format!("serve-{number}"), move || {
                let worker = Worker::new(limits, memory, sites, tls, reports);
                event_loop::run(worker, runtime, receiver);
            })?;
        }
        let dispatcher = Dispatcher {
            workers: server.workers.clone(),
            admission: Admission::default(),
            checks: Admission::default(),
            limits,
            proxies,
            health_clients,
            tally,
        };
        let runtime = new_runtime()?;
        let listeners = Acceptor::all_of(listeners, &runtime)?;
        server.spawn("serve-accept", move || {
            LocalSet::new().block_on(&runtime, accept(listeners, dispatcher, stopped));
        })?;
        Ok(server)
    }

    fn spawn(&mut self, name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let thread = thread::Builder::new().name(name.to_owned()).spawn(body)?;
        self.threads.push(thread);
        Ok(())
    }

    /// Serves `sites` from the next request on; connections stay open.
    pub fn replace(&self, sites: Sites) {
        let sites = Arc::new(sites);
        if let Some(health) = &self.health {
            health.replace_sites(&sites);
        }
        for worker in &self.workers {
            let _ = worker.send(Command::ReplaceSites(Arc::clone(&sites)));
        }
    }

    /// Sets the choice for the TLS records of new connections; open connections stay as they are.
    pub fn offload(&self, offload: &Offload) {
        for worker in &self.workers {
            let _ = worker.send(Command::SetOffload(offload.clone()));
        }
    }

    /// Sets what health checks are told: whether new clients should go elsewhere. Everybody is served as before.
    pub fn set_draining(&self, is_draining: bool) {
        if let Some(health) = &self.health {
            health.set_draining(is_draining);
        }
    }

    /// Figures of all workers so far.
    #[must_use]
    pub fn figures(&self) -> Figures {
        self.tally.figures()
    }

    /// Stops accepting connections, waits for the requests in flight within the limits, and ends the threads.
    pub fn drain(self) {
        let _ = self.accepting.send(false);
        for worker in &self.workers {
            let _ = worker.send(Command::Drain);
        }
        for thread in self.threads {
            let _ = thread.join();
        }
        // The workers have dropped theirs.
        if let Some(health) = self.health.and_then(Arc::into_inner) {
            health.end();
        }
    }
}

fn serves(listeners: &[Listener], service: Service) -> bool {
    let mut services = listeners.iter().map(|listener| listener.service);
    services.any(|one| one == service)
}

fn new_runtime() -> io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(blocking::THREADS + access::THREADS)
        .thread_name("serve-disk")
        .build()
}

/// Distributes connections among the workers.
struct Dispatcher {
    workers: Vec<UnboundedSender<Command>>,
    admission: Admission,
    /// Counts connections that ask for the health: a server that has all connections it may have is healthy.
    checks: Admission,
    limits: Limits,
    proxies: TrustedProxies,
    /// Addresses that may ask for the health. Connections from others take no place.
    health_clients: AddressRules,
    tally: Arc<Tally>,
}

/// Accepts connections until it is stopped.
async fn accept(
    acceptors: Vec<Acceptor>,
    dispatcher: Dispatcher,
    mut stopped: watch::Receiver<bool>,
) {
    let dispatcher = Rc::new(dispatcher);
    for acceptor in acceptors {
        spawn_local(accept_at(acceptor, Rc::clone(&dispatcher)));
    }
    let _ = stopped.wait_for(|accepting| !accepting).await;
}

/// A listener that is registered with the event loop.
struct Acceptor {
    socket: TcpListener,
    service: Service,
}

impl Acceptor {
    /// Registers listeners with a runtime's event loop.
    fn all_of(listeners: Vec<Listener>, runtime: &Runtime) -> io::Result<Vec<Self>> {
        let _inside = runtime.enter();
        listeners.into_iter().map(Self::of).collect()
    }

    fn of(listener: Listener) -> io::Result<Self> {
        Ok(Self {
            socket: TcpListener::from_std(listener.socket)?,
            service: listener.service,
        })
    }
}

async fn accept_at(acceptor: Acceptor, dispatcher: Rc<Dispatcher>) {
    loop {
        // The socket is taken out of this event loop: the worker registers it with its own.
        let accepted = match acceptor.socket.accept().await {
            Ok((client, address)) => client.into_std().map(|client| (client, address)),
            Err(error) => Err(error),
        };
        match accepted {
            Ok((client, address)) => dispatcher.dispatch(client, address, acceptor.service),
            Err(error) if is_connection_error(&error) => {}
            // No resources for another connection: wait until some are closed.
            Err(_) => tokio::time::sleep(ACCEPT_RETRY_PAUSE).await,
        }
    }
}

/// Returns whether a connection failed before it was accepted; the next one may succeed.
fn is_connection_error(error: &io::Error) -> bool {
    !matches!(
        Errno::from_io_error(error),
        Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)
    )
}

impl Dispatcher {
    /// Gives a connection to the worker with the fewest open ones, or drops it if there are too many.
    fn dispatch(&self, socket: TcpStream, address: SocketAddr, service: Service) {
        if service == Service::Health && !self.health_clients.admit(address.ip()) {
            return;
        }
        let is_from_proxy = service.is_for_clients() && self.proxies.contains(address.ip());
        let admitted = match service {
            Service::Health => self.checks.admit(address.ip(), &self.limits.of_checks()),
            _ if is_from_proxy => self.admission.admit_proxy(address.ip(), &self.limits),
            _ => self.admission.admit(address.ip(), &self.limits),
        };
        let Ok(admitted) = admitted else {
            if service.is_for_clients() {
                self.tally.refused.fetch_add(1, Ordering::Relaxed);
            }
            return;
        };
        let loads = self
            .tally
            .workers
            .iter()
            .map(|counters| counters.open.get());
        let Some((least, _)) = loads.enumerate().min_by_key(|&(_, load)| load) else {
            return;
        };
        // Counted here, since the next connection may arrive before the worker receives this one.
        if service.is_for_clients() {
            self.tally.workers[least].open.add(1);
        }
        let accepted = Accepted {
            socket,
            address,
            is_from_proxy,
            service,
            admitted,
        };
        let _ = self.workers[least].send(Command::Serve(accepted));
    }
}
