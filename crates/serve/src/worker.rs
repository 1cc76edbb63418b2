//! State that the connections of one worker thread share, and the answers to their requests.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use http::{HeaderValue, StatusCode};
use rustls::ServerConfig;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::access::{self, Access, Login, Logins, Pace};
use crate::address::{Address, Addresses, Held};
use crate::admission;
use crate::blocking;
use crate::budget::{Budget, Reservation};
use crate::client::Client;
use crate::compression::{Lookup, Results, compress};
use crate::counters::Counters;
use crate::health::Health;
use crate::http::{Answer, Body, DateCache, Meter, Piece, Request};
use crate::limits::Limits;
use crate::listener::Service;
use crate::log::{Entry, Lines};
use crate::operator::{OnFault, Operator};
use crate::redirect;
use crate::site::{
    Cache, CacheLimits, CompressedReply, Form, Misdirection, Reply, Site, error_page, misdirected,
};
use crate::sites::Sites;
use crate::status::Status;
use crate::tls::kernel::Offload;
use crate::transport::{Pool, PoolHandle, TransportError};

/// Length in bytes above which a page counts towards the budget: only listings of folders are so long.
const LONG_PAGE: usize = 64 << 10;

/// First and longest pause before another attempt to reserve memory for a long page.
const RETRY: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(500));

/// Limit on the archives that a worker sends at a time, as each holds names of its folders; and the number of them that
/// is reserved for addresses that have none.
const ARCHIVES_MAX: usize = 20;
const ARCHIVES_RESERVE: usize = 4;

/// State that all connections of a thread share.
pub(crate) struct Worker {
    pub(crate) limits: Limits,
    pub(crate) counters: Arc<Counters>,
    pub(crate) pool: Pool,
    pub(crate) addresses: Addresses,
    /// Budget for content that waits outside the pool.
    pub(crate) budget: Budget,
    sites: RefCell<Arc<Sites>>,
    tls: Option<Arc<ServerConfig>>,
    offload: RefCell<Rc<Offload>>,
    cache: RefCell<Cache>,
    /// Number of archives in flight.
    archives: Arc<Held>,
    /// Compressed files of all workers.
    compressed: Arc<Results>,
    lines: Option<Lines>,
    status: Arc<Status>,
    /// Health of the server; `None` if no listener tells it.
    health: Option<Arc<Health>>,
    logins: Arc<Logins>,
    date: DateCache,
    /// Buffer for an answer's head, while no head is being written.
    scratch: Cell<Vec<u8>>,
    draining: watch::Sender<bool>,
    /// Messages about files that could not be sent.
    of_files: Operator,
    /// Messages about proxies, which leave room for those about files.
    of_proxies: Operator,
}

/// An answer, and the user whose request it answers.
pub(crate) struct Answered {
    pub(crate) answer: Answer,
    /// Name of the user; `None` if nobody has logged in.
    pub(crate) user: Option<Arc<str>>,
    /// Pacing of the content; `None` if its rate has no limit.
    pub(crate) pace: Option<Pace>,
}

impl From<Answer> for Answered {
    fn from(answer: Answer) -> Self {
        Self {
            answer,
            user: None,
            pace: None,
        }
    }
}

/// Destinations of a worker's counts, log lines and reports of faults.
pub(crate) struct Reports {
    pub(crate) counters: Arc<Counters>,
    pub(crate) lines: Option<Lines>,
    pub(crate) status: Arc<Status>,
    pub(crate) health: Option<Arc<Health>>,
    pub(crate) on_fault: OnFault,
}

