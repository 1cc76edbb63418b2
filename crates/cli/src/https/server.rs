//! The HTTPS server of `scrim serve`: starts, reads its configuration again, and ends.

use std::cell::{Cell, RefCell};
use std::fmt::Display;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Resource, getrlimit, setrlimit};
use scrim_serve::access::AddressRules;
use scrim_serve::acme::{self, ActiveCertificates, Keeper};
use scrim_serve::config::{CertificateConfig, Config, LogConfig, SiteConfig};
use scrim_serve::site::{Site, SiteError};
use scrim_serve::tls::kernel::Offload;
use scrim_serve::tls::{self, Certificate, Expiry, TicketKeys, Tickets};
use scrim_serve::{AccessLog, Limits, Listener, Parts, Server, Sites, TrustedProxies};
use scrim_sys::activation::take_listen_fds;
use serde_json::{Value, json};

use crate::args::{ServeArgs, VolumeName};
use crate::error::{CliError, Exit};
use crate::https::configuration::{configuration, in_file, in_site};
use crate::https::listeners::{addresses, is_for_others, listeners};
use crate::https::machine;
use crate::https::qr_code;
use crate::https::reading::{Progress, Reading};
use crate::https::ticket_keys;
use crate::https::users;
use crate::https::volumes::Volumes;
use crate::nbd::control::Client;
use crate::nbd::runtime::RuntimeDir;
use crate::process::daemon;
use crate::process::service_manager::Manager;
use crate::process::signals::{Asked, Hangup, Signals};
use crate::terminal::{note, print};

pub(crate) fn run(args: &ServeArgs) -> Result<(), CliError> {
    if let Some(name) = &args.hash_password {
        return users::print_line(name);
    }
    if let Some(file) = &args.rotate_ticket_keys {
        return ticket_keys::rotate(file);
    }
    if let Some(parent) = args.end_with_parent {
        daemon::end_with_parent(parent)?;
    }
    let handed_on = take_listen_fds().map_err(|error| CliError::usage(error.to_string()))?;
    let config = configuration(args)?;
    let volumes = Arc::new(Volumes::default());
    let prepared = Prepared::by(args, &config, &volumes)?;
    if args.check {
        let log = config.access_log.as_ref();
        log.map_or(Ok(()), |log| {
            let checked = AccessLog::check(&log.file).map_err(not_opened(log));
            checked.map_err(in_file(args, args.access_log.is_some()))
        })?;
        if let Some(acme) = &prepared.acme {
            let checked = acme::check(acme)
                .map_err(|error| CliError::new(Exit::WrongDevice, error.to_string()));
            let event = checked.map_err(in_file(args, false))?;
            event.iter().for_each(tell);
        }
        return print(b"the configuration can be used\n");
    }
    // This comes before the log is made: a server that cannot listen leaves nothing behind.
    let listeners = listeners(&config, handed_on)?;
    let log = config.access_log.as_ref().map(open_log).transpose()?;
    // This comes before any process learns of an address and may ask this one to end.
    let signals = Signals::listen(Hangup::here())?.with_draining()?;
    let kept = Kept {
        args,
        config: &config,
        volumes: &volumes,
        log: log.as_ref(),
    };
    prepared.serve(&kept, listeners, &signals)
}

/// Options and resources that a server was started with.
struct Kept<'a> {
    args: &'a ServeArgs,
    config: &'a Config,
    /// Volumes that are open, so that a reload asks for no passphrase again.
    volumes: &'a Arc<Volumes>,
    log: Option<&'a Arc<AccessLog>>,
}

/// Settings that follow from a configuration, before any client is served.
struct Prepared {
    sites: Sites,
    /// Certificates that are read from files.
    files: Vec<Certificate>,
    /// Settings for certificates of an authority (ACME).
    acme: Option<acme::Settings>,
    offered: tls::Settings,
    /// Keys of session tickets that are read from a file.
    ticket_keys: Option<TicketKeys>,
    offload: Offload,
    limits: Limits,
    /// Addresses that may ask for the server's health.
    health_clients: AddressRules,
}

