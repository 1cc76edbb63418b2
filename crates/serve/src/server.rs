//! The server as a whole: a thread that accepts, and workers that serve.

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

use crate::admission::Admission;
use crate::counters::{Counters, Figures};
use crate::limits::Limits;
use crate::listener::{Listener, Service};
use crate::live::Live;
use crate::log::{AccessLog, Lines};
use crate::patience;
use crate::status::{Status, Volumes};
use crate::tls::kernel::Offload;
use crate::worker::{self, Accepted, Order, Reports, Trouble, Worker};

/// Pause before the next connection is accepted, after the system had no resources for one.
const PAUSE: Duration = Duration::from_millis(100);

/// Parts that a server is made of.
pub struct Parts {
    /// Sockets that accept connections.
    pub listeners: Vec<Listener>,
    /// Sites that are served.
    pub live: Live,
    /// Configuration of TLS; needed where HTTPS is served.
    pub tls: Option<Arc<ServerConfig>>,
    /// Choice between the kernel and user space for making TLS records.
    pub offload: Offload,
    /// Limits on the resources that clients can take.
    pub limits: Limits,
    /// Threads that serve; at least one.
    pub threads: usize,
    /// Log of all requests.
    pub log: Option<Arc<AccessLog>>,
    /// Callback that is told of files that cannot be sent.
    pub trouble: Trouble,
    /// Source of what the status page shows of volumes.
    pub volumes: Volumes,
}

/// A running server.
pub struct Server {
    workers: Vec<UnboundedSender<Order>>,
    threads: Vec<JoinHandle<()>>,
    accepting: watch::Sender<bool>,
    tally: Arc<Tally>,
}

/// Counters of all threads.
pub(crate) struct Tally {
    workers: Vec<Arc<Counters>>,
    refused: AtomicU64,
}

impl Server {
    /// Starts its threads, and serves.
    ///
    /// # Errors
    /// When the system has no threads or no event loops, or there is HTTPS without TLS.
    pub fn start(parts: Parts) -> io::Result<Self> {
        let Parts {
            listeners,
            live,
            tls,
            offload,
            limits,
            threads,
            log,
            trouble,
            volumes,
        } = parts;
        let needs_tls = listeners.iter().any(|door| door.service == Service::Https);
        if needs_tls && tls.is_none() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "HTTPS is to be served without a configuration of TLS",
            ));
        }
        let count = threads.max(1);
        let tally = Arc::new(Tally {
            workers: (0..count).map(|_| Arc::default()).collect(),
            refused: AtomicU64::new(0),
        });
        let status = Arc::new(Status::new(Arc::clone(&tally), volumes));
        let live = Arc::new(live);
        let (accepting, stopped) = watch::channel(true);
        let mut server = Self {
            workers: Vec::new(),
            threads: Vec::new(),
            accepting,
            tally: Arc::clone(&tally),
        };
        for (number, counters) in tally.workers.iter().enumerate() {
            let (orders, receiver) = unbounded_channel();
            server.workers.push(orders);
            let (live, tls) = (Arc::clone(&live), (tls.clone(), offload.clone()));
            let reports = Reports {
                counters: Arc::clone(counters),
                lines: log.clone().map(Lines::new),
                status: Arc::clone(&status),
                trouble: Arc::clone(&trouble),
            };
            let memory = limits.memory / count;
            let runtime = event_loop()?;
            server.spawn(&format!("serve-{number}"), move || {
                let worker = Worker::new(limits, memory, live, tls, reports);
                worker::run(worker, runtime, receiver);
            })?;
        }
        let crowd = Crowd {
            workers: server.workers.clone(),
            admission: Admission::default(),
            limits,
            tally,
        };
        let runtime = event_loop()?;
        let listeners = {
            let _inside = runtime.enter();
            listeners
                .into_iter()
                .map(Door::of)
                .collect::<io::Result<Vec<_>>>()?
        };
        server.spawn("serve-accept", move || {
            LocalSet::new().block_on(&runtime, accept(listeners, crowd, stopped));
        })?;
        Ok(server)
    }

    fn spawn(&mut self, name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let thread = thread::Builder::new().name(name.to_owned()).spawn(body)?;
        self.threads.push(thread);
        Ok(())
    }

    /// Answers by `live` from the next request on; connections stay.
    pub fn replace(&self, live: Live) {
        let live = Arc::new(live);
        for worker in &self.workers {
            let _ = worker.send(Order::Live(Arc::clone(&live)));
        }
    }

    /// Chooses the maker of the records of new connections; existing connections stay as they are.
    pub fn offload(&self, offload: &Offload) {
        for worker in &self.workers {
            let _ = worker.send(Order::Offload(offload.clone()));
        }
    }

    /// Figures of all threads so far.
    #[must_use]
    pub fn figures(&self) -> Figures {
        self.tally.figures()
    }

    /// Accepts no more connections, lets the requests in flight end, as long as the limits allow, and stops.
    pub fn drain(self) {
        let _ = self.accepting.send(false);
        for worker in &self.workers {
            let _ = worker.send(Order::Drain);
        }
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}

impl Tally {
    pub(crate) fn figures(&self) -> Figures {
        let mut figures = Figures::of(self.workers.iter().map(|counters| &**counters));
        figures.refused = self.refused.load(Ordering::Relaxed);
        figures
    }
}

fn event_loop() -> io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(patience::THREADS)
        .thread_name("serve-disk")
        .build()
}

/// The workers that share the connections.
struct Crowd {
    workers: Vec<UnboundedSender<Order>>,
    admission: Admission,
    limits: Limits,
    tally: Arc<Tally>,
}

/// Accepts clients until it is stopped.
async fn accept(doors: Vec<Door>, crowd: Crowd, mut stopped: watch::Receiver<bool>) {
    let crowd = Rc::new(crowd);
    for door in doors {
        spawn_local(accept_at(door, Rc::clone(&crowd)));
    }
    let _ = stopped.wait_for(|accepting| !accepting).await;
}

/// A listener in the event loop.
struct Door {
    socket: TcpListener,
    service: Service,
}

impl Door {
    fn of(listener: Listener) -> io::Result<Self> {
        Ok(Self {
            socket: TcpListener::from_std(listener.socket)?,
            service: listener.service,
        })
    }
}

async fn accept_at(door: Door, crowd: Rc<Crowd>) {
    loop {
        // It leaves this thread's event loop for a worker's.
        let accepted = match door.socket.accept().await {
            Ok((client, address)) => client.into_std().map(|client| (client, address)),
            Err(error) => Err(error),
        };
        match accepted {
            Ok((client, address)) => crowd.take_in(client, address, door.service),
            Err(error) if is_clients_fault(&error) => {}
            // No resources for one more: connections that end free some.
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// Returns whether a connection ended before it was accepted; the next one may be sound.
fn is_clients_fault(error: &io::Error) -> bool {
    !matches!(
        Errno::from_io_error(error),
        Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)
    )
}

impl Crowd {
    /// Gives a connection to the worker with the fewest connections, unless there are too many.
    fn take_in(&self, socket: TcpStream, address: SocketAddr, service: Service) {
        let Ok(admitted) = self.admission.admit(address.ip(), &self.limits) else {
            self.tally.refused.fetch_add(1, Ordering::Relaxed);
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
        // Counted here, since the next one may come before the worker has seen this one.
        if service != Service::Status {
            self.tally.workers[least].open.add(1);
        }
        let accepted = Accepted {
            socket,
            address,
            service,
            admitted,
        };
        let _ = self.workers[least].send(Order::Serve(accepted));
    }
}
