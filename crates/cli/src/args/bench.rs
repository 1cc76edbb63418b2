//! Options of `scrim bench`, and of its measurement of ciphers.

use clap::{Args, Subcommand};

use super::bench_paths::BenchPathsArgs;
use super::bench_serve::BenchServeArgs;
use super::keys::PbkdfType;
use super::numbers::{parse_rounds, parse_seconds, parse_size};

#[derive(Args)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    pub(crate) what: Bench,
}

/// What can be measured.
#[derive(Subcommand)]
pub(crate) enum Bench {
    /// Key derivation and ciphers: MB/s and cycles a byte, beside memcpy and the processor's limit
    Ciphers(BenchCiphersArgs),
    /// What queues between a request and the cipher cost, on a RAM disk or on FILE
    Paths(BenchPathsArgs),
    /// What TLS costs when a file is served, or how long responses take from a folder and from volumes
    Serve(BenchServeArgs),
}

/// By default cryptsetup's key derivations and those of its ciphers that Scrim has, in 40 seconds.
/// With an option that chooses ciphers no key derivation is measured, and the other way round.
#[derive(Args)]
pub(crate) struct BenchCiphersArgs {
    /// Measure this cipher specification; can be given several times
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
    /// Measure every mode, size of key and driver, which takes minutes
    #[arg(long)]
    pub(crate) all: bool,
    /// In how many rounds each figure is measured; it is the median
    #[arg(long, value_name = "N", default_value_t = scrim_bench::ROUNDS, value_parser = parse_rounds)]
    pub(crate) rounds: usize,
    /// How long each figure is measured, over all rounds
    #[arg(long, value_name = "S", default_value_t = 0.2, value_parser = parse_seconds)]
    pub(crate) seconds: f64,
    /// Size of the buffer that no cache holds (default: 256M, or twice the largest cache)
    #[arg(long, value_parser = parse_size, value_name = "SIZE")]
    pub(crate) memory: Option<u64>,
    /// Measure PBKDF2 with this hash
    #[arg(long, short = 'h')]
    pub(crate) hash: Option<String>,
    /// Measure this key derivation
    #[arg(long, value_enum)]
    pub(crate) pbkdf: Option<PbkdfType>,
    /// How long Argon2 is to take, in milliseconds
    #[arg(long, short = 'i', default_value_t = 2000, value_name = "MS")]
    pub(crate) iter_time: u32,
    /// Most memory for Argon2, in KiB
    #[arg(long, value_name = "KIB")]
    pub(crate) pbkdf_memory: Option<u32>,
    /// Threads for Argon2
    #[arg(long, value_name = "N")]
    pub(crate) pbkdf_parallel: Option<u32>,
    /// Print JSON, as one line
    #[arg(long)]
    pub(crate) json: bool,
}
