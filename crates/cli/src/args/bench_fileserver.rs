//! Options of `scrim bench fileserver`.

use std::path::PathBuf;

use clap::Args;

use super::mount::MountMethod;
use super::numbers::{parse_rounds, parse_seconds, parse_size};

/// Compares ciphers on your own storage with bonnie++'s phases. For each combination of a cipher and a way to mount, a
/// volume with an ext4 file system is made in a file in DIR, mounted, measured and removed; plain data comes first. This
/// takes a night; --quick takes some minutes. After Ctrl-C or a power cut, --resume continues. Nothing is written but
/// DIR/scrim-fileserver, which is removed at the end, and the state file.
#[derive(Args)]
#[allow(clippy::struct_excessive_bools, reason = "options that are on or off")]
pub(crate) struct BenchFileserverArgs {
    /// Directory on the storage to measure, or a block device, whose data is destroyed after a confirmation
    #[arg(value_name = "DIR|DEVICE", default_value = ".")]
    pub(crate) place: PathBuf,
    /// Measure this cipher, with the size of the volume key in bits; repeatable (default: those of the 2009 report, and others)
    #[arg(long, short = 'c', value_name = "SPEC:KEYSIZE")]
    pub(crate) cipher: Vec<String>,
    /// Measure every cipher with every key size
    #[arg(long, conflicts_with = "cipher")]
    pub(crate) all: bool,
    /// Size of the large file (default: twice the memory if it fits, else the free space allows; with --quick 256M)
    #[arg(long, value_parser = parse_size, value_name = "SIZE")]
    pub(crate) size: Option<u64>,
    /// Take a first look: a small file and little of everything
    #[arg(long)]
    pub(crate) quick: bool,
    /// Number of rounds; each figure is the median
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = parse_rounds)]
    pub(crate) rounds: usize,
    /// Program or kernel code that mounts Scrim's volumes
    #[arg(long, value_enum, default_value = "auto", value_name = "METHOD")]
    pub(crate) method: MountMethod,
    /// Let the real bonnie++ make the load
    #[arg(long)]
    pub(crate) bonnie: bool,
    /// Compare this command's load with bonnie++ on DIR itself, in turn, instead of ciphers
    #[arg(long, conflicts_with_all = ["cipher", "all", "bonnie", "resume", "html", "against", "method"])]
    pub(crate) check_bonnie: bool,
    /// MB/s that the disk of the fastest client reads, for the rule of need
    #[arg(long, value_name = "MB/S", default_value_t = 60.0, value_parser = parse_seconds)]
    pub(crate) client_read: f64,
    /// MB/s that the disk of the fastest client writes
    #[arg(long, value_name = "MB/S", default_value_t = 40.0, value_parser = parse_seconds)]
    pub(crate) client_write: f64,
    /// State file (default: DIR/scrim-fileserver.json, for a device ./scrim-fileserver.json)
    #[arg(long, value_name = "FILE")]
    pub(crate) state: Option<PathBuf>,
    /// Continue the run of the state file, with its options; a complete one is shown again
    #[arg(long, conflicts_with_all = ["cipher", "all", "size", "quick", "rounds", "bonnie", "method", "client_read", "client_write"])]
    pub(crate) resume: bool,
    /// Compare with an earlier result, the JSON of this command in FILE
    #[arg(long, value_name = "FILE")]
    pub(crate) against: Option<PathBuf>,
    /// Write an HTML page with charts to FILE, which must not exist
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Print the result as JSON, in one line
    #[arg(long)]
    pub(crate) json: bool,
}
