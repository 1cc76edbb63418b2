//! `scrim serve ROOT`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::SystemTime;
use std::{fs, io};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Resource, getrlimit, setrlimit};
use scrim_serve::acme::{self, Keeper, Showcase};
use scrim_serve::config::{CertificateConfig, Config, LogConfig, SiteConfig};
use scrim_serve::site::Site;
use scrim_serve::tls::{self, Certificate, Expiry};
use scrim_serve::{AccessLog, Listener, Live, Parts, Server, Service};
use scrim_sys::activation::take_listen_fds;
use serde_json::Value;

use super::{note, print, stats, status};
use crate::args::ServeArgs;
use crate::control::Client;
use crate::daemon;
use crate::error::{CliError, Exit};
use crate::notify::Manager;
use crate::runtime::{RuntimeDir, VolumeName};
use crate::signals::{Asked, Hangup, Signals};

/// Where HTTPS is served if nobody says where.
const USUAL_PORT: u16 = 8443;

pub(crate) fn run(args: &ServeArgs) -> Result<(), CliError> {
    if let Some(parent) = args.end_with_parent {
        daemon::end_with_parent(parent)?;
    }
    let handed_on = take_listen_fds().map_err(|error| CliError::usage(error.to_string()))?;
    let config = configuration(args)?;
    let prepared = Prepared::by(&config)?;
    if args.check {
        return print(b"the configuration can be used\n");
    }
    let _ = raise_file_limit();
    let listeners = if handed_on.is_empty() {
        listeners(&config)?
    } else {
        let inherit = |socket| Listener::from_socket(socket, Service::Https);
        let inherited = handed_on.into_iter().map(inherit);
        let listeners: io::Result<Vec<_>> = inherited.collect();
        listeners.map_err(|error| CliError::io("serve on a socket that was handed on", &error))?
    };
    // Before anybody hears of an address, and may ask for the end.
    let signals = Signals::listen(Hangup::here())?;
    prepared.serve(args, &config, listeners, &signals)
}

/// The options of the command line as a configuration, on top of a file's.
fn configuration(args: &ServeArgs) -> Result<Config, CliError> {
    let mut config = match &args.config {
        Some(path) => {
            let text = fs::read_to_string(path)
                .map_err(|error| CliError::io(format_args!("read {}", path.display()), &error))?;
            let folder = path.parent().unwrap_or(path);
            Config::parse(&text, folder)
                .map_err(|error| CliError::usage(error.to_string()).within(path.display()))?
        }
        None => Config::default(),
    };
    if let Some(root) = &args.root {
        config.sites = vec![SiteConfig {
            root: root.clone(),
            listings: !args.no_listings,
            ..SiteConfig::default()
        }];
    }
    override_places(&mut config, args);
    if args.certificate.len() != args.key.len() {
        return Err(CliError::usage(
            "each --certificate needs its --key, in the same order",
        ));
    }
    if !args.certificate.is_empty() {
        let pairs = args.certificate.iter().zip(&args.key);
        config.tls.certificates = pairs
            .map(|(chain, key)| CertificateConfig {
                chain: chain.clone(),
                key: key.clone(),
            })
            .collect();
    }
    if args.tls_suite.is_some() {
        config.tls.suite.clone_from(&args.tls_suite);
    }
    if args.no_http2 {
        config.tls.http2 = Some(false);
    }
    if let Some(file) = &args.access_log {
        config.access_log = Some(LogConfig {
            file: file.clone(),
            format: args.access_log_format.into(),
        });
    }
    if let Some(threads) = args.threads {
        config.threads = Some(threads.into());
    }
    check(&config, args)?;
    Ok(config)
}

