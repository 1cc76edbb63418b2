//! Configuration of the server: a TOML file, or the options of a command line.

mod roots;
mod shape;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use serde::Deserialize;

use self::roots::root_in;
pub use self::roots::{MountConfig, VolumeConfig, VolumeRoot};
use crate::access::{
    AccessSettings, AddressRules, Prefix, RATE_MIN, RequestRate, Users, UsersError,
};
use crate::acme;
use crate::compression::Results;
use crate::http::{Coding, HeadLimits};
use crate::limits::Limits;
use crate::log::LogFormat;
use crate::site::{CacheRule, Hsts, Mount, Root, Settings, Symlinks};
use crate::tls::kernel::Mode;

/// Most fields of a request that any limit allows.
const FIELDS_MAX: usize = 128;

/// A server's configuration: from a file in TOML, or from the options of a command line. Paths are as they stand there.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Config {
    /// Addresses at which HTTPS is served.
    pub listen: Vec<SocketAddr>,
    /// Addresses at which files are served without TLS.
    pub plain_http: Vec<SocketAddr>,
    /// Addresses at which clients are redirected to HTTPS.
    pub redirect_http: Vec<SocketAddr>,
    /// Address of the status page, on loopback.
    pub status: Option<SocketAddr>,
    /// Address at which load balancers ask for the server's health.
    pub health: Option<SocketAddr>,
    /// Prefixes of the addresses that may ask for the health; by default all.
    pub health_allow: Vec<Prefix>,
    /// Prefixes of the addresses that may not, unless a longer one is allowed.
    pub health_deny: Vec<Prefix>,
    /// Networks of proxies, whose connections begin with the client's address (PROXY protocol, version 2).
    pub trusted_proxies: Vec<Prefix>,
    pub threads: Option<usize>,
    pub tls: TlsConfig,
    /// An authority that gives certificates.
    pub acme: Option<AcmeConfig>,
    /// Log of all requests.
    pub access_log: Option<LogConfig>,
    /// Limits on the resources that clients can take.
    pub limits: LimitsConfig,
    /// Sites that are served.
    #[serde(rename = "site")]
    pub sites: Vec<SiteConfig>,
}

/// Certificates and cipher suites that TLS offers.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct TlsConfig {
    /// Certificates; the first is for clients that name no host, or an unknown one.
    #[serde(rename = "certificate")]
    pub certificates: Vec<CertificateConfig>,
    /// The only suite that is offered, by its registered name.
    pub suite: Option<String>,
    /// True if HTTP/2 is offered; it is.
    pub http2: Option<bool>,
    /// Use of the kernel for TLS records: `auto`, `on` or `off`.
    pub offload: Mode,
    /// The file with the keys of session tickets that several servers share; by default the server has its own.
    pub ticket_keys: Option<PathBuf>,
}

/// A certificate and its key.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct CertificateConfig {
    /// A PEM file: the certificate, then those of the authorities below the root.
    pub chain: PathBuf,
    /// A PEM file with the private key.
    pub key: PathBuf,
}

/// An authority that gives certificates, and the names that it is asked for.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct AcmeConfig {
    /// True if the user agrees to the authority's terms.
    pub agree_to_terms: bool,
    /// The URL of its directory, or `staging`; by default Let's Encrypt's.
    pub directory: Option<String>,
    /// Hosts that the certificate is for; by default those of all sites.
    pub names: Vec<String>,
    /// An e-mail address for the authority's messages.
    pub contact: Option<String>,
    /// The folder for the account and the certificate.
    pub state: PathBuf,
    /// A PEM file with the roots by which the directory's own certificate is checked; by default the system's roots.
    pub ca: Option<PathBuf>,
}

/// Access log of the server: the table `[log]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct LogConfig {
    pub file: PathBuf,
    /// Format of its lines.
    #[serde(default)]
    pub format: LogFormat,
}