impl Prepared {
    fn by(args: &ServeArgs, config: &Config, volumes: &Volumes) -> Result<Self, CliError> {
        let of_file = in_file(args, false);
        let usage = |error: &dyn Display| of_file(CliError::usage(error.to_string()));
        let only = config.tls.suite.as_deref().map(suite).transpose();
        let offload = Offload::new(config.tls.offload)
            .map_err(|error| CliError::new(Exit::WrongDevice, error.to_string()));
        Ok(Self {
            sites: sites(args, config, volumes)?,
            files: certificates(config).map_err(in_file(args, !args.certificate.is_empty()))?,
            acme: config.acme().map_err(|error| usage(&error))?,
            offered: tls::Settings {
                only: only.map_err(in_file(args, args.tls_suite.is_some()))?,
                http2: config.tls.http2.unwrap_or(true),
            },
            ticket_keys: ticket_keys::read(config)
                .map_err(in_file(args, args.ticket_keys.is_some()))?,
            offload: offload.map_err(in_file(args, args.tls_offload.is_some()))?,
            limits: config.limits().map_err(|error| usage(&error))?,
            health_clients: config.health_clients().map_err(|error| usage(&error))?,
        })
    }

    /// The files' certificates, and one of our own where there are none, or as long as an authority has
    /// not given its.
    fn active_certificates(
        &self,
        config: &Config,
        is_for_others: bool,
    ) -> Result<ActiveCertificates, CliError> {
        let mut own = None;
        if self.files.is_empty() || self.acme.is_some() {
            let mut names: Vec<_> = config.sites.iter().flat_map(|s| s.names.clone()).collect();
            names.extend(self.acme.iter().flat_map(|acme| acme.names().to_vec()));
            if is_for_others {
                names.extend(machine::names());
            }
            let made = Certificate::self_signed(&names)
                .map_err(|error| CliError::new(Exit::WrongDevice, error.to_string()))?;
            own = Some(made);
        }
        Ok(ActiveCertificates::new(self.files.clone(), own))
    }

    fn serve(
        self,
        kept: &Kept<'_>,
        listeners: Vec<Listener>,
        signals: &Signals,
    ) -> Result<(), CliError> {
        let (config, log) = (kept.config, kept.log);
        let addresses = addresses(&listeners)?;
        let is_for_others = is_for_others(&listeners)?;
        let active = Arc::new(self.active_certificates(config, is_for_others)?);
        let keeper = self
            .acme
            .clone()
            .map(|settings| keeper(settings, &active))
            .transpose()?;
        let failed = |error: tls::TlsError| CliError::new(Exit::WrongDevice, error.to_string());
        let tickets = Arc::new(Tickets::new(self.ticket_keys).map_err(failed)?);
        let tls = self
            .offered
            .build(Arc::clone(active.certificates()), Arc::clone(&tickets))
            .map_err(failed)?;
        let threads = config.threads.unwrap_or_else(processors);
        let server = Server::start(Parts {
            listeners,
            sites: self.sites,
            tls: Some(tls),
            offload: self.offload,
            limits: within_file_limit(self.limits, config.limits.connections, threads),
            proxies: TrustedProxies::new(config.trusted_proxies.clone()),
            health_clients: self.health_clients,
            threads,
            log: log.cloned(),
            on_fault: Arc::new(|what: &str| note(format_args!("scrim: {what}"))),
            volumes: Box::new(volumes),
        })
        .map_err(|error| CliError::io("start to serve", &error))?;
        if active.is_self_signed() && self.acme.is_none() {
            note(
                "scrim: the certificate is self-signed, so browsers will warn; --certificate and --key \
                 name another one",
            );
        }
        if is_for_others && !kept.args.roots.is_empty() {
            note(
                "scrim: everybody who reaches this machine can read all that is served here: there is no \
                 password",
            );
        }
        let code = is_for_others.then(|| qr_code::for_terminal(&addresses));
        let code = code.flatten().unwrap_or_default();
        print((addresses.join("\n") + "\n" + &code).as_bytes())?;
        let keeping = keeper.map(|keeper| keeper.start(tell)).transpose();
        let keeping =
            keeping.map_err(|error| CliError::io("start the renewal of certificates", &error))?;
        let manager = Manager::of_this_process();
        manager.serving_files(&addresses);
        let running = Running {
            server: &server,
            active: &active,
            tickets: &tickets,
            acme: self.acme.as_ref(),
            kept,
            reading: RefCell::default(),
            is_asked_again: Cell::default(),
        };
        kept.volumes.ask_no_more();
        running.serve_until(signals, None);
        manager.stopping();
        running.give_notice(signals);
        drop(keeping);
        server.drain();
        Ok(())
    }
}

/// A running server, and the parts of it that a reload can exchange.
struct Running<'a> {
    server: &'a Server,
    active: &'a ActiveCertificates,
    tickets: &'a Tickets,
    acme: Option<&'a acme::Settings>,
    kept: &'a Kept<'a>,
    /// The thread that reads the configuration again, if one does.
    reading: RefCell<Option<Reading<Result<Prepared, CliError>>>>,
    /// True if the configuration has to be read once more after that.
    is_asked_again: Cell<bool>,
}

