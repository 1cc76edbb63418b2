//! A worker: one thread with its share of the connections.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use http::{HeaderValue, StatusCode};
use rustls::ServerConfig;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::sync::watch;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use crate::address::{Address, Addresses};
use crate::admission::Admitted;
use crate::connection::{self, Broken, Budget, Date, FAREWELL, Pool, Reservation};
use crate::counters::Counters;
use crate::http::{Answer, Body, Piece, Request};
use crate::limits::Limits;
use crate::listener::Service;
use crate::live::Live;
use crate::log::{Entry, Lines};
use crate::origin::Origin;
use crate::patience;
use crate::redirect;
use crate::site::{
    Cache, CacheLimits, FilePath, Form, Misdirection, Site, error_page, misdirected,
};
use crate::status::Status;
use crate::tls::kernel::Offload;

/// Longest time for which lines of the access log wait for others, and open files for a request for them.
const TIDY: Duration = Duration::from_secs(1);

/// Length in bytes above which a page is one that was made of a folder's names.
const LONG_PAGE: usize = 64 << 10;

/// Pause, at first and at most, before another attempt to reserve memory for a long page.
const RETRY: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(500));

/// Time that connections have, once the server has ended them, until they are given up: each one listens to its client
/// for [`FAREWELL`] after the last request has ended.
const LEAVE: Duration = FAREWELL.saturating_add(Duration::from_secs(1));

/// Time after a report of a file that could not be sent in which no other is reported.
const QUIET: Duration = Duration::from_secs(10);

/// Order to a worker.
pub(crate) enum Order {
    /// Serve this connection.
    Serve(Accepted),
    /// Answer by these sites from now on.
    Live(Arc<Live>),
    /// Choose the maker of the records of new connections by this.
    Offload(Offload),
    /// Take no more requests, and end when those in flight are answered.
    Drain,
}

/// A connection that was accepted and has no worker yet.
pub(crate) struct Accepted {
    pub(crate) socket: std::net::TcpStream,
    pub(crate) address: SocketAddr,
    pub(crate) service: Service,
    pub(crate) admitted: Admitted,
}

/// State that all connections of a thread share.
pub(crate) struct Worker {
    pub(crate) limits: Limits,
    pub(crate) counters: Arc<Counters>,
    pub(crate) pool: Pool,
    pub(crate) addresses: Addresses,
    /// Budget for content that waits in memory of other kinds.
    pub(crate) budget: Budget,
    live: RefCell<Arc<Live>>,
    tls: Option<Arc<ServerConfig>>,
    offload: RefCell<Rc<Offload>>,
    cache: RefCell<Cache>,
    lines: Option<Lines>,
    status: Arc<Status>,
    date: Date,
    /// Buffer for an answer's head, while none is being written.
    scratch: Cell<Vec<u8>>,
    draining: watch::Sender<bool>,
    trouble: Trouble,
    /// Time of the last report of a file.
    told: Cell<Option<Instant>>,
}

/// Receivers of a worker's reports.
pub(crate) struct Reports {
    pub(crate) counters: Arc<Counters>,
    pub(crate) lines: Option<Lines>,
    pub(crate) status: Arc<Status>,
    pub(crate) trouble: Trouble,
}

/// Callback that is given, in a sentence, a fault that the server's operator should look at.
pub type Trouble = Arc<dyn Fn(&str) + Send + Sync>;

impl Worker {
    /// A worker that answers by `live`, and has `memory` bytes for answers in flight.
    pub(crate) fn new(
        limits: Limits,
        memory: usize,
        live: Arc<Live>,
        tls: (Option<Arc<ServerConfig>>, Offload),
        reports: Reports,
    ) -> Self {
        let Reports {
            counters,
            lines,
            status,
            trouble,
        } = reports;
        Self {
            limits,
            counters,
            pool: Pool::new(memory),
            addresses: Addresses::default(),
            budget: Budget::new(memory),
            cache: RefCell::new(new_cache(&limits)),
            tls: tls.0,
            offload: RefCell::new(Rc::new(tls.1)),
            live: RefCell::new(live),
            lines,
            status,
            date: Date::new(),
            scratch: Cell::default(),
            draining: watch::Sender::new(false),
            trouble,
            told: Cell::default(),
        }
    }