/// Limits; those that are left out have their default values.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct LimitsConfig {
    /// Connections at a time.
    pub connections: Option<usize>,
    /// Connections at a time from one client.
    pub connections_per_client: Option<usize>,
    /// Bytes of a request's head.
    pub head_bytes: Option<usize>,
    /// Bytes of a request's target.
    pub target_bytes: Option<usize>,
    /// Fields of a request.
    pub fields: Option<usize>,
    /// Seconds for a TLS handshake.
    pub handshake_seconds: Option<u32>,
    /// Seconds for a request's head.
    pub request_seconds: Option<u32>,
    /// Seconds that a connection is kept without a request.
    pub idle_seconds: Option<u32>,
    /// Seconds that a client may take nothing.
    pub stall_seconds: Option<u32>,
    /// Seconds that requests in flight have left when the server ends.
    pub drain_seconds: Option<u32>,
    /// Seconds that clients are still accepted when the server is told to end, while health checks get 503.
    pub drain_notice_seconds: Option<u32>,
    /// Bytes of buffers for answers in flight.
    pub memory_bytes: Option<usize>,
    /// Bytes of files that were compressed when they were requested.
    pub compressed_bytes: Option<usize>,
    /// Most records that each key of a connection makes.
    pub records_per_key: Option<u64>,
    /// Milliseconds that an open file is used again without looking at its name.
    pub file_cache_ms: Option<u32>,
}

/// A folder, and the manner in which it is served.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct SiteConfig {
    /// Hosts that it is for; a site without any is for all hosts that no other site is for.
    pub names: Vec<String>,
    /// The folder, or one in a volume: `disk.img#/folder`.
    pub root: PathBuf,
    /// The file with the key of the volume that `root` names.
    pub key_file: Option<PathBuf>,
    /// Other options for opening that volume.
    pub volume: VolumeConfig,
    /// Folders that are served below paths of their own.
    #[serde(rename = "mount")]
    pub mounts: Vec<MountConfig>,
    /// Prefixes of the addresses that are admitted; by default all.
    pub allow: Vec<Prefix>,
    /// Prefixes of the addresses that are not admitted, unless a longer one is allowed.
    pub deny: Vec<Prefix>,
    /// The file with the users that are admitted, each with a password.
    pub users: Option<PathBuf>,
    /// Limits on each client, by address.
    pub per_client: PerClientConfig,
    /// Names of files that stand for their folder.
    pub index: Option<Vec<String>>,
    /// Path of the file that is answered in place of 404, for single-page applications.
    pub fallback: Option<String>,
    /// True if a folder without such a file is listed; it is not by default.
    pub listings: Option<bool>,
    /// True if a folder can be downloaded as an archive.
    pub archives: bool,
    /// Choice of the symbolic links that are followed.
    pub symlinks: Option<Links>,
    /// True if names that begin with a dot are served.
    pub dot_files: bool,
    /// Codings of which there may be a file beside each file: `br`, `zstd`, `gzip`; by default all three.
    pub precompressed: Option<Vec<String>>,
    /// Codings in which files are compressed when they are requested, preferred ones first; by default none.
    pub compress: Vec<String>,
    /// Bytes of the longest file that is compressed.
    pub compress_max_bytes: Option<u64>,
    /// Caching rules, which say how long browsers may keep files; the first that matches a file counts.
    pub cache: Vec<CacheConfig>,
    /// Fields of every answer.
    pub headers: BTreeMap<String, String>,
    /// `Strict-Transport-Security`: browsers come back by HTTPS only.
    pub hsts: Option<HstsConfig>,
    /// Pages for statuses, HTML files.
    pub error_pages: BTreeMap<String, PathBuf>,
    /// True if a file whose name has no extension is text where its beginning is.
    pub detect_text: bool,
    /// Content types by extension.
    pub types: BTreeMap<String, String>,
}

/// Limits on each client of a site, an address of IPv4 or a /64 of IPv6.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct PerClientConfig {
    /// Requests in a second, on average.
    pub requests_per_second: Option<NonZeroU32>,
    /// Requests that may come at once; by default those of a second.
    pub burst: Option<NonZeroU32>,
    /// Bytes of content in a second.
    pub bytes_per_second: Option<u64>,
}

/// A caching rule: how long browsers may keep some files.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct CacheConfig {
    /// Pattern of the files, such as `*.css` or `assets/**`.
    pub files: String,
    /// The value of `Cache-Control`, such as `max-age=3600`.
    pub control: String,
}

/// Choice of the symbolic links that are followed.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Links {
    None,
    /// Links that stay below the folder.
    Within,
    Any,
}

/// `Strict-Transport-Security` of a site (RFC 6797).
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct HstsConfig {
    /// Time for which browsers remember it, in seconds.
    pub seconds: u64,
    /// True if it holds for hosts below this one, too.
    #[serde(default)]
    pub subdomains: bool,
    /// True if browsers may know it before their first visit.
    #[serde(default)]
    pub preload: bool,
}