impl Running<'_> {
    /// Serves until the process is asked to end, or until a time.
    fn serve_until(&self, signals: &Signals, end: Option<Instant>) {
        loop {
            self.take_reading();
            match signals.take() {
                Asked::ToEnd => return,
                Asked::ToReload => self.reload(),
                Asked::ToSetDraining(is_draining) => {
                    self.set_draining(is_draining || end.is_some());
                }
                Asked::Nothing => {
                    let left = end.map(|end| end.saturating_duration_since(Instant::now()));
                    if left.is_some_and(|left| left.is_zero()) {
                        return;
                    }
                    let left = left.and_then(|left| Timespec::try_from(left).ok());
                    let reading = self.reading.borrow();
                    let mut events = vec![PollFd::new(signals, PollFlags::IN)];
                    events.extend((*reading).iter().map(|one| PollFd::new(one, PollFlags::IN)));
                    let _ = poll(&mut events, left.as_ref());
                }
            }
        }
    }

    fn set_draining(&self, is_draining: bool) {
        self.server.set_draining(is_draining);
        if self.kept.config.health.is_none() {
            note(
                "scrim: nobody is told where new clients should go: the configuration has no health address",
            );
        }
    }

    /// Tells health checks that the server is about to end, and goes on for the time that is configured. Another request to
    /// end cuts that short.
    fn give_notice(&self, signals: &Signals) {
        let limits = &self.kept.config.limits;
        let notice = limits.drain_notice_seconds.unwrap_or(0);
        let notice = Duration::from_secs(notice.into());
        if !notice.is_zero() {
            signals.forget_end();
            self.server.set_draining(true);
            self.serve_until(signals, Instant::now().checked_add(notice));
        }
    }

    /// Begins to read the configuration and its files again, or lets that follow if it is being done already.
    fn reload(&self) {
        if let Some(Err(error)) = self.kept.log.map(|log| log.reopen()) {
            note(format_args!(
                "scrim: the access log continues in the old file: {error}"
            ));
        }
        if self.reading.borrow().is_some() {
            self.is_asked_again.set(true);
            note("scrim: the configuration is still being read; it is read again after that");
            return;
        }
        self.start_reading();
    }

    /// Reads on a thread of its own, so that the server ends when it is asked to, whatever the storage does.
    fn start_reading(&self) {
        let (args, volumes) = (self.kept.args.clone(), Arc::clone(self.kept.volumes));
        let read =
            move || configuration(&args).and_then(|config| Prepared::by(&args, &config, &volumes));
        match Reading::start(read) {
            Ok(reading) => *self.reading.borrow_mut() = Some(reading),
            Err(error) => note(format_args!(
                "scrim: the configuration stays as it is: no thread can be started to read it: {error}"
            )),
        }
    }

    /// Uses what was read, if the thread has ended. What cannot be used changes nothing.
    fn take_reading(&self) {
        let progress = self.reading.borrow().as_ref().map(Reading::take);
        match progress {
            None | Some(Progress::Running) => return,
            Some(Progress::Done(read)) => self.exchange(read),
            Some(Progress::Lost) => {
                note("scrim: the configuration stays as it is: the thread that read it failed");
            }
        }
        self.reading.take();
        if self.is_asked_again.take() {
            self.start_reading();
        }
    }

    fn exchange(&self, read: Result<Prepared, CliError>) {
        match read {
            Ok(prepared) => {
                if prepared.acme.as_ref() != self.acme {
                    note("scrim: changed settings of [acme] take effect at the next start");
                }
                self.active.exchange_files(prepared.files);
                let has_ticket_keys = prepared.ticket_keys.is_some();
                self.tickets.exchange(prepared.ticket_keys);
                self.server.replace(prepared.sites);
                self.server.offload(&prepared.offload);
                note(match has_ticket_keys {
                    true => "scrim: sites, certificates and ticket keys were read again",
                    false => "scrim: sites and certificates were read again",
                });
            }
            Err(error) => note(format_args!(
                "scrim: the configuration stays as it is: {error}"
            )),
        }
    }
}

fn sites(args: &ServeArgs, config: &Config, volumes: &Volumes) -> Result<Sites, CliError> {
    let open = |site: &SiteConfig| {
        let mut settings = site
            .settings()
            .map_err(|error| CliError::usage(error.to_string()))?;
        users::warn_of_file(site, &settings);
        volumes.put_into(&mut settings, site)?;
        Site::open(&settings).map_err(|error| of_site(error, &site.root))
    };
    let sites = config.sites.iter().enumerate().map(|(index, site)| {
        let opened = open(site).map_err(in_site(args, config, index))?;
        Ok((site.names.clone(), opened))
    });
    let sites: Vec<_> = sites.collect::<Result<_, CliError>>()?;
    Sites::new(sites)
        .map_err(|error| in_file(args, !args.roots.is_empty())(CliError::usage(error.to_string())))
}