fn override_places(config: &mut Config, args: &ServeArgs) {
    for (given, place) in [
        (&args.listen, &mut config.listen),
        (&args.plain_http, &mut config.plain_http),
        (&args.redirect_http, &mut config.redirect_http),
    ] {
        if !given.is_empty() {
            place.clone_from(given);
        }
    }
    config.status = args.status.or(config.status);
    if config.listen.is_empty() {
        let local: [IpAddr; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
        config.listen = local.map(|ip| (ip, USUAL_PORT).into()).into();
    }
}

/// Refuses what would show more than its user may think of.
fn check(config: &Config, args: &ServeArgs) -> Result<(), CliError> {
    if config.sites.is_empty() {
        return Err(CliError::usage(
            "there is nothing to serve: name a folder, or give the configuration a [[site]]",
        ));
    }
    let mut plain = config.plain_http.iter();
    if let Some(address) = plain.find(|at| !at.ip().is_loopback() && !args.insecure_plaintext) {
        return Err(CliError::usage(format!(
            "--plain-http {address}: others could read and change what is served there; leave it to \
             --listen, send its clients on by --redirect-http, or allow it (--insecure-plaintext)"
        )));
    }
    match config.status {
        Some(address) if !address.ip().is_loopback() => Err(CliError::usage(format!(
            "--status {address} could be reached from other machines, without protection; use a \
             loopback address such as 127.0.0.1:9180"
        ))),
        _ => Ok(()),
    }
}

/// What a configuration comes to, before anybody is served.
struct Prepared {
    live: Live,
    /// Certificates of files.
    files: Vec<Certificate>,
    /// What is wanted of an authority.
    acme: Option<acme::Settings>,
    offered: tls::Settings,
}

impl Prepared {
    fn by(config: &Config) -> Result<Self, CliError> {
        Ok(Self {
            live: live(config)?,
            files: certificates(config)?,
            acme: config
                .acme()
                .map_err(|error| CliError::usage(error.to_string()))?,
            offered: tls::Settings {
                only: config.tls.suite.as_deref().map(suite).transpose()?,
                http2: config.tls.http2.unwrap_or(true),
            },
        })
    }

    /// The files' certificates, and one of our own where there are none, or as long as an authority has
    /// not given its.
    fn showcase(&self, config: &Config) -> Result<Showcase, CliError> {
        let mut own = None;
        if self.files.is_empty() || self.acme.is_some() {
            let mut names: Vec<_> = config.sites.iter().flat_map(|s| s.names.clone()).collect();
            names.extend(self.acme.iter().flat_map(|acme| acme.names().to_vec()));
            let made = Certificate::self_signed(&names)
                .map_err(|error| CliError::new(Exit::WrongDevice, error.to_string()))?;
            own = Some(made);
        }
        Ok(Showcase::new(self.files.clone(), own))
    }

    fn serve(
        self,
        args: &ServeArgs,
        config: &Config,
        listeners: Vec<Listener>,
        signals: &Signals,
    ) -> Result<(), CliError> {
        let addresses = addresses(&listeners)?;
        let showcase = Arc::new(self.showcase(config)?);
        let keeper = self
            .acme
            .clone()
            .map(|settings| keeper(settings, &showcase))
            .transpose()?;
        let tls = self
            .offered
            .build(Arc::clone(showcase.certificates()))
            .map_err(|error| CliError::new(Exit::WrongDevice, error.to_string()))?;
        let log = config.access_log.as_ref().map(open_log).transpose()?;
        let server = Server::start(Parts {
            listeners,
            live: self.live,
            tls: Some(tls),
            limits: config.limits(),
            threads: config.threads.unwrap_or_else(processors),
            log: log.clone(),
            volumes: Box::new(volumes),
        })
        .map_err(|error| CliError::io("start to serve", &error))?;
        if showcase.is_self_signed() && self.acme.is_none() {
            note(
                "scrim: the certificate is self-signed, so browsers will warn; --certificate and --key \
                 name another one",
            );
        }
        print((addresses.join("\n") + "\n").as_bytes())?;
        let kept = keeper.map(|keeper| keeper.start(tell)).transpose();
        let kept = kept.map_err(|error| CliError::io("look after certificates", &error))?;
        let manager = Manager::of_this_process();
        manager.serving_files(&addresses);
        let running = Running {
            server: &server,
            showcase: &showcase,
            acme: self.acme.as_ref(),
            log: log.as_deref(),
        };
        running.until_asked_to_end(args, signals);
        manager.stopping();
        drop(kept);
        server.drain();
        Ok(())
    }
}

/// A server at work, and what can be exchanged of it.
struct Running<'a> {
    server: &'a Server,
    showcase: &'a Showcase,
    acme: Option<&'a acme::Settings>,
    log: Option<&'a AccessLog>,
}