/// A fault in a configuration.
#[derive(Debug)]
pub enum ConfigError {
    /// The text is not TOML, or not of this shape.
    Shape {
        error: Box<toml::de::Error>,
        /// Description of the shape that is wanted, if it is clear.
        advice: Option<String>,
    },
    /// A fault of one site.
    Site {
        /// The site, by its number and name.
        site: String,
        error: Box<ConfigError>,
    },
    /// There can be no certificate from an authority.
    Acme(acme::SettingsError),
    /// A site's users cannot be used.
    Users(UsersError),
    /// A value is not allowed.
    Value {
        /// Key of the value.
        key: String,
        value: String,
        /// Description of the values that are allowed.
        wanted: Cow<'static, str>,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shape { error, advice } => {
                let text = error.to_string();
                let text = text.trim_end();
                match advice {
                    // The last part names types of this program.
                    Some(advice) => {
                        let place = text.strip_suffix(error.message()).unwrap_or_default();
                        write!(f, "{place}{advice}")
                    }
                    None => f.write_str(text),
                }
            }
            Self::Site { site, error } => write!(f, "{site}: {error}"),
            Self::Acme(error) => error.fmt(f),
            Self::Users(error) => match std::error::Error::source(error) {
                Some(source) => write!(f, "{error}: {source}"),
                None => error.fmt(f),
            },
            Self::Value { key, value, wanted } => write!(f, "{key}: {value:?} is not {wanted}"),
        }
    }
}

impl std::error::Error for ConfigError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Shape { error, .. } => Some(error),
            Self::Site { error, .. } => Some(error),
            Self::Acme(error) => Some(error),
            Self::Users(error) => Some(error),
            Self::Value { .. } => None,
        }
    }
}

impl Config {
    /// Reads the text of a file. Paths that do not begin with `/` are taken from `folder` on.
    ///
    /// # Errors
    /// When it is not TOML, or has keys or values that are not known.
    pub fn parse(text: &str, folder: &Path) -> Result<Self, ConfigError> {
        let mut config: Self =
            toml::from_str(text).map_err(|error: toml::de::Error| ConfigError::Shape {
                advice: (error.message().starts_with("invalid type"))
                    .then(|| shape::advice(text))
                    .flatten(),
                error: Box::new(error),
            })?;
        for (index, site) in config.sites.iter().enumerate() {
            if site.roots().any(|root| root.as_os_str().is_empty()) {
                let wanted = "a folder, which each [[site]] and [[site.mount]] has to have";
                return Err(config.of_site(index, wrong("root", "", wanted)));
            }
        }
        for root in config.roots() {
            *root = root_in(folder, root);
        }
        for path in config.paths() {
            *path = folder.join(&*path);
        }
        config.check_users()?;
        config.check_proxies()?;
        Ok(config)
    }

    /// Text that names a site of this configuration: its number, from 1 on, and the first of its names.
    #[must_use]
    pub fn site_title(&self, index: usize) -> String {
        let name = self.sites.get(index).and_then(|site| site.names.first());
        let name = name.map_or(String::new(), |name| format!(" ({name})"));
        format!("[[site]] {}{name}", index + 1)
    }

    fn of_site(&self, index: usize, error: ConfigError) -> ConfigError {
        ConfigError::Site {
            site: self.site_title(index),
            error: Box::new(error),
        }
    }

    /// Refuses trust in everybody: each client could then be any other.
    fn check_proxies(&self) -> Result<(), ConfigError> {
        match self.trusted_proxies.iter().find(|one| one.is_everything()) {
            Some(all) => {
                let wanted = "a network of proxies: name theirs alone, since whoever may connect from there may be \
                              every client";
                Err(wrong("trusted-proxies", &all.to_string(), wanted))
            }
            None => Ok(()),
        }
    }

    /// Rules for the addresses that may ask for the health.
    ///
    /// # Errors
    /// When both lists have the same prefix, or there is no health address.
    pub fn health_clients(&self) -> Result<AddressRules, ConfigError> {
        let lists = [
            ("health-allow", &self.health_allow),
            ("health-deny", &self.health_deny),
        ];
        let mut listed = lists
            .iter()
            .filter_map(|(key, list)| Some((key, list.first()?)));
        if let (None, Some((key, first))) = (self.health, listed.next()) {
            return Err(wrong(
                key,
                &first.to_string(),
                "of use alone: set health too",
            ));
        }
        address_rules(lists)
    }