/// An image in the place of a folder is not served, but a folder in it can be.
fn of_site(error: SiteError, root: &Path) -> CliError {
    let error = CliError::from(error);
    let is_image = fs::metadata(root).is_ok_and(|found| !found.is_dir());
    match is_image {
        true => error.followed_by(&format!(
            "; the files of a volume in it are served as '{}#/'",
            root.display()
        )),
        false => error,
    }
}

/// Opens the keeper of an authority's certificates: it uses those obtained earlier, and is ready to obtain more.
fn keeper(settings: acme::Settings, active: &Arc<ActiveCertificates>) -> Result<Keeper, CliError> {
    let (keeper, event) = Keeper::open(settings, Arc::clone(active))
        .map_err(|error| CliError::new(Exit::WrongDevice, error.to_string()))?;
    event.iter().for_each(tell);
    Ok(keeper)
}

fn tell(event: &acme::Event) {
    note(format_args!("scrim: {event}"));
}

/// The certificates of files.
fn certificates(config: &Config) -> Result<Vec<Certificate>, CliError> {
    let load = |files: &CertificateConfig| {
        let loaded = Certificate::load(&files.chain, &files.key)
            .map_err(|error| CliError::new(Exit::WrongDevice, error.to_string()))?;
        warn_of_expiry(files, loaded.expiry());
        Ok(loaded)
    };
    config.tls.certificates.iter().map(load).collect()
}

fn suite(name: &str) -> Result<tls::Suite, CliError> {
    name.parse()
        .map_err(|error: tls::UnknownSuite| CliError::usage(error.to_string()))
}

fn open_log(log: &LogConfig) -> Result<Arc<AccessLog>, CliError> {
    AccessLog::open(&log.file, log.format)
        .map(Arc::new)
        .map_err(not_opened(log))
}

fn not_opened(log: &LogConfig) -> impl FnOnce(io::Error) -> CliError {
    |error| CliError::io(format_args!("open {}", log.file.display()), &error)
}

fn warn_of_expiry(files: &CertificateConfig, expiry: Expiry) {
    if expiry.is_before(SystemTime::now()) {
        note(format_args!(
            "scrim: warning: {} has expired on {expiry}; browsers will refuse it",
            files.chain.display()
        ));
    }
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Fits the limits to the number of files that this user may have open, since each connection takes one, and so does
/// each file that is kept open. A quarter of them is for files.
fn within_file_limit(mut limits: Limits, wanted: Option<usize>, threads: usize) -> Limits {
    let mut allowed = getrlimit(Resource::Nofile);
    let was = allowed.current;
    allowed.current = allowed.maximum;
    if setrlimit(Resource::Nofile, allowed).is_err() {
        allowed.current = was;
    }
    let files = allowed
        .current
        .and_then(|files| usize::try_from(files).ok());
    let Some(files) = files else {
        return limits;
    };
    limits.files = limits.files.min(files / 8 / threads.max(1));
    let room = files - files / 4;
    if let Some(wanted) = wanted.filter(|&wanted| wanted > room) {
        note(format_args!(
            "scrim: warning: {room} connections at a time, and not {wanted}: this user may have {files} \
             files open (ulimit -n)"
        ));
    }
    limits.connections = limits.connections.min(room);
    limits
}

/// Figures of the volumes that this user has open, and the facts about them that the status page shows.
fn volumes() -> Value {
    let runtime = RuntimeDir::locate();
    if runtime.check_if_there().is_err() {
        return Value::Array(Vec::new());
    }
    // A volume that closes while we ask is not open any more.
    let tell = |name: VolumeName| {
        let status = Client::connect(&runtime, &name).ok()?.status().ok()?;
        let figures = Client::connect(&runtime, &name).ok()?.figures().ok()?;
        let mut volume = serde_json::to_value(figures).ok()?;
        let mounts = status.mounts.iter();
        let mounts = mounts.map(|mount| json!({"directory": mount.directory, "by": mount.by}));
        let facts = json!({
            "data_path": status.data_path,
            "read_path": status.read_path,
            "write_path": status.write_path,
            "engine": status.engine,
            "cipher": status.cipher,
            "key_bits": status.key_bits,
            "read_only": status.read_only,
            "clients": status.clients,
            "mounts": mounts.collect::<Value>(),
            "warnings": status.warnings,
        });
        volume.as_object_mut()?.extend(facts.as_object()?.clone());
        Some(volume)
    };
    runtime.names().into_iter().filter_map(tell).collect()
}