impl Worker {
    /// Makes a worker that serves `sites`, with `memory` bytes for answers in flight, and shares `compressed` with
    /// others.
    pub(crate) fn new(
        limits: Limits,
        (memory, compressed): (usize, Arc<Results>),
        (sites, logins): (Arc<Sites>, Arc<Logins>),
        tls: (Option<Arc<ServerConfig>>, Offload),
        reports: Reports,
    ) -> Self {
        let Reports {
            counters,
            lines,
            status,
            health,
            on_fault,
        } = reports;
        Self {
            limits,
            counters,
            pool: Pool::new(memory),
            addresses: Addresses::default(),
            budget: Budget::new(memory),
            cache: RefCell::new(new_cache(&limits)),
            archives: Arc::default(),
            compressed,
            tls: tls.0,
            offload: RefCell::new(Rc::new(tls.1)),
            sites: RefCell::new(sites),
            lines,
            status,
            health,
            logins,
            date: DateCache::new(),
            scratch: Cell::default(),
            draining: watch::Sender::new(false),
            of_files: Operator::new(Arc::clone(&on_fault)),
            of_proxies: Operator::new(on_fault),
        }
    }

    pub(crate) fn tls(&self) -> Option<Arc<ServerConfig>> {
        self.tls.clone()
    }

    /// Choice between kernel and user space for the TLS records of new connections.
    pub(crate) fn offload(&self) -> Rc<Offload> {
        Rc::clone(&self.offload.borrow())
    }

    /// Answers a client's request.
    pub(crate) async fn answer(&self, client: &Client, request: &Request<'_>) -> Answered {
        // Checks name the server by whatever address they have.
        if let (Service::Health, Some(health)) = (client.service, &self.health) {
            return health.answer(request).into();
        }
        if let Err(why) = client.origin.check(request, &self.sites.borrow()) {
            return misdirected(why).into();
        }
        let answer = match client.service {
            Service::Https | Service::Http { .. } => return self.admit(client, request).await,
            Service::Redirect { port } => redirect::answer(request, port, &self.sites.borrow()),
            Service::Status => self.status.answer(request).await,
            Service::Health => error_page(StatusCode::NOT_FOUND),
        };
        answer.into()
    }

    /// Answers a request to a site, if the site admits the client.
    async fn admit(&self, client: &Client, request: &Request<'_>) -> Answered {
        let Some(site) = self.sites.borrow().site(request.host).cloned() else {
            return misdirected(Misdirection::of(request.host)).into();
        };
        let file = self.file(&site, &client.holdings, request);
        match site.access() {
            Some(access) if !access::is_challenge(request.target) => {
                let pace = access.pace(admission::client(client.address.ip()));
                let (answer, user) = match self.user(client, request, &site, access).await {
                    Ok(user) => (file.await, user),
                    Err(refused) => (*refused, None),
                };
                let mut answered = Answered { answer, user, pace };
                if answered.user.is_some() {
                    access::mark_private(&mut answered.answer);
                }
                answered
            }
            _ => file.await.into(),
        }
    }

    /// Finds the user that a client is; `None` if the site is for everybody.
    ///
    /// # Errors
    /// The answer to a client that the site does not admit.
    async fn user(
        &self,
        client: &Client,
        request: &Request<'_>,
        site: &Site,
        access: &Access,
    ) -> Result<Option<Arc<str>>, Box<Answer>> {
        let refused = |status| Box::new(site.error(status));
        let address = client.address.ip();
        if !access.admits(address) {
            return Err(refused(StatusCode::FORBIDDEN));
        }
        let retry = |status, wait| {
            let mut answer = refused(status);
            answer.fields.push(access::retry_after(wait));
            answer
        };
        let address = admission::client(address);
        if let Err(wait) = access.count_request(address) {
            return Err(retry(StatusCode::TOO_MANY_REQUESTS, wait));
        }
        let Some(users) = access.users() else {
            return Ok(None);
        };
        // The configuration refuses this, but a reload does not close listeners. A password must not be asked for here.
        if client.service == (Service::Http { local: false }) {
            return Err(refused(StatusCode::FORBIDDEN));
        }
        let authorization = request.fields.authorization;
        match self.logins.check(users, address, authorization).await {
            Login::Right(user) => Ok(Some(user)),
            Login::Wrong => {
                let mut answer = refused(StatusCode::UNAUTHORIZED);
                access::ask_for_password(&mut answer, users);
                Err(answer)
            }
            Login::TooMany(wait) => Err(retry(StatusCode::TOO_MANY_REQUESTS, wait)),
            Login::Busy => Err(retry(
                StatusCode::SERVICE_UNAVAILABLE,
                Duration::from_secs(1),
            )),
        }
    }

