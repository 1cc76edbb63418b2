//! Options of the commands that work on an open volume.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use scrim_volume::{DataPath, OpenFlags};

use super::kernel_key::KeyLink;
use super::keys::{KeyArgs, TokenKeyArgs, VolumeKeyArgs};
use super::numbers::{parse_seconds, parse_size};
use super::volume_name::VolumeName;

/// Data paths of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DataPathArg {
    /// On the client's thread; long requests use idle processors too
    Auto,
    /// On the client's thread
    Inline,
    /// Through queues and threads as in dm-crypt, except for directions that --perf-no_*_workqueue excludes
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

/// Engines that run a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum EngineArg {
    /// Scrim's own; the kernel's is never chosen
    Auto,
    /// A process that serves the plaintext over NBD, without root
    Scrim,
    /// The kernel's dm-crypt: a block device in /dev/mapper, as root
    Kernel,
}

/// dm-crypt's performance flags; they are part of the table.
#[derive(Args)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "dm-crypt's flags are independent of each other"
)]
pub(crate) struct PerfArgs {
    /// Use the dm-crypt performance option same_cpu_crypt
    #[arg(long = "perf-same_cpu_crypt")]
    pub(crate) same_cpu_crypt: bool,
    /// Use the dm-crypt performance option submit_from_crypt_cpus
    #[arg(long = "perf-submit_from_crypt_cpus")]
    pub(crate) submit_from_crypt_cpus: bool,
    /// Use the dm-crypt performance option no_read_workqueue
    #[arg(long = "perf-no_read_workqueue")]
    pub(crate) no_read_workqueue: bool,
    /// Use the dm-crypt performance option no_write_workqueue
    #[arg(long = "perf-no_write_workqueue")]
    pub(crate) no_write_workqueue: bool,
    /// Use the dm-crypt performance option high_priority
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
    /// Close the volume even if clients are connected, and disconnect them
    #[arg(long)]
    pub(crate) force: bool,
    /// If the volume is in use, close it once it is not
    #[arg(long, conflicts_with = "force")]
    pub(crate) deferred: bool,
    /// Keep a volume open that --deferred would close
    #[arg(long, conflicts_with_all = ["force", "deferred"])]
    pub(crate) cancel_deferred: bool,
}

#[derive(Args)]
pub(crate) struct NameArgs {
    /// Name of the open volume
    pub(crate) name: VolumeName,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct ResizeArgs {
    /// Name of the open volume
    pub(crate) name: VolumeName,
    /// New size in 512-byte sectors (default: as large as the device allows)
    #[arg(long, short = 'b', value_name = "SECTORS")]
    pub(crate) size: Option<u64>,
    /// New size in bytes; K, M, G and T stand for powers of 1024
    #[arg(long, value_parser = parse_size, value_name = "SIZE", conflicts_with = "size")]
    pub(crate) device_size: Option<u64>,
    /// File or device with the detached LUKS header, of a volume that the kernel runs
    #[arg(long, value_name = "FILE")]
    pub(crate) header: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) again: KeyAgainArgs,
}

#[derive(Args)]
pub(crate) struct ListArgs {
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct OpenNameArgs {
    /// Name of the open volume
    pub(crate) name: VolumeName,
}

#[derive(Args)]
pub(crate) struct SnapshotArgs {
    /// Name of the open volume
    pub(crate) name: VolumeName,
    /// Longest time to hold requests, in seconds: COMMAND is ended then, and the snapshot does not count
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..=600))]
    pub(crate) hold_limit: u16,
    /// Program that takes the snapshot, with its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// The passphrase of an open volume, where its key is not in reach any more.
