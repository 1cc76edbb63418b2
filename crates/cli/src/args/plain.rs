//! Options of `scrim plainOpen`.

use std::path::PathBuf;

use clap::Args;

use super::kernel_key::KernelKey;
use super::keys::KeyArgs;
use super::nbd::ServingArgs;
use super::open_volume::{DataPathArg, EngineArg, PerfArgs};
use super::storage::StorageArgs;
use super::volume_name::VolumeName;

#[derive(Args)]
pub(crate) struct PlainOpenArgs {
    /// File, block device, NBD URI or rbd:POOL/IMAGE with the volume
    pub(crate) image: PathBuf,
    /// Name of the open volume
    pub(crate) name: VolumeName,
    /// Cipher of the data, such as aes-xts-plain64: there is no header that names it
    #[arg(long, short, value_name = "SPEC")]
    pub(crate) cipher: String,
    /// Size of the key in bits
    #[arg(long, short = 's', value_name = "BITS")]
    pub(crate) key_size: u32,
    /// Hash that makes the key from the passphrase, or from all of standard input: NAME, NAME:BYTES or plain (none).
    /// A key file holds the key itself
    #[arg(long, short = 'h', value_name = "HASH")]
    pub(crate) hash: Option<String>,
    /// Start of the data on IMAGE, in 512-byte sectors
    #[arg(long, short, value_name = "SECTORS", default_value_t = 0)]
    pub(crate) offset: u64,
    /// Number of the first sector for the IVs
    #[arg(long, short = 'p', value_name = "SECTORS", default_value_t = 0)]
    pub(crate) skip: u64,
    /// Size of the volume in 512-byte sectors (default: to the end of IMAGE)
    #[arg(long, short = 'b', value_name = "SECTORS")]
    pub(crate) size: Option<u64>,
    /// Encryption sector size in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 512)]
    pub(crate) sector_size: u32,
    /// Accepted for compatibility with cryptsetup; volumes of one user may share an image anyway if they are read-only
    #[arg(long, hide = true)]
    pub(crate) shared: bool,
    /// Open the volume read-only
    #[arg(long, short)]
    pub(crate) readonly: bool,
    /// Allow discard (TRIM) requests, which reveal the unused parts of the volume
    #[arg(long)]
    pub(crate) allow_discards: bool,
    #[command(flatten)]
    pub(crate) perf: PerfArgs,
    /// Data path of requests
    #[arg(long, value_enum, default_value = "auto", value_name = "PATH")]
    pub(crate) data_path: DataPathArg,
    /// Engine that runs the volume
    #[arg(long, value_enum, default_value = "auto", value_name = "ENGINE")]
    pub(crate) engine: EngineArg,
    /// Stay in the foreground instead of starting a background process
    #[arg(long)]
    pub(crate) foreground: bool,
    #[command(flatten)]
    pub(crate) serving: ServingArgs,
    #[command(flatten)]
    pub(crate) storage: StorageArgs,
    /// Take the key from a keyring of the kernel: %TYPE:NAME, or NAME for a key of type user. With --engine kernel the
    /// type may be one that nobody reads: logon, encrypted or trusted
    #[arg(
        long,
        value_name = "KEY",
        conflicts_with_all = ["hash", "key_file", "keyfile_offset", "keyfile_size"]
    )]
    pub(crate) volume_key_keyring: Option<KernelKey>,
    #[command(flatten)]
    pub(crate) key: KeyArgs,
}
