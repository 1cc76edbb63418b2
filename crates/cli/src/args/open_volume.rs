//! Options of what is done to a volume's table, when it is opened and while it runs.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use scrim_volume::{DataPath, OpenFlags};

use super::keys::KeyArgs;
use super::numbers::{parse_seconds, parse_size};
use super::volume_name::VolumeName;

/// Who does the work of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DataPathArg {
    /// The requester, and idle processors with him where a request is long
    Auto,
    /// The requester
    Inline,
    /// dm-crypt's queues and threads, but in a direction that --perf-no_*_workqueue names
    Queued,
}

impl From<DataPathArg> for DataPath {
    fn from(path: DataPathArg) -> Self {
        match path {
            DataPathArg::Auto => Self::Auto,
            DataPathArg::Inline => Self::Inline,
            DataPathArg::Queued => Self::Queued,
        }
    }
}

/// dm-crypt's performance flags; they are part of the table.
#[derive(Args)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "dm-crypt's flags are independent of each other"
)]
pub(crate) struct PerfArgs {
    /// Set same_cpu_crypt in the table
    #[arg(long = "perf-same_cpu_crypt")]
    pub(crate) same_cpu_crypt: bool,
    /// Set submit_from_crypt_cpus in the table
    #[arg(long = "perf-submit_from_crypt_cpus")]
    pub(crate) submit_from_crypt_cpus: bool,
    /// Set no_read_workqueue in the table
    #[arg(long = "perf-no_read_workqueue")]
    pub(crate) no_read_workqueue: bool,
    /// Set no_write_workqueue in the table
    #[arg(long = "perf-no_write_workqueue")]
    pub(crate) no_write_workqueue: bool,
    /// Set high_priority in the table
    #[arg(long = "perf-high_priority")]
    pub(crate) high_priority: bool,
}

impl PerfArgs {
    pub(crate) fn flags(&self, allow_discards: bool) -> OpenFlags {
        let Self {
            same_cpu_crypt,
            submit_from_crypt_cpus,
            no_read_workqueue,
            no_write_workqueue,
            high_priority,
        } = *self;
        OpenFlags {
            allow_discards,
            same_cpu_crypt,
            submit_from_crypt_cpus,
            no_read_workqueue,
            no_write_workqueue,
            high_priority,
        }
    }
}

#[derive(Args)]
pub(crate) struct CloseArgs {
    /// Name of the open volume
    pub(crate) name: VolumeName,
    /// Close even while clients are connected; they are disconnected
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Args)]
pub(crate) struct NameArgs {
    /// Name of the open volume
    pub(crate) name: VolumeName,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct ResizeArgs {
    /// Name of the open volume
    pub(crate) name: VolumeName,
    /// The size that is wanted, in 512-byte sectors (default: as large as the device allows)
    #[arg(long, short = 'b', value_name = "SECTORS")]
    pub(crate) size: Option<u64>,
    /// The size that is wanted, in bytes; K, M, G and T stand for powers of 1024
    #[arg(long, value_parser = parse_size, value_name = "SIZE", conflicts_with = "size")]
    pub(crate) device_size: Option<u64>,
}

#[derive(Args)]
pub(crate) struct ListArgs {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct OpenNameArgs {
    /// Name of the open volume
    pub(crate) name: VolumeName,
}

#[derive(Args)]
pub(crate) struct ResumeArgs {
    /// Name of the open volume
    pub(crate) name: VolumeName,
    /// Try only this key slot, where the key is forgotten
    #[arg(long, short = 'S', value_name = "N")]
    pub(crate) key_slot: Option<u8>,
    /// How often to ask for the passphrase, where the key is forgotten [default: 3]
    #[arg(long, short = 'T', value_name = "N")]
    pub(crate) tries: Option<u32>,
    #[command(flatten)]
    pub(crate) key: KeyArgs,
}

impl ResumeArgs {
    /// Checks whether an option is about the key, which only a forgotten one needs.
    pub(crate) fn asks_for_key(&self) -> bool {
        let KeyArgs {
            key_file,
            keyfile_offset,
            keyfile_size,
            pbkdf_memory_limit,
            pbkdf_time_limit,
        } = &self.key;
        let of_file = key_file.is_some() || *keyfile_offset > 0 || keyfile_size.is_some();
        let of_cost = pbkdf_memory_limit.is_some() || pbkdf_time_limit.is_some();
        of_file || of_cost || self.key_slot.is_some() || self.tries.is_some()
    }
}

#[derive(Args)]
pub(crate) struct TableArgs {
    /// Name of the open volume
    pub(crate) name: VolumeName,
    /// Print the volume key instead of zeros
    #[arg(long)]
    pub(crate) showkeys: bool,
    /// Print the table that was loaded beside the one at work
    #[arg(long)]
    pub(crate) inactive: bool,
}

#[derive(Args)]
pub(crate) struct ReloadArgs {
    /// Name of the open volume
    pub(crate) name: VolumeName,
    /// File with the table ("-": standard input)
    #[arg(conflicts_with = "table")]
    pub(crate) file: Option<PathBuf>,
    /// The table itself, which others can see
    #[arg(long, value_name = "LINE")]
    pub(crate) table: Option<String>,
    /// Take a table that makes other data of what is stored: another key, cipher, IV, device, place
    /// or length
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Args)]
pub(crate) struct RefreshArgs {
    /// Name of the open volume
    pub(crate) name: VolumeName,
    /// Pass discards on; shows which parts of the volume are unused
    #[arg(long)]
    pub(crate) allow_discards: bool,
    #[command(flatten)]
    pub(crate) perf: PerfArgs,
    /// Who does the work of a request (default: as it is)
    #[arg(long, value_enum, value_name = "PATH")]
    pub(crate) data_path: Option<DataPathArg>,
    /// Store --allow-discards and the --perf flags in the header, and no others (LUKS2)
    #[arg(long)]
    pub(crate) persistent: bool,
}

#[derive(Args)]
pub(crate) struct StatsArgs {
    /// Name of the open volume
    pub(crate) name: VolumeName,
    /// Print it again and again, with rates, until Ctrl-C
    #[arg(
        long,
        value_name = "SECONDS",
        num_args = 0..=1,
        default_missing_value = "1",
        value_parser = parse_seconds,
        conflicts_with = "prometheus"
    )]
    pub(crate) watch: Option<f64>,
    /// Print JSON; with --watch a line each time
    #[arg(long)]
    pub(crate) json: bool,
    /// Print it as Prometheus reads it
    #[arg(long, conflicts_with = "json")]
    pub(crate) prometheus: bool,
}
