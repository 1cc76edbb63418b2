//! Options of the commands that make a volume, and of those that copy data in and out.

use std::path::PathBuf;

use clap::Args;

use super::keys::{KeyArgs, PbkdfArgs};
use super::luks::LuksType;
use super::numbers::parse_size;

#[derive(Args)]
pub(crate) struct FormatArgs {
    /// File, block device or NBD URI; a file that does not exist is created with --size
    pub(crate) image: PathBuf,
    /// Key file, as --key-file
    #[arg(value_name = "KEY_FILE", conflicts_with = "key_file")]
    pub(crate) positional_key: Option<PathBuf>,
    /// Create IMAGE with this size in bytes; K, M, G and T stand for powers of 1024
    #[arg(long, value_parser = parse_size, value_name = "SIZE")]
    pub(crate) size: Option<u64>,
    /// LUKS version
    #[arg(long, short = 'M', value_enum, default_value = "luks")]
    pub(crate) r#type: LuksType,
    /// Cipher, mode and IV of the data
    #[arg(long, short, default_value = "aes-xts-plain64")]
    pub(crate) cipher: String,
    /// Size of the volume key in bits (default: 512 for XTS, which splits it in two, or else 256)
    #[arg(long, short = 's', value_name = "BITS")]
    pub(crate) key_size: Option<u32>,
    /// Hash of the key slots' anti-forensic splitter, of PBKDF2 and of the key digest
    #[arg(long, short = 'h', default_value = "sha256")]
    pub(crate) hash: String,
    /// Encryption sector in bytes (LUKS2; default: 4096 where size and device allow)
    #[arg(long, value_name = "BYTES")]
    pub(crate) sector_size: Option<u32>,
    /// Keep the header in FILE instead of on IMAGE
    #[arg(long, value_name = "FILE")]
    pub(crate) header: Option<PathBuf>,
    /// Where the data starts on IMAGE, in 512-byte sectors
    #[arg(long, short, value_name = "SECTORS")]
    pub(crate) offset: Option<u64>,
    /// Label (LUKS2)
    #[arg(long, default_value = "")]
    pub(crate) label: String,
    /// Subsystem (LUKS2)
    #[arg(long, default_value = "")]
    pub(crate) subsystem: String,
    /// UUID of the volume (default: a new one)
    #[arg(long)]
    pub(crate) uuid: Option<String>,
    #[command(flatten)]
    pub(crate) pbkdf: PbkdfArgs,
    /// Put the key into this slot
    #[arg(long, short = 'S', value_name = "N", default_value_t = 0)]
    pub(crate) key_slot: u8,
    /// Do not ask for confirmation
    #[arg(long, short = 'q')]
    pub(crate) batch_mode: bool,
    #[command(flatten)]
    pub(crate) key: KeyArgs,
}

/// Options of a new volume, which one that was begun already has.
const BEGUN_EXCLUDES: [&str; 15] = [
    "type",
    "cipher",
    "key_size",
    "hash",
    "sector_size",
    "offset",
    "label",
    "subsystem",
    "uuid",
    "pbkdf",
    "iter_time",
    "pbkdf_memory",
    "pbkdf_parallel",
    "pbkdf_force_iterations",
    "key_slot",
];

#[derive(Args)]
pub(crate) struct ImportArgs {
    /// Raw image: a file or block device, which is only read
    #[arg(index = 1, conflicts_with_all = ["size", "header"])]
    pub(crate) raw: PathBuf,
    /// Go on with an import of RAW that was interrupted
    #[arg(long, conflicts_with_all = BEGUN_EXCLUDES)]
    pub(crate) resume: bool,
    /// Do not read everything again to compare it
    #[arg(long)]
    pub(crate) no_verify: bool,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Args)]
pub(crate) struct EncryptArgs {
    /// Turn the data itself into ciphertext, instead of a copy (which `import` makes)
    #[arg(long, required = true, conflicts_with_all = ["size", "header"])]
    pub(crate) in_place: bool,
    /// The last SIZE bytes of IMAGE hold no data, and make room for the header; without it a file is
    /// made longer
    #[arg(long, value_parser = parse_size, value_name = "SIZE")]
    pub(crate) reduce_device_size: Option<u64>,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Args)]
pub(crate) struct ExportArgs {
    /// File or block device with the volume, which is only read
    pub(crate) image: PathBuf,
    /// File to make, with holes for zeros; it gets its name once it is whole
    pub(crate) raw: PathBuf,
    /// Go on with an export of IMAGE that was interrupted
    #[arg(long)]
    pub(crate) resume: bool,
    /// Do not read everything again to compare it
    #[arg(long)]
    pub(crate) no_verify: bool,
    /// LUKS version that is expected
    #[arg(long, short = 'M', value_enum, default_value = "luks")]
    pub(crate) r#type: LuksType,
    /// Take the header from FILE instead of IMAGE
    #[arg(long, value_name = "FILE")]
    pub(crate) header: Option<PathBuf>,
    /// Try only this key slot
    #[arg(long, short = 'S', value_name = "N")]
    pub(crate) key_slot: Option<u8>,
    /// How often to ask for a passphrase
    #[arg(long, short = 'T', default_value_t = 3, value_name = "N")]
    pub(crate) tries: u32,
    /// Replace RAW, and what is left of an export
    #[arg(long, short = 'q')]
    pub(crate) batch_mode: bool,
    #[command(flatten)]
    pub(crate) key: KeyArgs,
}
