//! Options of `scrim tune`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use scrim_bench::tune::Use;

use super::numbers::{parse_rounds, parse_seconds};
use super::open_volume::KeyAgainArgs;

/// Measures an open volume on its own storage, while it is in use. Reads go to the volume itself, past the page cache.
/// Writes go to a file of at most 256 MiB on the volume's file system, if that is mounted; it has no name, so that it is
/// gone whatever happens.
#[derive(Args)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "options are independent of each other"
)]
pub(crate) struct TuneArgs {
    /// Name of the open volume, or its device in /dev/mapper
    #[arg(value_name = "NAME|DEVICE")]
    pub(crate) volume: PathBuf,
    /// Folder on the volume's file system for the file that is written (default: where it is mounted)
    #[arg(long, value_name = "DIR")]
    pub(crate) write_to: Option<PathBuf>,
    /// Leave writes out and measure reads only
    #[arg(long, conflicts_with = "write_to")]
    pub(crate) no_writes: bool,
    /// Write to the volume itself, which loses its data; nobody may have it open (a volume that the kernel runs)
    #[arg(long, conflicts_with_all = ["write_to", "no_writes"])]
    pub(crate) overwrite: bool,
    /// Put the flags for a use to work once they are measured; --undo goes back
    #[arg(long, value_enum, value_name = "USE")]
    pub(crate) apply: Option<UseArg>,
    /// Also store these flags in the LUKS2 header
    #[arg(long, requires = "apply")]
    pub(crate) persistent: bool,
    /// Measure nothing, and go back to the flags that the volume had before --apply, or before a tune that was killed
    #[arg(long, conflicts_with_all = ["apply", "write_to", "no_writes", "overwrite", "rounds", "seconds", "json"])]
    pub(crate) undo: bool,
    /// Number of rounds; each figure is the median
    #[arg(long, value_name = "N", default_value_t = scrim_bench::ROUNDS, value_parser = parse_rounds)]
    pub(crate) rounds: usize,
    /// Measuring time of each figure in seconds, over all rounds
    #[arg(long, value_name = "S", default_value_t = 1.5, value_parser = parse_seconds)]
    pub(crate) seconds: f64,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// File or device with the detached LUKS header, of a volume that the kernel runs
    #[arg(long, value_name = "FILE")]
    pub(crate) header: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) again: KeyAgainArgs,
}

/// Uses of a volume, each with its own loads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum UseArg {
    /// Requests of 4 to 16 KiB at random places
    Database,
    /// Requests of 1 MiB
    Files,
    /// Both of the others
    Mixed,
}

impl From<UseArg> for Use {
    fn from(r#use: UseArg) -> Self {
        match r#use {
            UseArg::Database => Self::Database,
            UseArg::Files => Self::Files,
            UseArg::Mixed => Self::Mixed,
        }
    }
}
