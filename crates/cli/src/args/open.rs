//! Options of `scrim open`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::keys::KeyArgs;
use super::luks::LuksType;
use super::nbd::ServingArgs;
use super::open_volume::{DataPathArg, PerfArgs};
use super::storage::StorageArgs;
use super::volume_name::VolumeName;

/// Options of a LUKS volume: a table says what they say, or has no place for it.
const TABLE_EXCLUDES: [&str; 18] = [
    "tries",
    "name",
    "persistent",
    "type",
    "header",
    "key_slot",
    "allow_discards",
    "test_passphrase",
    "key_file",
    "keyfile_offset",
    "keyfile_size",
    "pbkdf_memory_limit",
    "pbkdf_time_limit",
    "same_cpu_crypt",
    "submit_from_crypt_cpus",
    "no_read_workqueue",
    "no_write_workqueue",
    "high_priority",
];

/// Options of a volume that is opened, for one whose passphrase is only tested.
const TEST_EXCLUDES: [&str; 19] = [
    "name",
    "readonly",
    "allow_discards",
    "same_cpu_crypt",
    "submit_from_crypt_cpus",
    "no_read_workqueue",
    "no_write_workqueue",
    "high_priority",
    "nbd",
    "tls_cert",
    "insecure_plaintext",
    "metrics",
    "foreground",
    "end_with_parent",
    "data_path",
    "io_engine",
    "direct_io",
    "nbd_connections",
    "nbd_timeout",
];

#[derive(Args)]
pub(crate) struct OpenArgs {
    /// File, block device or NBD URI with the volume; with --table the NAME
    #[arg(value_name = "IMAGE")]
    pub(crate) image: PathBuf,
    /// Name of the open volume
    #[arg(required_unless_present_any = ["test_passphrase", "table"])]
    pub(crate) name: Option<VolumeName>,
    /// LUKS version that is expected
    #[arg(long, short = 'M', value_enum, default_value = "luks")]
    pub(crate) r#type: LuksType,
    /// Refuse writes
    #[arg(long, short)]
    pub(crate) readonly: bool,
    /// Take the header from FILE instead of IMAGE
    #[arg(long, value_name = "FILE")]
    pub(crate) header: Option<PathBuf>,
    /// Try only this key slot
    #[arg(long, short = 'S', value_name = "N")]
    pub(crate) key_slot: Option<u8>,
    /// Pass discards on; shows which parts of the volume are unused
    #[arg(long)]
    pub(crate) allow_discards: bool,
    #[command(flatten)]
    pub(crate) serving: ServingArgs,
    /// Stay in the foreground
    #[arg(long)]
    pub(crate) foreground: bool,
    /// End when process PID does, which has started this one
    #[arg(long, value_name = "PID", requires = "foreground", value_parser = clap::value_parser!(i32).range(1..))]
    pub(crate) end_with_parent: Option<i32>,
    /// Only check the passphrase; nothing is served
    #[arg(long, conflicts_with_all = TEST_EXCLUDES)]
    pub(crate) test_passphrase: bool,
    /// Store --allow-discards and the --perf flags in the header, and no others (LUKS2)
    #[arg(long, conflicts_with_all = ["test_passphrase", "readonly"])]
    pub(crate) persistent: bool,
    /// Run a table from FILE ("-": standard input), or a LINE such as "0 8 zero", instead of a LUKS
    /// header: `open --table FILE NAME`. A line on the command line is visible to others: give one
    /// with a key in a file or on standard input
    #[arg(long, value_name = "FILE|LINE", conflicts_with_all = TABLE_EXCLUDES)]
    pub(crate) table: Option<OsString>,
    /// How often to ask for a passphrase
    #[arg(long, short = 'T', default_value_t = 3, value_name = "N")]
    pub(crate) tries: u32,
    /// Who does the work of a request: the requester, dm-crypt's queues, or the best by size and load
    #[arg(long, value_enum, default_value = "auto", value_name = "PATH")]
    pub(crate) data_path: DataPathArg,
    #[command(flatten)]
    pub(crate) perf: PerfArgs,
    #[command(flatten)]
    pub(crate) storage: StorageArgs,
    #[command(flatten)]
    pub(crate) key: KeyArgs,
}
