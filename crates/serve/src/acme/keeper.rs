//! Keeps a certificate valid: loads the stored one, orders and renews it.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

use super::active_certificates::ActiveCertificates;
use super::client::{Client, RetryAfter};
use super::fault::{Fault, StateError};
use super::order::{self, Issued};
use super::schedule;
use super::settings::Settings;
use super::state::State;
use crate::tls::{Certificate, Expiry, FileError};

/// Time for one attempt, including all pauses within it.
const ATTEMPT_TIME: Duration = Duration::from_secs(15 * 60);

/// Result of an attempt, for the server's operator.
#[derive(Debug)]
pub enum Event {
    /// The stored certificate is in use; it is valid until this time.
    Found(Expiry),
    /// The stored certificate cannot be used; a new one is ordered.
    Broken(FileError),
    /// A new certificate is in use; it is valid until this time.
    Obtained(Expiry),
    /// A new certificate is in use but could not be stored: the next start orders another one.
    NotStored(StateError),
    /// There is no new certificate; the one in use stays.
    Failed {
        fault: Fault,
        /// Time until the next attempt.
        pause: Duration,
    },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Found(until) => write!(f, "acme: the stored certificate is valid until {until}"),
            Self::Broken(error) => {
                write!(
                    f,
                    "acme: the stored certificate cannot be used: {error}; a new one is ordered"
                )
            }
            Self::Obtained(until) => {
                write!(f, "acme: a certificate was obtained, valid until {until}")
            }
            Self::NotStored(error) => write!(
                f,
                "acme: the new certificate is in use but could not be stored, so the next start will order another \
                 one: {error}"
            ),
            Self::Failed { fault, pause } => {
                let minutes = pause.as_secs().div_ceil(60);
                write!(
                    f,
                    "acme: no certificate: {fault}; next try in {minutes} minutes"
                )
            }
        }
    }
}

/// Tries the folder for account and certificate as [`Keeper::open`] does, and leaves nothing behind. Tells the fault of
/// a stored certificate that cannot be used.
///
/// # Errors
/// When the folder cannot be made, used or written to.
pub fn check(settings: &Settings) -> Result<Option<Event>, StateError> {
    let fault = State::check(&settings.state, &settings.directory)?;
    Ok(fault.map(Event::Broken))
}

/// A certificate that is to be kept valid.
pub struct Keeper {
    settings: Settings,
    state: State,
    active: Arc<ActiveCertificates>,
    /// Begin and end of the validity of the certificate that is shown.
    valid: Option<(SystemTime, SystemTime)>,
    failures: u32,
}

impl Keeper {
    /// Shows the stored certificate, if it is for the names and has not expired. Tells that, or the fault that it has.
    ///
    /// # Errors
    /// When there is no folder for account and certificate.
    pub fn open(
        settings: Settings,
        active: Arc<ActiveCertificates>,
    ) -> Result<(Self, Option<Event>), StateError> {
        let state = State::open(&settings.state, &settings.directory)?;
        let mut keeper = Self {
            settings,
            state,
            active,
            valid: None,
            failures: 0,
        };
        let event = match keeper.state.certificate() {
            Ok(Some(stored)) if keeper.is_of_use(&stored) => {
                let until = stored.expiry();
                keeper.show(stored);
                Some(Event::Found(until))
            }
            Ok(_) => None,
            Err(error) => Some(Event::Broken(error)),
        };
        Ok((keeper, event))
    }

    fn is_of_use(&self, stored: &Certificate) -> bool {
        let expired = stored.expiry().is_before(SystemTime::now());
        !expired && order::is_for(stored, &self.settings.names)
    }

    fn show(&mut self, certificate: Certificate) {
        self.valid = Some((certificate.since().time(), certificate.expiry().time()));
        self.active.obtained(certificate);
    }

    /// Orders and renews from now on, and tells the results. Challenges are answered only by a running server: start it
    /// before.
    ///
    /// # Errors
    /// When the system has no thread or no event loop.
    pub fn start(self, tell: impl Fn(&Event) + Send + 'static) -> io::Result<KeeperHandle> {
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .thread_name("acme-names")
            .build()?;
        let (stop, stopped) = oneshot::channel();
        let thread = thread::Builder::new()
            .name("acme".to_owned())
            .spawn(move || run(runtime, self, stopped, tell))?;
        Ok(KeeperHandle {
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Orders and renews until it is stopped.
    async fn keep(mut self, tell: impl Fn(&Event)) {
        loop {
            let due = self
                .valid
                .map(|(since, until)| schedule::renewal(since, until));
            match due.and_then(|due| schedule::sleep(SystemTime::now(), due)) {
                Some(rest) => tokio::time::sleep(schedule::spread(rest)).await,
                None => self.attempt(&tell).await,
            }
        }
    }

    /// Orders once, and after a failure waits until the next attempt is due.
    async fn attempt(&mut self, tell: &impl Fn(&Event)) {
        let mut asked = RetryAfter::default();
        let fault = match self.order(&mut asked).await {
            Ok(issued) => match self.take(issued, tell) {
                Ok(()) => return,
                Err(fault) => fault,
            },
            Err(fault) => fault,
        };
        self.failures = self.failures.saturating_add(1);
        let retry_after = asked.take(SystemTime::now());
        let pause = schedule::pause(self.failures, fault.is_rate_limit(), retry_after);
        let pause = schedule::spread(pause);
        tell(&Event::Failed { fault, pause });
        tokio::time::sleep(pause).await;
    }

    /// Shows and stores a new certificate. One that would have to be renewed at once is a failure, so that an authority
    /// with another clock is not asked again and again.
    fn take(&mut self, issued: Issued, tell: &impl Fn(&Event)) -> Result<(), Fault> {
        let until = issued.certificate.expiry();
        let due = schedule::renewal(issued.certificate.since().time(), until.time());
        if schedule::sleep(SystemTime::now(), due).is_none() {
            return Err(Fault::Unusable);
        }
        self.show(issued.certificate);
        self.failures = 0;
        tell(&Event::Obtained(until));
        if let Err(error) = self.state.keep_certificate(issued.text.as_bytes()) {
            tell(&Event::NotStored(error));
        }
        Ok(())
    }

    async fn order(&self, retry_after: &mut RetryAfter) -> Result<Issued, Fault> {
        let client = Client::new(self.settings.ca.as_deref())?;
        *retry_after = client.retry_after();
        let whole = async {
            match self.order_once(client.clone()).await {
                // The authority has lost its accounts, as test servers do: so we make a new one, once.
                Err(fault) if fault.is_unknown_account() => {
                    self.state.forget_account()?;
                    self.order_once(client).await
                }
                ended => ended,
            }
        };
        let whole = tokio::time::timeout(ATTEMPT_TIME, whole).await;
        whole.unwrap_or(Err(Fault::TooLong(ATTEMPT_TIME)))
    }

    async fn order_once(&self, client: Client) -> Result<Issued, Fault> {
        let account = order::account(&self.settings, client, &self.state).await?;
        let certificates = self.active.certificates();
        order::obtain(&account, &self.settings.names, certificates).await
    }
}

fn run(runtime: Runtime, keeper: Keeper, stopped: oneshot::Receiver<()>, tell: impl Fn(&Event)) {
    runtime.block_on(async {
        tokio::select! {
            () = keeper.keep(tell) => {}
            _ = stopped => {}
        }
    });
    // The look-up of a name may hang on a thread of its own; it is not waited for.
    runtime.shutdown_background();
}

/// A certificate that is kept valid until this is dropped.
pub struct KeeperHandle {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for KeeperHandle {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
