//! Options of `scrim bench paths`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use scrim_bench::paths::Part;

use super::numbers::{parse_rounds, parse_seconds, parse_size};
use super::storage::DirectIo;

/// By default on a RAM disk, without root: dm-crypt's queues, each of its flags, no queue and no encryption,
/// with AES-XTS and with the null cipher, through a served volume and in this process. Of a FILE the data is
/// taken for ciphertext under a throw-away key, and only read.
#[derive(Args)]
pub(crate) struct BenchPathsArgs {
    /// File or block device to measure on, in place of a RAM disk
    pub(crate) file: Option<PathBuf>,
    /// Measure only this; can be given several times
    #[arg(long, value_enum, value_name = "PART")]
    pub(crate) only: Vec<PartArg>,
    /// Bytes of a request
    #[arg(long, value_parser = parse_size, value_name = "SIZE", default_value = "4K")]
    pub(crate) block_size: u64,
    /// Requests under way at a time, each of a thread of its own
    #[arg(long, visible_alias = "threads", value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) depth: u16,
    /// Reads among a hundred mixed requests
    #[arg(long, value_name = "PERCENT", default_value_t = 50, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub(crate) mix: u8,
    /// In how many rounds each figure is measured; it is the median
    #[arg(long, value_name = "N", default_value_t = scrim_bench::ROUNDS, value_parser = parse_rounds)]
    pub(crate) rounds: usize,
    /// How long each figure is measured, over all rounds
    #[arg(long, value_name = "S", default_value_t = 0.5, value_parser = parse_seconds)]
    pub(crate) seconds: f64,
    /// Size of the RAM disk; a served one has at most 32M
    #[arg(long, value_parser = parse_size, value_name = "SIZE", default_value = "256M", conflicts_with = "file")]
    pub(crate) memory: u64,
    /// Whether the page cache is passed by: always, never, or for block devices only
    #[arg(long, value_enum, default_value = "auto", value_name = "WHEN")]
    pub(crate) direct_io: DirectIo,
    /// Measure writes too, which destroys the data of FILE; asks for a confirmation
    #[arg(long, requires = "file")]
    pub(crate) write: bool,
    /// Write a page with pictures to FILE, which must not exist
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Print JSON, as one line
    #[arg(long)]
    pub(crate) json: bool,
}

/// What can be measured by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PartArg {
    /// The set-ups through a served volume
    Served,
    /// The set-ups in this process
    InProcess,
    /// Auto beside inline and queued, by size, depth and direction
    Auto,
    /// The table exchanged under load
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
