//! Health of the server, as a load balancer asks for it.
//!
//! A thread looks at the storage of all sites at intervals, so that an answer costs nothing: neither a greedy checker nor
//! storage that does not answer can keep a worker busy.

use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use std::{io, mem};

use http::{HeaderValue, StatusCode, header};

use crate::http::{Answer, Body, Method, Request};
use crate::operator::OnFault;
use crate::site::{content_type, error_page, no_sniffing};
use crate::sites::Sites;

/// Interval between two looks at the storage.
const INTERVAL: Duration = Duration::from_secs(2);

/// Time after which a look at a site that has not ended counts as failed.
const LOOK_DEADLINE: Duration = Duration::from_secs(5);

/// Readiness of a server, for those who send clients to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Readiness {
    /// Clients are served, and more may come.
    Ready,
    /// Clients are served, but new ones should go elsewhere: the server is about to end.
    Draining,
    /// The storage of a site fails or does not answer.
    NoStorage,
}

/// Health of a server, which all workers tell alike.
pub(crate) struct Health {
    is_draining: AtomicBool,
    look: Mutex<Look>,
    on_fault: OnFault,
    /// Sender of which each thread that looks holds a clone, so that `ended` shows when none is left.
    running: Sender<()>,
    ended: Mutex<Receiver<()>>,
}

/// A thread that looks at the storage of sites, and its findings. The thread ends when this is dropped. It is not waited
/// for, since storage that never answers must not keep sites from replacing these.
struct Look {
    findings: Arc<Mutex<Findings>>,
    _wanted: Sender<()>,
}

/// Findings of a thread that looks at the storage.
#[derive(Clone, Copy)]
struct Findings {
    /// Result of the last look that ended.
    storage_is_there: bool,
    /// Time at which the look at a site began; `None` between two looks.
    since: Option<Instant>,
    /// True if the operator was told of a fault, and not yet of its end.
    is_reported: bool,
}

impl Health {
    /// Looks at the storage of these sites from now on. `on_fault` receives a message when it fails first, and when it is
    /// there again.
    ///
    /// # Errors
    /// If the system has no resources for a thread.
    pub(crate) fn start(sites: &Arc<Sites>, on_fault: OnFault) -> io::Result<Self> {
        let (running, ended) = channel();
        let findings = Findings {
            // Each site was opened a moment ago.
            storage_is_there: true,
            since: None,
            is_reported: false,
        };
        Ok(Self {
            is_draining: AtomicBool::new(false),
            look: Mutex::new(Look::start(sites, findings, &on_fault, running.clone())?),
            on_fault,
            running,
            ended: Mutex::new(ended),
        })
    }

    /// Ends the thread, and waits until it has given up the sites, so that their storage is closed in order. Storage that
    /// does not answer is not waited for.
    pub(crate) fn end(self) {
        drop((self.look, self.running));
        let ended = lock(&self.ended);
        let _ = ended.recv_timeout(LOOK_DEADLINE);
    }

    /// Sets whether new clients should go elsewhere.
    pub(crate) fn set_draining(&self, is_draining: bool) {
        self.is_draining.store(is_draining, Ordering::Relaxed);
    }

    /// Looks at the storage of other sites from now on. What was found of the former ones holds until then: they may have
    /// the same storage.
    pub(crate) fn replace_sites(&self, sites: &Arc<Sites>) {
        let mut look = lock(&self.look);
        let former = *lock(&look.findings);
        let findings = Findings {
            storage_is_there: former.is_good(Instant::now()),
            since: None,
            ..former
        };
        match Look::start(sites, findings, &self.on_fault, self.running.clone()) {
            Ok(started) => *look = started,
            Err(error) => (self.on_fault)(&format!(
                "health checks still tell of the former sites: no thread can be started: {error}"
            )),
        }
    }

    fn readiness(&self) -> Readiness {
        if self.is_draining.load(Ordering::Relaxed) {
            return Readiness::Draining;
        }
        let look = lock(&self.look);
        let mut findings = lock(&look.findings);
        if findings.is_good(Instant::now()) {
            return Readiness::Ready;
        }
        // The thread itself reports what fails, but cannot while it waits.
        if !findings.is_reported {
            findings.is_reported = true;
            drop(findings);
            (self.on_fault)(
                "the storage of a site does not answer; health checks get 503 until it does",
            );
        }
        Readiness::NoStorage
    }

