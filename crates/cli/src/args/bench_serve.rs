//! Options of `scrim bench serve`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use scrim_bench::serve::latency::Way;
use scrim_bench::web::Suite;

use super::numbers::{parse_rounds, parse_seconds, parse_size};

/// One client downloads a file from the page cache again and again, plain and over TLS in turn, from a server
/// that this program starts; or from URLs, two of which are compared. By default the file has 1 GiB and is
/// made in memory. With --from, many clients ask for a small file at a steady rate, and how long responses take
/// is compared by where the file comes from.
#[derive(Args)]
pub(crate) struct BenchServeArgs {
    /// File to serve; it gets a second name in a folder beside it meanwhile, so that it is served alone
    #[arg(conflicts_with = "url")]
    pub(crate) file: Option<PathBuf>,
    /// Compare how long responses take from these: dir, volume:queued, volume:inline, volume:auto
    #[arg(long, value_name = "WAYS", value_delimiter = ',', conflicts_with_all = ["file", "url"])]
    pub(crate) from: Vec<Way>,
    /// How long each is asked in a round, with --from
    #[arg(long, value_name = "S", default_value_t = 1.0, value_parser = parse_seconds, requires = "from")]
    pub(crate) seconds: f64,
    /// Size of the file that is made in memory (default: 1G; with --from 64K)
    #[arg(long, value_parser = parse_size, value_name = "SIZE", conflicts_with_all = ["file", "url"])]
    pub(crate) size: Option<u64>,
    /// Download this (https or http) in place of a file of ours; a second one is compared with the first
    #[arg(long, value_name = "URL")]
    pub(crate) url: Vec<String>,
    /// Believe only a server with this certificate (PEM); without, any server at URL is believed
    #[arg(long, value_name = "FILE", requires = "url")]
    pub(crate) certificate: Option<PathBuf>,
    /// The cipher suite of TLS 1.3 (default: aes-256-gcm; with --url what the server likes best)
    #[arg(long, value_enum, value_name = "SUITE")]
    pub(crate) suite: Option<SuiteArg>,
    /// How often each is downloaded, or asked for a while (default: 10; with --from 15)
    #[arg(long, value_name = "N", value_parser = parse_rounds)]
    pub(crate) rounds: Option<usize>,
    /// Write a page with pictures to FILE, which must not exist
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Print JSON, as one line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Cipher suites of TLS 1.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SuiteArg {
    /// AES-128-GCM
    #[value(name = "aes-128-gcm")]
    Aes128,
    /// AES-256-GCM
    #[value(name = "aes-256-gcm")]
    Aes256,
    /// ChaCha20-Poly1305
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