impl Running<'_> {
    fn until_asked_to_end(&self, args: &ServeArgs, signals: &Signals) {
        loop {
            let _ = poll(&mut [PollFd::new(signals, PollFlags::IN)], None);
            match signals.take() {
                Asked::ToEnd => return,
                Asked::ToReload => self.reload(args),
                Asked::Nothing => {}
            }
        }
    }

    /// Reads everything again. What cannot be used leaves all as it is.
    fn reload(&self, args: &ServeArgs) {
        if let Some(Err(error)) = self.log.map(AccessLog::reopen) {
            note(format_args!(
                "scrim: the access log goes on in the old file: {error}"
            ));
        }
        match configuration(args).and_then(|config| Prepared::by(&config)) {
            Ok(prepared) => {
                if prepared.acme.as_ref() != self.acme {
                    note(
                        "scrim: what is wanted of an authority (acme) counts from the next start on",
                    );
                }
                self.showcase.exchange_files(prepared.files);
                self.server.replace(prepared.live);
                note("scrim: sites and certificates were read again");
            }
            Err(error) => note(format_args!("scrim: all stays as it is: {error}")),
        }
    }
}

fn live(config: &Config) -> Result<Live, CliError> {
    let sites = config.sites.iter().map(|site| {
        let settings = site
            .settings()
            .map_err(|error| CliError::usage(error.to_string()))?;
        let opened = Site::open(&settings)?;
        Ok((site.names.clone(), opened))
    });
    let sites: Vec<_> = sites.collect::<Result<_, CliError>>()?;
    Live::new(sites).map_err(|error| CliError::usage(error.to_string()))
}

/// Shows what was obtained earlier, and is ready to obtain more.
fn keeper(settings: acme::Settings, showcase: &Arc<Showcase>) -> Result<Keeper, CliError> {
    let (keeper, event) = Keeper::open(settings, Arc::clone(showcase))
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

fn listeners(config: &Config) -> Result<Vec<Listener>, CliError> {
    let port = config.listen.first().map_or(443, SocketAddr::port);
    let places = config.listen.iter().map(|at| (at, Service::Https));
    let places = places
        .chain(config.plain_http.iter().map(|at| (at, Service::Http)))
        .chain(
            config
                .redirect_http
                .iter()
                .map(|at| (at, Service::Redirect { port })),
        )
        .chain(config.status.iter().map(|at| (at, Service::Status)));
    let bind = |(&at, service)| {
        Listener::bind(at, service)
            .map_err(|error| CliError::io(format_args!("listen at {at}"), &error))
    };
    places.map(bind).collect()
}

/// The URLs of all that is served. A loopback address goes by the name that its certificate has.
fn addresses(listeners: &[Listener]) -> Result<Vec<String>, CliError> {
    let mut urls = Vec::new();
    for listener in listeners {
        let at = listener
            .address()
            .map_err(|error| CliError::io("find out where it listens", &error))?;
        let scheme = match listener.service() {
            Service::Https => "https",
            Service::Http | Service::Status | Service::Redirect { .. } => "http",
        };
        let host = match at.ip() {
            IpAddr::V4(Ipv4Addr::LOCALHOST) | IpAddr::V6(Ipv6Addr::LOCALHOST) => "localhost".into(),
            IpAddr::V4(ip) => ip.to_string(),
            IpAddr::V6(ip) => format!("[{ip}]"),
        };
        let url = format!("{scheme}://{host}:{}/", at.port());
        if !urls.contains(&url) {
            urls.push(url);
        }
    }
    Ok(urls)
}

fn suite(name: &str) -> Result<tls::Suite, CliError> {
    name.parse()
        .map_err(|error: tls::UnknownSuite| CliError::usage(error.to_string()))
}

fn open_log(log: &LogConfig) -> Result<Arc<AccessLog>, CliError> {
    AccessLog::open(&log.file, log.format)
        .map(Arc::new)
        .map_err(|error| CliError::io(format_args!("open {}", log.file.display()), &error))
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

/// Each connection is a file, and so is each file that is sent: as many as this user may have.
fn raise_file_limit() -> io::Result<()> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    Ok(setrlimit(Resource::Nofile, limit)?)
}

/// What the volumes that this user has open do, for those who look at the status page.
fn volumes() -> Value {
    let runtime = RuntimeDir::locate();
    if runtime.check_if_there().is_err() {
        return Value::Array(Vec::new());
    }
    // One that closes while we ask is not open any more.
    let tell = |name: VolumeName| {
        let status = status::ask(Client::connect(&runtime, &name).ok()?).ok()?;
        let figures = stats::ask(&name).ok()?;
        let mut volume = serde_json::to_value(figures).ok()?;
        volume["data_path"] = status.data_path.into();
        Some(volume)
    };
    runtime.names().into_iter().filter_map(tell).collect()
}
