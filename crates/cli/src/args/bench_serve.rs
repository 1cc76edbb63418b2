//! Options of `scrim bench serve`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use scrim_bench::serve::latency::Way;
use scrim_bench::web::Suite;

use super::numbers::{parse_rounds, parse_seconds, parse_size};

/// Downloads a file from the page cache repeatedly, by turns without and with TLS, from a server that this command
/// starts, or from one or two URLs, which are compared. By default the file has 1 GiB and is created in memory. With
/// --from, many clients request a small file at a steady rate, and response times are compared between sources.
#[derive(Args)]
pub(crate) struct BenchServeArgs {
    /// File to serve; meanwhile it is hard-linked into a new folder beside it, so that only this file is served
    #[arg(conflicts_with = "url")]
    pub(crate) file: Option<PathBuf>,
    /// Compare response times from these sources: dir, volume:queued, volume:inline, volume:auto
    #[arg(long, value_name = "WAYS", value_delimiter = ',', conflicts_with_all = ["file", "url"])]
    pub(crate) from: Vec<Way>,
    /// Measuring time of each source per round, in seconds, with --from
    #[arg(long, value_name = "S", default_value_t = 1.0, value_parser = parse_seconds, requires = "from")]
    pub(crate) seconds: f64,
    /// Size of the file that is created in memory (default: 1G; with --from 64K)
    #[arg(long, value_parser = parse_size, value_name = "SIZE", conflicts_with_all = ["file", "url"])]
    pub(crate) size: Option<u64>,
    /// Download this https or http URL instead of a local file; a second URL is compared with the first
    #[arg(long, value_name = "URL")]
    pub(crate) url: Vec<String>,
    /// Accept only a server with this certificate (PEM); by default any certificate is accepted
    #[arg(long, value_name = "FILE", requires = "url")]
    pub(crate) certificate: Option<PathBuf>,
    /// TLS 1.3 cipher suite (default: aes-256-gcm; with --url the server's preference)
    #[arg(long, value_enum, value_name = "SUITE")]
    pub(crate) suite: Option<SuiteArg>,
    /// Number of downloads, or of rounds with --from (default: 10; with --from 15)
    #[arg(long, value_name = "N", value_parser = parse_rounds)]
    pub(crate) rounds: Option<usize>,
    /// Write an HTML page with charts to FILE, which must not exist
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Print the result as JSON, in one line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Cipher suites of TLS 1.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SuiteArg {
    /// Cipher suite TLS_AES_128_GCM_SHA256 (RFC 8446)
    #[value(name = "aes-128-gcm")]
    Aes128,
    /// Cipher suite TLS_AES_256_GCM_SHA384 (RFC 8446)
    #[value(name = "aes-256-gcm")]
    Aes256,
    /// Cipher suite TLS_CHACHA20_POLY1305_SHA256 (RFC 8446)
    #[value(name = "chacha20-poly1305")]
    ChaCha20,
}

impl From<SuiteArg> for Suite {
    fn from(suite: SuiteArg) -> Self {
        match suite {
            SuiteArg::Aes128 => Self::Aes128,
            SuiteArg::Aes256 => Self::Aes256,
            SuiteArg::ChaCha20 => Self::ChaCha20,
        }
    }
}