    /// Settings of TLS.
    pub(crate) fn tls(&self) -> Option<Arc<ServerConfig>> {
        self.tls.clone()
    }

    /// Maker of the records of new connections.
    pub(crate) fn offload(&self) -> Rc<Offload> {
        Rc::clone(&self.offload.borrow())
    }

    /// Answers a request.
    pub(crate) async fn answer(
        &self,
        service: Service,
        origin: &Origin,
        address: &Arc<Address>,
        request: &Request<'_>,
    ) -> Answer {
        if let Err(why) = origin.check(request, &self.live.borrow()) {
            return misdirected(why);
        }
        match service {
            Service::Https | Service::Http { .. } => self.file(address, request).await,
            Service::Redirect { port } => redirect::answer(request, port, &self.live.borrow()),
            Service::Status => self.status.answer(request).await,
        }
    }

    async fn file(&self, address: &Arc<Address>, request: &Request<'_>) -> Answer {
        let Some(site) = self.live.borrow().site(request.host).cloned() else {
            return misdirected(Misdirection::of(request.host));
        };
        if let Some(answer) = site.cached(request, &mut self.cache.borrow_mut()) {
            return answer;
        }
        let deadline = Instant::now() + self.limits.stall / 2;
        let mut reserved = None;
        loop {
            let answer = self.find(&site, address, request).await;
            let long = match answer.body.front() {
                Some(Piece::Bytes(bytes)) if bytes.len() > LONG_PAGE => bytes,
                _ => return answer,
            };
            let len = long.len();
            let now = reserved.or_else(|| self.budget.reserve(address, len));
            if let Some(held) = now.and_then(|reservation| reservation.hold(long)) {
                return Answer {
                    body: Body::bytes(held),
                    ..answer
                };
            }
            // Those that wait have nothing meanwhile, and it is made anew.
            drop(answer);
            reserved = self.reserve_until(deadline, address, len).await;
            if reserved.is_none() {
                return error_page(StatusCode::SERVICE_UNAVAILABLE);
            }
        }
    }

    /// Waits for memory for a page; fails if others still have it at the deadline.
    async fn reserve_until(
        &self,
        deadline: Instant,
        address: &Arc<Address>,
        len: usize,
    ) -> Option<Reservation> {
        let (mut pause, longest) = RETRY;
        while Instant::now() < deadline {
            sleep(pause).await;
            pause = (pause * 2).min(longest);
            if let Some(reservation) = self.budget.reserve(address, len) {
                return Some(reservation);
            }
        }
        None
    }

    /// Looks for what a request asks for, and answers it.
    async fn find(
        &self,
        site: &Arc<Site>,
        address: &Arc<Address>,
        request: &Request<'_>,
    ) -> Answer {
        let form = Form::wanted(request.fields.accept.as_deref());
        let found = match site.takes_time() || lists(request.target) {
            false => site.find(request.target, form),
            true => {
                let (site, target) = (Arc::clone(site), request.target.to_owned());
                let found =
                    patience::wait(Arc::clone(address), move || site.find(&target, form)).await;
                let Ok(found) = found else {
                    return error_page(StatusCode::INTERNAL_SERVER_ERROR);
                };
                found
            }
        };
        site.answer_found(request, found, &mut self.cache.borrow_mut())
    }

    pub(crate) fn date(&self, now: SystemTime) -> HeaderValue {
        self.date.text(now)
    }

    /// An empty buffer, to be [given back](Self::give_back).
    pub(crate) fn scratch(&self) -> Vec<u8> {
        self.scratch.take()
    }

    pub(crate) fn give_back(&self, mut scratch: Vec<u8>) {
        scratch.clear();
        self.scratch.set(scratch);
    }