    /// Refuses users whose passwords, or hashes of them, others could read.
    fn check_users(&self) -> Result<(), ConfigError> {
        let users: Vec<_> = (self.sites.iter().enumerate())
            .filter_map(|(index, site)| Some((index, site.users.as_ref()?)))
            .collect();
        let mut plain = self.plain_http.iter();
        if let Some(at) = plain.find(|at| !users.is_empty() && !at.ip().is_loopback()) {
            let wanted = "usable where a [[site]] has users, whose passwords others could read: use redirect-http for \
                          it, or a loopback address";
            return Err(wrong("plain-http", &at.to_string(), wanted));
        }
        let roots = self.sites.iter().flat_map(SiteConfig::roots);
        for root in roots.filter_map(|root| root.canonicalize().ok()) {
            let is_below = |(_, users): &&(usize, &PathBuf)| {
                let whole = users.canonicalize();
                whole.is_ok_and(|whole| whole.starts_with(&root))
            };
            if let Some(&(index, users)) = users.iter().find(is_below) {
                let wanted = "outside of the folders that are served: move it elsewhere";
                let error = wrong("users", &users.to_string_lossy(), wanted);
                return Err(self.of_site(index, error));
            }
        }
        Ok(())
    }

    fn roots(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        self.sites.iter_mut().flat_map(|site| {
            let mounts = site.mounts.iter_mut().map(|mount| &mut mount.root);
            std::iter::once(&mut site.root).chain(mounts)
        })
    }

    fn paths(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let certificates = self.tls.certificates.iter_mut();
        let sites = self.sites.iter_mut();
        // A path that is left out is not a folder: it stays empty.
        let acme = self.acme.iter_mut().flat_map(|acme| {
            let state = Some(&mut acme.state).filter(|state| !state.as_os_str().is_empty());
            state.into_iter().chain(&mut acme.ca)
        });
        certificates
            .flat_map(|certificate| [&mut certificate.chain, &mut certificate.key])
            .chain(acme)
            .chain(&mut self.tls.ticket_keys)
            .chain(self.access_log.iter_mut().map(|log| &mut log.file))
            .chain(sites.flat_map(|site| {
                let mounts = site.mounts.iter_mut();
                let of_mounts = mounts
                    .flat_map(|mount| mount.key_file.iter_mut().chain(&mut mount.volume.header));
                (site.key_file.iter_mut().chain(&mut site.users))
                    .chain(&mut site.volume.header)
                    .chain(of_mounts)
                    .chain(site.error_pages.values_mut())
            }))
    }

    /// Settings for the certificate authority, if the configuration has any.
    ///
    /// # Errors
    /// When there could be no certificate by it.
    pub fn acme(&self) -> Result<Option<acme::Settings>, ConfigError> {
        let Some(configured) = &self.acme else {
            return Ok(None);
        };
        let mut names = configured.names.clone();
        if names.is_empty() {
            names.extend(self.sites.iter().flat_map(|site| site.names.clone()));
        }
        let settings = acme::Settings::new(
            configured.agree_to_terms,
            configured.directory.as_deref(),
            &names,
            configured.contact.as_deref(),
            configured.state.clone(),
            configured.ca.clone(),
        );
        settings.map(Some).map_err(ConfigError::Acme)
    }

    /// The limits.
    ///
    /// # Errors
    /// When one is zero, which would let no client in, or larger than is possible.
    pub fn limits(&self) -> Result<Limits, ConfigError> {
        let configured = &self.limits;
        for (key, value) in [
            ("connections", configured.connections),
            ("connections-per-client", configured.connections_per_client),
            ("head-bytes", configured.head_bytes),
            ("target-bytes", configured.target_bytes),
            ("fields", configured.fields),
            (
                "handshake-seconds",
                configured.handshake_seconds.map(|s| s as usize),
            ),
            (
                "request-seconds",
                configured.request_seconds.map(|s| s as usize),
            ),
            ("idle-seconds", configured.idle_seconds.map(|s| s as usize)),
            (
                "stall-seconds",
                configured.stall_seconds.map(|s| s as usize),
            ),
            ("memory-bytes", configured.memory_bytes),
            ("compressed-bytes", configured.compressed_bytes),
            (
                "records-per-key",
                configured
                    .records_per_key
                    .map(|records| usize::from(records > 0)),
            ),
            ("threads", self.threads),
        ] {
            if value == Some(0) {
                return Err(wrong(key, "0", "at least 1"));
            }
        }
        if let Some(fields) = configured.fields.filter(|&fields| fields > FIELDS_MAX) {
            return Err(wrong("fields", &fields.to_string(), "at most 128"));
        }
        let limits = self.with_defaults();
        self.check_compressed(limits.compressed)?;
        Ok(limits)
    }

