//! Options of `scrim bench paths`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use scrim_bench::paths::Part;

use super::numbers::{parse_rounds, parse_seconds, parse_size};
use super::storage::DirectIo;

/// Measures, by default, on a RAM disk and without root: dm-crypt's queues, each of its flags, no queue and no
/// encryption, with AES-XTS and with the null cipher, through a served volume and in this process. The data of FILE
/// is only read, and decrypted with a throw-away key.
#[derive(Args)]
pub(crate) struct BenchPathsArgs {
    /// File or block device to measure on, instead of a RAM disk
    pub(crate) file: Option<PathBuf>,
    /// Engine to measure; the kernel's dm-crypt needs root, and a block device as FILE
    #[arg(long, value_enum, default_value = "scrim", value_name = "ENGINE")]
    pub(crate) engine: BenchEngineArg,
    /// Measure only this part; repeatable
    #[arg(long, value_enum, value_name = "PART")]
    pub(crate) only: Vec<PartArg>,
    /// Size of each request in bytes
    #[arg(long, value_parser = parse_size, value_name = "SIZE", default_value = "4K")]
    pub(crate) block_size: u64,
    /// Number of requests in flight, each from its own thread
    #[arg(long, visible_alias = "threads", value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) depth: u16,
    /// Percentage of reads among mixed requests
    #[arg(long, value_name = "PERCENT", default_value_t = 50, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub(crate) mix: u8,
    /// Number of rounds; each figure is the median
    #[arg(long, value_name = "N", default_value_t = scrim_bench::ROUNDS, value_parser = parse_rounds)]
    pub(crate) rounds: usize,
    /// Measuring time of each figure in seconds, over all rounds
    #[arg(long, value_name = "S", default_value_t = 0.5, value_parser = parse_seconds)]
    pub(crate) seconds: f64,
    /// Size of the RAM disk; at most 32M are used when it is served
    #[arg(long, value_parser = parse_size, value_name = "SIZE", default_value = "256M", conflicts_with = "file")]
    pub(crate) memory: u64,
    /// Use direct I/O, which bypasses the page cache
    #[arg(long, value_enum, default_value = "auto", value_name = "WHEN")]
    pub(crate) direct_io: DirectIo,
    /// Measure writes too, which destroys the data of FILE; asks for confirmation
    #[arg(long, requires = "file")]
    pub(crate) write: bool,
    /// Write an HTML page with charts to FILE, which must not exist
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Print the result as JSON, in one line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Engines that can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BenchEngineArg {
    /// Scrim's own engine, without root
    Scrim,
    /// The kernel's dm-crypt, with Scrim's own beside it on the same device
    Kernel,
}

/// Parts that can be measured separately.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PartArg {
    /// Data paths through a served volume
    Served,
    /// Data paths within this process
    InProcess,
    /// Data path auto beside inline and queued, by size, depth and direction
    Auto,
    /// Exchange of the table under load
    Switch,
    /// Short requests beside long ones, on one processor
    Neighbour,
}

impl From<PartArg> for Part {
    fn from(part: PartArg) -> Self {
        match part {
            PartArg::Served => Self::Served,
            PartArg::InProcess => Self::InProcess,
            PartArg::Auto => Self::Auto,
            PartArg::Switch => Self::Switch,
            PartArg::Neighbour => Self::Neighbour,
        }
    }
}
