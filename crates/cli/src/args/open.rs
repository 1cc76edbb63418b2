//! Options of `scrim open`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::kernel_key::KeyLink;
use super::nbd::ServingArgs;
use super::open_volume::EngineArg;
use super::unlock::UnlockArgs;
use super::volume_name::VolumeName;

/// Options of a LUKS volume that conflict with --table: the table itself says it, or cannot.
const TABLE_EXCLUDES: [&str; 28] = [
    "token_id",
    "token_type",
    "token_only",
    "token_timeout",
    "volume_key_file",
    "volume_key_keyring",
    "link_vk_to_keyring",
    "key_size",
    "image_offset",
    "image_size",
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

/// Options for serving a volume, which conflict with --test-passphrase.
const TEST_EXCLUDES: [&str; 22] = [
    "name",
    "engine",
    "disable_keyring",
    "persistent",
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
    /// File, block device, NBD URI or rbd:POOL/IMAGE with the volume; with --table, the NAME
    #[arg(value_name = "IMAGE")]
    pub(crate) image: PathBuf,
    /// Name of the open volume
    #[arg(required_unless_present_any = ["test_passphrase", "table"])]
    pub(crate) name: Option<VolumeName>,
    #[command(flatten)]
    pub(crate) serving: ServingArgs,
    /// Engine that runs the volume
    #[arg(long, value_enum, default_value = "auto", value_name = "ENGINE")]
    pub(crate) engine: EngineArg,
    /// Put the key into the kernel's table instead of a keyring, so that `refresh` and `resize` need no passphrase, and
    /// root can read the key back (--engine kernel)
    #[arg(long)]
    pub(crate) disable_keyring: bool,
    /// Put the volume key into a keyring of the kernel once the volume is open: KEYRING is @s, @u, @us, a name or a
    /// number, KEY as for --volume-key-keyring. The key stays there when the volume is closed
    #[arg(long, value_name = "KEYRING::KEY")]
    pub(crate) link_vk_to_keyring: Option<KeyLink>,
    /// Stay in the foreground instead of starting a background process
    #[arg(long)]
    pub(crate) foreground: bool,
    /// End when process PID ends, which must be the parent process
    #[arg(long, value_name = "PID", requires = "foreground", value_parser = clap::value_parser!(i32).range(1..))]
    pub(crate) end_with_parent: Option<i32>,
    /// Check the passphrase without opening the volume
    #[arg(long, conflicts_with_all = TEST_EXCLUDES)]
    pub(crate) test_passphrase: bool,
    /// With --test-passphrase, try key slots too that do not hold the volume key
    #[arg(long, requires = "test_passphrase")]
    pub(crate) unbound: bool,
    /// Open a table from FILE ("-": standard input), or a LINE such as "0 8 zero", instead of a LUKS
    /// header: `open --table FILE NAME`. Other users can see the command line: pass a table with a
    /// key in a file or through standard input
    #[arg(long, value_name = "FILE|LINE", conflicts_with_all = TABLE_EXCLUDES)]
    pub(crate) table: Option<OsString>,
    #[command(flatten)]
    pub(crate) unlock: UnlockArgs,
}