    async fn file(
        &self,
        site: &Arc<Site>,
        address: &Arc<Address>,
        request: &Request<'_>,
    ) -> Answer {
        let cached = site.cached(request, &mut self.cache.borrow_mut());
        if let Some(reply) = cached {
            return self.complete(site, address, request, reply).await;
        }
        let deadline = Instant::now() + self.limits.stall / 2;
        let mut reserved = None;
        loop {
            let answer = match self.find(site, address, request).await {
                Reply::Answer(answer) => answer,
                reply => return self.complete(site, address, request, reply).await,
            };
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
            // The page is dropped, and made anew once there is memory: waiting requests hold none.
            drop(answer);
            reserved = self.reserve_until(deadline, address, len).await;
            if reserved.is_none() {
                return error_page(StatusCode::SERVICE_UNAVAILABLE);
            }
        }
    }

    /// Waits for memory for a page; `None` if there is none until the deadline.
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

    /// Resolves a request's target and answers it; on another thread if that may wait for a disk.
    async fn find(&self, site: &Arc<Site>, address: &Arc<Address>, request: &Request<'_>) -> Reply {
        let form = Form::wanted(request.fields.accept.as_deref());
        let found = match site.takes_time(request.target) {
            false => site.find(request.target, form),
            true => {
                let (site, target) = (Arc::clone(site), request.target.to_owned());
                let found =
                    blocking::run(Arc::clone(address), move || site.find(&target, form)).await;
                let Ok(found) = found else {
                    return Reply::Answer(error_page(StatusCode::INTERNAL_SERVER_ERROR));
                };
                found
            }
        };
        site.answer_found(request, found, &mut self.cache.borrow_mut())
    }

    /// Makes the answer of a site's reply.
    async fn complete(
        &self,
        site: &Arc<Site>,
        address: &Arc<Address>,
        request: &Request<'_>,
        reply: Reply,
    ) -> Answer {
        match reply {
            Reply::Answer(answer) => answer,
            Reply::Compress(reply) => self.compress(site, address, request, &reply).await,
            Reply::Archive(names) => match ArchiveShare::take(&self.archives, address) {
                Some(share) => names.archive(site, share),
                None => site.error(StatusCode::SERVICE_UNAVAILABLE),
            },
        }
    }

    /// Answers with compressed content, from memory or after a blocking thread has compressed the file. If no thread
    /// and no memory is free, the answer has the file as it is.
    async fn compress(
        &self,
        site: &Site,
        address: &Arc<Address>,
        request: &Request<'_>,
        reply: &CompressedReply,
    ) -> Answer {
        let content = self.compressed(address, reply).await;
        site.answer_compressed(request, reply, content.as_ref())
    }

    async fn compressed(&self, address: &Arc<Address>, reply: &CompressedReply) -> Option<Bytes> {
        let (key, tag, file) = (reply.key(), reply.tag(), reply.file());
        let size = usize::try_from(file.size()).ok()?;
        let is_secret = file.in_volume().is_some();
        let results = &self.compressed;
        let mut done = match results.look(key, tag, size, is_secret, address.client) {
            Lookup::Found(content) => return Some(content),
            Lookup::Unavailable => return None,
            Lookup::Running(done) => done,
            Lookup::Begin(job) => {
                let (done, file, coding) = (job.subscribe()?, Arc::clone(file), key.coding);
                // Without a thread the job is dropped, and those who wait for it go on.
                blocking::run_if_free(address, move || job.finish(compress(&file, coding)));
                done
            }
        };
        // The sender is dropped when the compression has ended, and sends nothing before.
        let _ = done.changed().await;
        results.find(key, tag)
    }

    pub(crate) fn date(&self, now: SystemTime) -> HeaderValue {
        self.date.text(now)
    }

    /// Access to the pool of buffers on behalf of an address.
    pub(crate) fn pool_for<'a>(&'a self, address: &'a Arc<Address>) -> PoolHandle<'a> {
        PoolHandle {
            pool: &self.pool,
            address,
        }
    }