    /// Refuses to compress files whose results could not be kept: each request would be answered with the file as it is.
    fn check_compressed(&self, most: usize) -> Result<(), ConfigError> {
        let longest = Results::longest_file(most) as u64;
        let of_sites = self.sites.iter().enumerate();
        let of_sites = of_sites.filter(|(_, site)| !site.compress.is_empty());
        let mut set = of_sites.filter_map(|(index, site)| Some((index, site.compress_max_bytes?)));
        let Some((index, bytes)) = set.find(|&(_, bytes)| bytes > longest) else {
            return Ok(());
        };
        let wanted = format!(
            "at most {longest}, half of limits.compressed-bytes ({most}) less 4 KiB: longer files are never kept; lower \
             it, or raise that limit"
        );
        let error = wrong("compress-max-bytes", &bytes.to_string(), wanted);
        Err(self.of_site(index, error))
    }

    fn with_defaults(&self) -> Limits {
        let (configured, default) = (&self.limits, Limits::default());
        let seconds = |configured: Option<u32>, default| {
            configured.map_or(default, |s| Duration::from_secs(s.into()))
        };
        Limits {
            connections: configured.connections.unwrap_or(default.connections),
            per_client: configured
                .connections_per_client
                .unwrap_or(default.per_client),
            head: HeadLimits {
                head: configured.head_bytes.unwrap_or(default.head.head),
                target: configured.target_bytes.unwrap_or(default.head.target),
                fields: configured.fields.unwrap_or(default.head.fields),
            },
            handshake: seconds(configured.handshake_seconds, default.handshake),
            request: seconds(configured.request_seconds, default.request),
            idle: seconds(configured.idle_seconds, default.idle),
            stall: seconds(configured.stall_seconds, default.stall),
            drain: seconds(configured.drain_seconds, default.drain),
            memory: configured.memory_bytes.unwrap_or(default.memory),
            compressed: configured.compressed_bytes.unwrap_or(default.compressed),
            files: default.files,
            records: configured.records_per_key.unwrap_or(default.records),
            file_cache: configured
                .file_cache_ms
                .map_or(default.file_cache, |ms| Duration::from_millis(ms.into())),
        }
    }
}

impl SiteConfig {
    /// Its folder, and those at other paths.
    pub fn roots(&self) -> impl Iterator<Item = &PathBuf> {
        let mounts = self.mounts.iter().map(|mount| &mount.root);
        std::iter::once(&self.root).chain(mounts)
    }

    /// Settings of the site, with its root and its mounts taken for folders that exist. A caller that opens volumes
    /// replaces those roots.
    ///
    /// # Errors
    /// When a value is not what stands there.
    pub fn settings(&self) -> Result<Settings, ConfigError> {
        let mut settings = Settings::new(&self.root);
        let mounts = self.mounts.iter().map(|mount| Mount {
            at: mount.at.clone(),
            root: Root::Folder(mount.root.clone()),
        });
        settings.mounts = mounts.collect();
        if let Some(index) = &self.index {
            settings.index.clone_from(index);
        }
        settings.fallback.clone_from(&self.fallback);
        settings.listings = self.listings.unwrap_or_default();
        settings.archives = self.archives;
        settings.dot_files = self.dot_files;
        settings.symlinks = match self.symlinks {
            Some(Links::None) => Symlinks::None,
            Some(Links::Any) => Symlinks::Any,
            Some(Links::Within) | None => Symlinks::Within,
        };
        if let Some(names) = &self.precompressed {
            settings.precompressed = names
                .iter()
                .map(|name| coding("precompressed", name))
                .collect::<Result<_, _>>()?;
        }
        settings.compress = self
            .compress
            .iter()
            .map(|name| coding("compress", name))
            .collect::<Result<_, _>>()?;
        if let Some(bytes) = self.compress_max_bytes {
            settings.compress_max_bytes = bytes;
        }
        let rules = self.cache.iter().map(|rule| CacheRule {
            pattern: rule.files.clone(),
            value: rule.control.clone(),
        });
        settings.cache_rules = rules.collect();
        settings.fields = fields(&self.headers)?;
        settings.hsts = self.hsts.map(|hsts| Hsts {
            seconds: hsts.seconds,
            subdomains: hsts.subdomains,
            preload: hsts.preload,
        });
        settings.error_pages = self
            .error_pages
            .iter()
            .map(error_page)
            .collect::<Result<_, _>>()?;
        settings.detect_text = self.detect_text;
        settings.types.clone_from(&self.types);
        settings.access = self.access()?;
        Ok(settings)
    }

