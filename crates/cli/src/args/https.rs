//! Options of `scrim serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use scrim_serve::LogFormat;
use scrim_serve::tls::kernel::Mode;

use super::open_volume::DataPathArg;

/// By default at https://localhost:8443/, for programs of this machine, with a certificate that is made for
/// the occasion. Folders without an index.html are listed.
#[derive(Args)]
pub(crate) struct ServeArgs {
    /// Folder to serve, or IMAGE#/FOLDER for one in a LUKS volume with ext4, of which nothing is mounted (IMAGE is
    /// what `open` takes, or the name of an open volume); then any number of /PATH=ROOT, served below that path
    #[arg(value_name = "ROOT", required_unless_present = "config")]
    pub(crate) roots: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) volume: ServeVolumeArgs,
    /// Take everything from a configuration in FILE (TOML); what other options say counts before it
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Serve HTTPS at IP:PORT; can be given several times
    #[arg(long, short, value_name = "IP:PORT")]
    pub(crate) listen: Vec<SocketAddr>,
    /// Certificate chain (PEM); can be given several times, for several hosts
    #[arg(long, value_name = "FILE", requires = "key")]
    pub(crate) certificate: Vec<PathBuf>,
    /// Private key of the certificate (PEM); one for each
    #[arg(long, value_name = "FILE", requires = "certificate")]
    pub(crate) key: Vec<PathBuf>,
    /// Offer only this cipher suite, such as `TLS_AES_256_GCM_SHA384`
    #[arg(long, value_name = "SUITE")]
    pub(crate) tls_suite: Option<String>,
    /// Do not offer HTTP/2
    #[arg(long)]
    pub(crate) no_http2: bool,
    /// Who makes the records of TLS: the kernel where it can, the kernel or nobody, or Scrim (default: auto)
    #[arg(long, value_enum, value_name = "WHO")]
    pub(crate) tls_offload: Option<TlsOffload>,
    /// Serve without TLS too, on a loopback address, to those who ask for localhost, for a loopback address, or for a
    /// host that the configuration names; can be given several times
    #[arg(long, value_name = "IP:PORT")]
    pub(crate) plain_http: Vec<SocketAddr>,
    /// Let --plain-http be any address, where others can read and change what is served
    #[arg(long)]
    pub(crate) insecure_plaintext: bool,
    /// Send clients of plain HTTP at IP:PORT to HTTPS; can be given several times
    #[arg(long, value_name = "IP:PORT")]
    pub(crate) redirect_http: Vec<SocketAddr>,
    /// Show figures at `http://IP:PORT/`, and for Prometheus at /metrics, on a loopback address
    #[arg(long, value_name = "IP:PORT")]
    pub(crate) status: Option<SocketAddr>,
    /// Do not list folders
    #[arg(long)]
    pub(crate) no_listings: bool,
    /// Append a line for each request to FILE; `/dev/stdout` is one
    #[arg(long, value_name = "FILE")]
    pub(crate) access_log: Option<PathBuf>,
    /// How those lines look
    #[arg(
        long,
        value_enum,
        value_name = "FORMAT",
        default_value = "combined",
        requires = "access_log"
    )]
    pub(crate) access_log_format: AccessLogFormat,
    /// Threads that serve (default: one for each processor)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
    /// Only check the configuration, and whether its files can be used
    #[arg(long)]
    pub(crate) check: bool,
    /// End when process PID does, which has started this one
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pub(crate) end_with_parent: Option<i32>,
}

/// Who makes the records of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TlsOffload {
    /// The kernel, where it takes the suite
    Auto,
    /// The same, and an error where it takes none
    On,
    /// Scrim, in user space
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

/// How the volumes are opened that ROOTs name.
#[derive(Args)]
pub(crate) struct ServeVolumeArgs {
    /// Read the volume's key from FILE ("-": all of standard input) instead of asking for a passphrase
    #[arg(long, short = 'd', value_name = "FILE", requires = "roots")]
    pub(crate) key_file: Option<PathBuf>,
    /// Skip this many bytes of the key file
    #[arg(long, value_name = "BYTES", default_value_t = 0, requires = "key_file")]
    pub(crate) keyfile_offset: u64,
    /// Use only this many bytes of the key file
    #[arg(long, value_name = "BYTES", requires = "key_file")]
    pub(crate) keyfile_size: Option<usize>,
    /// Try only this key slot of the volume
    #[arg(long, short = 'S', value_name = "N", requires = "roots")]
    pub(crate) key_slot: Option<u8>,
    /// The volume's header is in FILE
    #[arg(long, value_name = "FILE", requires = "roots")]
    pub(crate) header: Option<PathBuf>,
    /// Who decrypts: the thread that serves, or dm-crypt's queues
    #[arg(long, value_enum, value_name = "PATH", requires = "roots")]
    pub(crate) data_path: Option<DataPathArg>,
}

/// How a line of the access log looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AccessLogFormat {
    /// The Combined Log Format of Apache and nginx
    Combined,
    /// An object of JSON
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