#[derive(Args)]
pub(crate) struct KeyAgainArgs {
    /// Try only this key slot, if the key has to be unlocked again
    #[arg(long, short = 'S', value_name = "N")]
    pub(crate) key_slot: Option<u8>,
    /// Number of attempts to enter the passphrase, if the key has to be unlocked again [default: 3]
    #[arg(long, short = 'T', value_name = "N")]
    pub(crate) tries: Option<u32>,
    #[command(flatten)]
    pub(crate) key: KeyArgs,
    #[command(flatten)]
    pub(crate) volume_key: VolumeKeyArgs,
    #[command(flatten)]
    pub(crate) token: TokenKeyArgs,
}

impl KeyAgainArgs {
    /// Checks whether an option is about the key, which is asked for only where it is not in reach.
    pub(crate) fn is_given(&self) -> bool {
        let KeyArgs {
            key_file,
            keyfile_offset,
            keyfile_size,
            pbkdf_memory_limit,
            pbkdf_time_limit,
        } = &self.key;
        let of_file = key_file.is_some() || *keyfile_offset > 0 || keyfile_size.is_some();
        let of_cost = pbkdf_memory_limit.is_some() || pbkdf_time_limit.is_some();
        let others = self.volume_key.is_given() || self.token.is_given();
        of_file || of_cost || others || self.key_slot.is_some() || self.tries.is_some()
    }

    /// Number of times that the passphrase is asked for at a terminal.
    pub(crate) fn attempts(&self) -> u32 {
        self.tries.unwrap_or(3)
    }
}

#[derive(Args)]
pub(crate) struct ResumeArgs {
    /// Name of the open volume
    pub(crate) name: VolumeName,
    #[command(flatten)]
    pub(crate) again: KeyAgainArgs,
}

#[derive(Args)]
pub(crate) struct LuksResumeArgs {
    #[command(flatten)]
    pub(crate) on: ResumeArgs,
    /// File or device with the detached header of a volume that the kernel runs
    #[arg(long, value_name = "FILE")]
    pub(crate) header: Option<PathBuf>,
    /// Put the volume key into a keyring of the kernel, as `open` does
    #[arg(long, value_name = "KEYRING::KEY")]
    pub(crate) link_vk_to_keyring: Option<KeyLink>,
}

#[derive(Args)]
pub(crate) struct TableArgs {
    /// Name of the open volume
    pub(crate) name: VolumeName,
    /// Show the volume key instead of zeros
    #[arg(long)]
    pub(crate) showkeys: bool,
    /// Print the loaded table instead of the active one
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
    /// Table as a line; other users can see it in the list of processes
    #[arg(long, value_name = "LINE")]
    pub(crate) table: Option<String>,
    /// Accept a table that decrypts to other data: with another key, cipher, IV, device, offset or
    /// length
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Args)]
pub(crate) struct RefreshArgs {
    /// Name of the open volume
    pub(crate) name: VolumeName,
    /// Allow discard (TRIM) requests, which reveal the unused parts of the volume
    #[arg(long)]
    pub(crate) allow_discards: bool,
    #[command(flatten)]
    pub(crate) perf: PerfArgs,
    /// Data path of requests (default: unchanged)
    #[arg(long, value_enum, value_name = "PATH")]
    pub(crate) data_path: Option<DataPathArg>,
    /// Make --allow-discards and the --perf flags persistent in the header, and drop all others (LUKS2)
    #[arg(long)]
    pub(crate) persistent: bool,
    /// File or device with the detached LUKS header, of a volume that the kernel runs
    #[arg(long, value_name = "FILE")]
    pub(crate) header: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) again: KeyAgainArgs,
}

#[derive(Args)]
pub(crate) struct StatsArgs {
    /// Name of the open volume
    pub(crate) name: VolumeName,
    /// Print the figures repeatedly, with rates, until Ctrl-C
    #[arg(
        long,
        value_name = "SECONDS",
        num_args = 0..=1,
        default_missing_value = "1",
        value_parser = parse_seconds,
        conflicts_with = "prometheus"
    )]
    pub(crate) watch: Option<f64>,
    /// Print the figures as JSON; with --watch one line each time
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the figures in the text format of Prometheus
    #[arg(long, conflicts_with = "json")]
    pub(crate) prometheus: bool,
}