    fn access(&self) -> Result<AccessSettings, ConfigError> {
        let addresses = address_rules([("allow", &self.allow), ("deny", &self.deny)])?;
        let realm = self.names.first().map_or("", String::as_str);
        let users = self.users.as_ref();
        let users = users.map(|path| Users::read(path, realm).map(Arc::new));
        Ok(AccessSettings {
            addresses,
            users: users.transpose().map_err(ConfigError::Users)?,
            requests: self.per_client.requests()?,
            bytes_per_second: self.per_client.bytes()?,
        })
    }
}

impl PerClientConfig {
    fn requests(&self) -> Result<Option<RequestRate>, ConfigError> {
        match (self.requests_per_second, self.burst) {
            (None, None) => Ok(None),
            (None, Some(burst)) => {
                let wanted = "of use alone: set per-client.requests-per-second too";
                Err(wrong("per-client.burst", &burst.to_string(), wanted))
            }
            (Some(rate), burst) => Ok(Some(RequestRate {
                per_second: rate.get(),
                burst: burst.unwrap_or(rate).get(),
            })),
        }
    }

    fn bytes(&self) -> Result<Option<u64>, ConfigError> {
        match self.bytes_per_second {
            Some(rate) if rate < RATE_MIN => {
                let key = "per-client.bytes-per-second";
                Err(wrong(key, &rate.to_string(), "at least 1024"))
            }
            rate => Ok(rate),
        }
    }
}

/// Rules of two lists, each with its key.
fn address_rules(
    [(allow_key, allow), (deny_key, deny)]: [(&str, &Vec<Prefix>); 2],
) -> Result<AddressRules, ConfigError> {
    AddressRules::new(allow, deny).map_err(|both| {
        let wanted = format!("for both lists: leave it out of `{allow_key}` or of `{deny_key}`");
        wrong(deny_key, &both.to_string(), wanted)
    })
}

fn coding(key: &str, name: &str) -> Result<Coding, ConfigError> {
    Coding::ALL
        .into_iter()
        .find(|coding| coding.name() == name)
        .ok_or_else(|| wrong(key, name, "br, zstd or gzip"))
}

/// Fields of every answer, each with a name of its own.
fn fields(
    headers: &BTreeMap<String, String>,
) -> Result<Vec<(HeaderName, HeaderValue)>, ConfigError> {
    let mut fields = Vec::<(HeaderName, HeaderValue)>::new();
    for header in headers {
        let (name, value) = field(header)?;
        if fields.iter().any(|(other, _)| *other == name) {
            let wanted = "wanted: the same field is there in other letters, large or small";
            return Err(wrong(&format!("headers.{}", header.0), header.1, wanted));
        }
        fields.push((name, value));
    }
    Ok(fields)
}

fn field((name, value): (&String, &String)) -> Result<(HeaderName, HeaderValue), ConfigError> {
    let key = || format!("headers.{name}");
    let name = HeaderName::try_from(name).map_err(|_| wrong(&key(), name, "a field's name"))?;
    let value =
        HeaderValue::try_from(value).map_err(|_| wrong(&key(), value, "a field's value"))?;
    Ok((name, value))
}

fn error_page((status, path): (&String, &PathBuf)) -> Result<(u16, PathBuf), ConfigError> {
    match status.parse() {
        Ok(status @ 400..600) => Ok((status, path.clone())),
        _ => Err(wrong("error-pages", status, "a status from 400 to 599")),
    }
}

fn wrong(key: &str, value: &str, wanted: impl Into<Cow<'static, str>>) -> ConfigError {
    ConfigError::Value {
        key: key.to_owned(),
        value: value.to_owned(),
        wanted: wanted.into(),
    }
}

#[cfg(test)]
mod tests;