    /// Answers a request for the health, whatever its path.
    pub(crate) fn answer(&self, request: &Request<'_>) -> Answer {
        match request.method {
            Method::Get | Method::Head => {}
            Method::Options | Method::Other => return error_page(StatusCode::METHOD_NOT_ALLOWED),
            Method::Unknown => return error_page(StatusCode::NOT_IMPLEMENTED),
        }
        let (status, text) = match self.readiness() {
            Readiness::Ready => (StatusCode::OK, "ready\n"),
            Readiness::Draining => (StatusCode::SERVICE_UNAVAILABLE, "draining\n"),
            Readiness::NoStorage => (StatusCode::SERVICE_UNAVAILABLE, "storage cannot be read\n"),
        };
        Answer {
            status,
            shared: None,
            fields: vec![
                content_type("text/plain; charset=utf-8"),
                (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
                no_sniffing(),
            ],
            body: Body::bytes(text.into()),
        }
    }
}

impl Look {
    fn start(
        sites: &Arc<Sites>,
        findings: Findings,
        on_fault: &OnFault,
        running: Sender<()>,
    ) -> io::Result<Self> {
        let findings = Arc::new(Mutex::new(findings));
        let (wanted, unwanted) = channel();
        let (sites, on_fault) = (Arc::clone(sites), Arc::clone(on_fault));
        let noted = Arc::clone(&findings);
        thread::Builder::new()
            .name("serve-health".into())
            .spawn(move || {
                look_until(&unwanted, &sites, &noted, &on_fault);
                drop(sites);
                drop(running);
            })?;
        Ok(Self {
            findings,
            _wanted: wanted,
        })
    }
}

impl Findings {
    fn is_good(&self, now: Instant) -> bool {
        let is_late = |since: Instant| now.duration_since(since) > LOOK_DEADLINE;
        self.storage_is_there && !self.since.is_some_and(is_late)
    }
}

fn look_until(
    unwanted: &Receiver<()>,
    sites: &Sites,
    findings: &Mutex<Findings>,
    on_fault: &OnFault,
) {
    loop {
        let found = sites.all().try_for_each(|site| {
            lock(findings).since = Some(Instant::now());
            site.check_storage()
        });
        let now = Findings {
            storage_is_there: found.is_ok(),
            since: None,
            is_reported: found.is_err(),
        };
        let before = mem::replace(&mut *lock(findings), now);
        match (before.is_reported, found) {
            (false, Err(fault)) => {
                let cause = fault.source().map(|cause| format!(": {cause}"));
                on_fault(&format!(
                    "{fault}{}; health checks get 503 until it can be read again",
                    cause.unwrap_or_default()
                ));
            }
            (true, Ok(())) => on_fault("all sites can be read again"),
            _ => {}
        }
        if unwanted.recv_timeout(INTERVAL) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn health() -> (Health, Arc<Sites>) {
        let sites = Arc::new(Sites::new([]).expect("no sites"));
        let health = Health::start(&sites, Arc::new(|_: &str| {})).expect("a thread");
        (health, sites)
    }

    #[test]
    fn a_look_that_takes_long_counts_as_failed() {
        let began = Instant::now();
        let findings = Findings {
            storage_is_there: true,
            since: Some(began),
            is_reported: false,
        };
        assert!(findings.is_good(began + LOOK_DEADLINE));
        let late = began + LOOK_DEADLINE + Duration::from_millis(1);
        assert!(!findings.is_good(late));
        let between = Findings {
            since: None,
            ..findings
        };
        assert!(between.is_good(late));
    }

    #[test]
    fn a_server_that_drains_says_so_until_it_is_back() {
        let (health, sites) = health();
        assert_eq!(health.readiness(), Readiness::Ready);
        health.set_draining(true);
        assert_eq!(health.readiness(), Readiness::Draining);
        health.replace_sites(&sites);
        assert_eq!(health.readiness(), Readiness::Draining);
        health.set_draining(false);
        assert_eq!(health.readiness(), Readiness::Ready);
        health.end();
    }
}