    /// Writes a request that was answered to the access log, and counts it, unless it asked for the counts: figures do
    /// not change because they are read.
    pub(crate) fn note(&self, entry: &Entry) {
        if entry.service != Service::Status {
            self.counters.note(entry);
        }
        if let Some(lines) = &self.lines {
            lines.note(entry);
        }
    }

    /// Tells the server's operator of a file that could not be sent, at most once in a while.
    pub(crate) fn tell_of(&self, broken: &Broken, target: &str) {
        if !matches!(broken, Broken::File(_) | Broken::Changed) {
            return;
        }
        let now = Instant::now();
        if self.told.get().is_some_and(|told| now < told + QUIET) {
            return;
        }
        self.told.set(Some(now));
        (self.trouble)(&format!("{}: {broken}", target.escape_default()));
    }

    pub(crate) fn is_draining(&self) -> bool {
        *self.draining.borrow()
    }

    /// Waits until no more requests are to be taken.
    pub(crate) async fn draining(&self) {
        // The sender is this worker's own.
        let _ = self
            .draining
            .subscribe()
            .wait_for(|draining| *draining)
            .await;
    }

    fn replace(&self, live: Arc<Live>) {
        *self.cache.borrow_mut() = new_cache(&self.limits);
        *self.live.borrow_mut() = live;
    }
}

/// Returns whether a target may lead to a list of files, which takes longer to make than others can wait.
fn lists(target: &str) -> bool {
    FilePath::parse(target).is_ok_and(|path| path.is_folder())
}

/// Serves the connections that it is given, until it has drained.
pub(crate) fn run(worker: Worker, runtime: Runtime, orders: UnboundedReceiver<Order>) {
    LocalSet::new().block_on(&runtime, obey(Rc::new(worker), orders));
    // A disk that never answers must not keep the process.
    runtime.shutdown_background();
}

fn new_cache(limits: &Limits) -> Cache {
    Cache::new(CacheLimits {
        lifetime: limits.file_cache,
        files: limits.files,
    })
}

async fn obey(worker: Rc<Worker>, mut orders: UnboundedReceiver<Order>) {
    let tidying = spawn_local(tidy(Rc::clone(&worker)));
    // Each connection holds a sender, and the receiver hears when the last one has gone.
    let (held, mut released) = mpsc::channel::<()>(1);
    while let Some(order) = orders.recv().await {
        match order {
            Order::Serve(accepted) => {
                let (worker, held) = (Rc::clone(&worker), held.clone());
                spawn_local(async move {
                    serve(worker, accepted).await;
                    drop(held);
                });
            }
            Order::Live(live) => worker.replace(live),
            Order::Offload(offload) => *worker.offload.borrow_mut() = Rc::new(offload),
            Order::Drain => break,
        }
    }
    // Connections that were given to us meanwhile are closed with the queue.
    drop(orders);
    worker.draining.send_replace(true);
    drop(held);
    let _ = timeout(worker.limits.drain + LEAVE, released.recv()).await;
    tidying.abort();
    if let Some(lines) = &worker.lines {
        lines.flush();
    }
}

async fn serve(worker: Rc<Worker>, accepted: Accepted) {
    let _place = accepted.admitted;
    let _open = Open::unless_for_figures(&worker, accepted.service);
    if let Ok(socket) = TcpStream::from_std(accepted.socket) {
        connection::serve(worker, socket, accepted.address, accepted.service).await;
    }
}

/// A connection that was counted as open when it was accepted.
struct Open(Arc<Counters>);

impl Open {
    fn unless_for_figures(worker: &Worker, service: Service) -> Option<Self> {
        if service == Service::Status {
            return None;
        }
        worker.counters.connections.add(1);
        Some(Self(Arc::clone(&worker.counters)))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.subtract(1);
    }
}

/// Does the periodic work, which no connection triggers.
async fn tidy(worker: Rc<Worker>) {
    let mut ticks = interval(TIDY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        worker.cache.borrow_mut().sweep();
        worker.addresses.sweep();
        if let Some(lines) = &worker.lines {
            lines.flush();
        }
    }
}
