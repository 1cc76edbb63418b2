//! Options of `scrim bench`, and of its measurement of ciphers.

use clap::{Args, Subcommand};

use super::bench_fileserver::BenchFileserverArgs;
use super::bench_paths::BenchPathsArgs;
use super::bench_serve::BenchServeArgs;
use super::keys::PbkdfType;
use super::numbers::{parse_rounds, parse_seconds, parse_size};

#[derive(Args)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    pub(crate) what: Bench,
}

/// Measurements of `scrim bench`.
#[derive(Subcommand)]
pub(crate) enum Bench {
    /// Measure key derivations and ciphers: MB/s and cycles per byte, beside memcpy and the limit of the processor
    Ciphers(BenchCiphersArgs),
    /// Compare ciphers on your own storage with bonnie++'s phases, overnight or --quick
    Fileserver(BenchFileserverArgs),
    /// Measure the cost of queues between a request and the cipher, on a RAM disk or on FILE
    Paths(BenchPathsArgs),
    /// Measure the cost of TLS for a file that is served, or response times from a folder and from volumes
    Serve(BenchServeArgs),
}

/// Measures, by default, the key derivations of cryptsetup and its ciphers, and records of AES-GCM, in 100 seconds.
/// An option that selects ciphers leaves key derivations out, and the other way round.
#[derive(Args)]
pub(crate) struct BenchCiphersArgs {
    /// Measure this cipher specification; repeatable
    #[arg(long, short, value_name = "SPEC")]
    pub(crate) cipher: Vec<String>,
    /// Size of the volume key, and of the derived key, in bits (default: the usual ones, and 256)
    #[arg(long, short = 's', value_name = "BITS")]
    pub(crate) key_size: Option<u32>,
    /// Encryption sector in bytes (default: 512 and 4096)
    #[arg(long, value_name = "BYTES")]
    pub(crate) sector_size: Option<u32>,
    /// Measure this driver instead of the best one (`scrim ciphers` lists them)
    #[arg(long, value_name = "DRIVER")]
    pub(crate) driver: Option<String>,
    /// Measure every mode, key size and driver, which takes minutes
    #[arg(long)]
    pub(crate) all: bool,
    /// Number of rounds; each figure is the median
    #[arg(long, value_name = "N", default_value_t = scrim_bench::ROUNDS, value_parser = parse_rounds)]
    pub(crate) rounds: usize,
    /// Measuring time of each figure in seconds, over all rounds
    #[arg(long, value_name = "S", default_value_t = 0.2, value_parser = parse_seconds)]
    pub(crate) seconds: f64,
    /// Size of a buffer larger than all caches (default: 256M, or twice the largest cache)
    #[arg(long, value_parser = parse_size, value_name = "SIZE")]
    pub(crate) memory: Option<u64>,
    /// Measure PBKDF2 with this hash
    #[arg(long, short = 'h')]
    pub(crate) hash: Option<String>,
    /// Measure this key derivation
    #[arg(long, value_enum)]
    pub(crate) pbkdf: Option<PbkdfType>,
    /// PBKDF iteration time of Argon2, in milliseconds
    #[arg(long, short = 'i', default_value_t = 2000, value_name = "MS")]
    pub(crate) iter_time: u32,
    /// PBKDF memory cost limit of Argon2, in KiB
    #[arg(long, value_name = "KIB")]
    pub(crate) pbkdf_memory: Option<u32>,
    /// PBKDF parallel cost of Argon2: number of threads
    #[arg(long, value_name = "N")]
    pub(crate) pbkdf_parallel: Option<u32>,
    /// Print the result as JSON, in one line
    #[arg(long)]
    pub(crate) json: bool,
}