    /// Lends an empty buffer, for [`give_back`](Self::give_back).
    pub(crate) fn scratch(&self) -> Vec<u8> {
        self.scratch.take()
    }

    pub(crate) fn give_back(&self, mut scratch: Vec<u8>) {
        scratch.clear();
        self.scratch.set(scratch);
    }

    /// Meter of what this thread sends to clients.
    pub(crate) fn meter(&self) -> Arc<dyn Meter> {
        Arc::<Counters>::clone(&self.counters)
    }

    /// Writes an answered request to the access log and counts it. Requests of those who watch the server do not count, and
    /// checks of its health, which come every few seconds, have no line either.
    pub(crate) fn record(&self, entry: &Entry) {
        if entry.service.is_for_clients() {
            self.counters.record(entry);
        }
        match &self.lines {
            Some(lines) if entry.service != Service::Health => lines.append(entry),
            _ => {}
        }
    }

    /// Reports a file that could not be sent to the operator, unless another message went there lately.
    pub(crate) fn report_file(&self, error: &TransportError, target: &str) {
        if error.is_of_file() {
            self.of_files
                .tell(|| format!("{}: {error}", target.escape_default()));
        }
    }

    /// Reports a proxy that does not tell its client to the operator, unless another message about proxies went there lately.
    pub(crate) fn report_proxy(&self, peer: SocketAddr, error: &io::Error) {
        // Anything else is a connection that ended, as a check without a request does.
        if matches!(
            error.kind(),
            io::ErrorKind::InvalidData | io::ErrorKind::TimedOut
        ) {
            self.of_proxies
                .tell(|| format!("trusted proxy {}: {error}", peer.ip()));
        }
    }

    /// Ends the acceptance of requests.
    pub(crate) fn drain(&self) {
        self.draining.send_replace(true);
    }

    /// Sets the choice for the TLS records of new connections.
    pub(crate) fn set_offload(&self, offload: Offload) {
        *self.offload.borrow_mut() = Rc::new(offload);
    }

    /// Closes files and forgets addresses that are no longer used, and writes the lines of the access log.
    pub(crate) fn sweep(&self) {
        self.cache.borrow_mut().sweep();
        self.addresses.sweep();
        self.logins.sweep();
        self.flush_log();
    }

    pub(crate) fn flush_log(&self) {
        if let Some(lines) = &self.lines {
            lines.flush();
        }
    }

    pub(crate) fn is_draining(&self) -> bool {
        *self.draining.borrow()
    }

    /// Waits until the worker accepts no more requests.
    pub(crate) async fn draining(&self) {
        // The sender is a field of this worker, so the channel is open.
        let _ = self
            .draining
            .subscribe()
            .wait_for(|draining| *draining)
            .await;
    }

    /// Serves other sites from the next request on.
    pub(crate) fn replace_sites(&self, sites: Arc<Sites>) {
        *self.cache.borrow_mut() = new_cache(&self.limits);
        *self.sites.borrow_mut() = sites;
        self.compressed.clear();
    }
}

/// The right to send an archive, which is given back when this is dropped.
struct ArchiveShare {
    running: Arc<Held>,
    address: Arc<Address>,
}

impl ArchiveShare {
    /// Takes a share for an address, unless it has as many as are left for others.
    fn take(running: &Arc<Held>, address: &Arc<Address>) -> Option<Self> {
        let left = ARCHIVES_MAX.saturating_sub(running.get());
        address.archives.may_grow(left, ARCHIVES_RESERVE).then(|| {
            running.add(1);
            address.archives.add(1);
            Self {
                running: Arc::clone(running),
                address: Arc::clone(address),
            }
        })
    }
}

impl Drop for ArchiveShare {
    fn drop(&mut self) {
        self.running.subtract(1);
        self.address.archives.subtract(1);
    }
}

fn new_cache(limits: &Limits) -> Cache {
    Cache::new(CacheLimits {
        lifetime: limits.file_cache,
        files: limits.files,
    })
}
