//! Options of `scrim serve`.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use scrim_serve::LogFormat;
use scrim_serve::tls::kernel::Mode;

use super::open_volume::DataPathArg;

/// Serves, by default, at https://localhost:8443/, for this machine only, with a temporary self-signed certificate.
/// Folders without an index.html are listed.
#[derive(Clone, Args)]
pub(crate) struct ServeArgs {
    /// Folder to serve, or IMAGE#/FOLDER for a folder in a LUKS volume with ext4, which is not mounted (IMAGE as for
    /// `open`, or the name of an open volume); then any number of /PATH=ROOT, each served below its path
    #[arg(value_name = "ROOT", required_unless_present_any = ["config", "hash_password", "rotate_ticket_keys"])]
    pub(crate) roots: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) volume: ServeVolumeArgs,
    /// Read the configuration from FILE (TOML); options on the command line override it
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Listen for HTTPS on IP:PORT, or on PORT for this machine only; `0.0.0.0:PORT` and `[::]:PORT` are for all machines;
    /// repeatable
    #[arg(long, short, value_name = "IP:PORT", value_parser = address)]
    pub(crate) listen: Vec<SocketAddr>,
    /// Certificate chain (PEM); repeatable, for several hosts
    #[arg(long, value_name = "FILE", requires = "key")]
    pub(crate) certificate: Vec<PathBuf>,
    /// Private key of the certificate (PEM); one per certificate
    #[arg(long, value_name = "FILE", requires = "certificate")]
    pub(crate) key: Vec<PathBuf>,
    /// Offer only this cipher suite, such as `TLS_AES_256_GCM_SHA384`
    #[arg(long, value_name = "SUITE")]
    pub(crate) tls_suite: Option<String>,
    /// Do not offer HTTP/2
    #[arg(long)]
    pub(crate) no_http2: bool,
    /// Use of kernel TLS for records (default: auto)
    #[arg(long, value_enum, value_name = "WHO")]
    pub(crate) tls_offload: Option<TlsOffload>,
    /// Make session tickets by the keys in FILE, so that any server with the same file resumes the sessions
    #[arg(long, value_name = "FILE")]
    pub(crate) ticket_keys: Option<PathBuf>,
    /// Listen for HTTP without TLS too, on a loopback address, for requests to localhost, to a loopback address or to a
    /// host of the configuration; repeatable
    #[arg(long, value_name = "IP:PORT", value_parser = address)]
    pub(crate) plain_http: Vec<SocketAddr>,
    /// Allow any address for --plain-http, where others can read and change all traffic
    #[arg(long)]
    pub(crate) insecure_plaintext: bool,
    /// Redirect HTTP clients at IP:PORT to HTTPS; repeatable
    #[arg(long, value_name = "IP:PORT", value_parser = address)]
    pub(crate) redirect_http: Vec<SocketAddr>,
    /// Serve a status page at `http://IP:PORT/`, and Prometheus metrics at /metrics, on a loopback address
    #[arg(long, value_name = "IP:PORT", value_parser = address)]
    pub(crate) status: Option<SocketAddr>,
    /// Do not list folders
    #[arg(long)]
    pub(crate) no_listings: bool,
    /// Append a line for each request to FILE, which may be `/dev/stdout`
    #[arg(long, value_name = "FILE")]
    pub(crate) access_log: Option<PathBuf>,
    /// Format of the access log
    #[arg(
        long,
        value_enum,
        value_name = "FORMAT",
        default_value = "combined",
        requires = "access_log"
    )]
    pub(crate) access_log_format: AccessLogFormat,
    /// Number of worker threads (default: one per processor)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
    /// Check the configuration and its files, and exit
    #[arg(long)]
    pub(crate) check: bool,
    /// Ask for a password, print the line of user NAME for a site's file of users (`users` in the configuration), and exit
    #[arg(long, value_name = "NAME", exclusive = true)]
    pub(crate) hash_password: Option<String>,
    /// Add a new key to the ticket keys in FILE and keep the newest three, or make the file, and exit
    #[arg(long, value_name = "FILE", exclusive = true)]
    pub(crate) rotate_ticket_keys: Option<PathBuf>,
    /// End when process PID ends, which must be the parent process
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pub(crate) end_with_parent: Option<i32>,
}

/// Reads `IP:PORT`; a `PORT` alone is at loopback.
fn address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.parse() {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    text.parse().map_err(|_| {
        "give IP:PORT, such as 0.0.0.0:8443 for all machines, or PORT for this machine only"
            .to_owned()
    })
}

/// Use of kernel TLS for records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TlsOffload {
    /// Kernel TLS if it supports the cipher suite
    Auto,
    /// Kernel TLS if it supports the cipher suite; fails if it supports none
    On,
    /// Records in user space only
    Off,
}

impl From<TlsOffload> for Mode {
    fn from(offload: TlsOffload) -> Self {
        match offload {
            TlsOffload::Auto => Self::Auto,
            TlsOffload::On => Self::On,
            TlsOffload::Off => Self::Off,
        }
    }
}

/// Options of the volumes that ROOTs name.
#[derive(Clone, Args)]
pub(crate) struct ServeVolumeArgs {
    /// Read the volume's key from FILE ("-": all of standard input) instead of asking for a passphrase
    #[arg(long, short = 'd', value_name = "FILE", requires = "roots")]
    pub(crate) key_file: Option<PathBuf>,
    /// Number of bytes to skip in the key file
    #[arg(long, value_name = "BYTES", default_value_t = 0, requires = "key_file")]
    pub(crate) keyfile_offset: u64,
    /// Number of bytes to use from the key file
    #[arg(long, value_name = "BYTES", requires = "key_file")]
    pub(crate) keyfile_size: Option<usize>,
    /// Try only this key slot
    #[arg(long, short = 'S', value_name = "N", requires = "roots")]
    pub(crate) key_slot: Option<u8>,
    /// File or device with the detached LUKS header
    #[arg(long, value_name = "FILE", requires = "roots")]
    pub(crate) header: Option<PathBuf>,
    /// Data path of reads: on the worker thread, or through queues as in dm-crypt
    #[arg(long, value_enum, value_name = "PATH", requires = "roots")]
    pub(crate) data_path: Option<DataPathArg>,
}

/// Formats of the access log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AccessLogFormat {
    /// Combined Log Format of Apache and nginx
    Combined,
    /// One JSON object per line
    Json,
}

impl From<AccessLogFormat> for LogFormat {
    fn from(format: AccessLogFormat) -> Self {
        match format {
            AccessLogFormat::Combined => Self::Combined,
            AccessLogFormat::Json => Self::Json,
        }
    }
}
