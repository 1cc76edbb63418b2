//! Options of the commands that make a volume, and of those that copy data in and out.

use std::path::PathBuf;

use clap::Args;

use super::keys::{KeyArgs, KeyslotCipherArgs, PbkdfArgs};
use super::luks::LuksType;
use super::numbers::parse_size;
use super::storage::WindowArgs;
use super::unlock::LuksArgs;

#[derive(Args)]
pub(crate) struct FormatArgs {
    /// File, block device, NBD URI or rbd:POOL/IMAGE; a file that does not exist is created with --size
    pub(crate) image: PathBuf,
    /// Key file, the same as --key-file
    #[arg(value_name = "KEY_FILE", conflicts_with = "key_file")]
    pub(crate) positional_key: Option<PathBuf>,
    /// Create IMAGE with this size in bytes; K, M, G and T stand for powers of 1024
    #[arg(long, value_parser = parse_size, value_name = "SIZE")]
    pub(crate) size: Option<u64>,
    /// Type of device metadata: the LUKS version
    #[arg(long, short = 'M', value_enum, default_value = "luks")]
    pub(crate) r#type: LuksType,
    /// Cipher used to encrypt the data: cipher, mode and IV
    #[arg(long, short, default_value = "aes-xts-plain64")]
    pub(crate) cipher: String,
    /// Size of the volume key in bits (default: 512 for XTS, which splits it in two; otherwise 256)
    #[arg(long, short = 's', value_name = "BITS")]
    pub(crate) key_size: Option<u32>,
    /// Hash of the key slots' anti-forensic splitter, of PBKDF2 and of the key digest
    #[arg(long, short = 'h', default_value = "sha256")]
    pub(crate) hash: String,
    /// Encryption sector size in bytes (LUKS2; default: 4096 if size and device allow it)
    #[arg(long, value_name = "BYTES")]
    pub(crate) sector_size: Option<u32>,
    /// File or device for a detached LUKS header
    #[arg(long, value_name = "FILE")]
    pub(crate) header: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) window: WindowArgs,
    /// Start offset of the data on IMAGE, in 512-byte sectors
    #[arg(long, short, value_name = "SECTORS", conflicts_with = "align_payload")]
    pub(crate) offset: Option<u64>,
    /// Start the data at the first multiple of this many 512-byte sectors behind the header, or, where that is
    /// detached, at this sector (0: as without this option)
    #[arg(long, value_name = "SECTORS")]
    pub(crate) align_payload: Option<u32>,
    /// Size of each copy of the metadata in bytes (LUKS2; default: 16K); K, M, G and T stand for powers of 1024
    #[arg(long, value_parser = parse_size, value_name = "SIZE")]
    pub(crate) luks2_metadata_size: Option<u64>,
    /// Size of the area of the key slots in bytes (LUKS2; default: what is left of 16M)
    #[arg(long, value_parser = parse_size, value_name = "SIZE")]
    pub(crate) luks2_keyslots_size: Option<u64>,
    /// Encrypt with the volume key in FILE instead of a random one
    #[arg(long, value_name = "FILE", visible_alias = "master-key-file")]
    pub(crate) volume_key_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) keyslot_cipher: KeyslotCipherArgs,
    /// Label of the device (LUKS2)
    #[arg(long, default_value = "")]
    pub(crate) label: String,
    /// Subsystem label of the device (LUKS2)
    #[arg(long, default_value = "")]
    pub(crate) subsystem: String,
    /// UUID of the volume (default: a random one)
    #[arg(long)]
    pub(crate) uuid: Option<String>,
    #[command(flatten)]
    pub(crate) pbkdf: PbkdfArgs,
    /// Slot number for the key
    #[arg(long, short = 'S', value_name = "N", default_value_t = 0)]
    pub(crate) key_slot: u8,
    /// Do not ask for confirmation
    #[arg(long, short = 'q')]
    pub(crate) batch_mode: bool,
    #[command(flatten)]
    pub(crate) key: KeyArgs,
}

/// Options of a new volume that conflict with --resume: an unfinished volume has them already.
const BEGUN_EXCLUDES: [&str; 21] = [
    "type",
    "cipher",
    "key_size",
    "hash",
    "sector_size",
    "offset",
    "align_payload",
    "luks2_metadata_size",
    "luks2_keyslots_size",
    "volume_key_file",
    "keyslot_cipher",
    "keyslot_key_size",
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
    /// Raw image: a file, block device, NBD URI or rbd:POOL/IMAGE, which is only read
    #[arg(index = 1, conflicts_with_all = ["size", "header", "image_offset", "image_size"])]
    pub(crate) raw: PathBuf,
    /// Continue an interrupted import of RAW
    #[arg(long, conflicts_with_all = BEGUN_EXCLUDES)]
    pub(crate) resume: bool,
    /// Skip the comparison of source and copy at the end
    #[arg(long)]
    pub(crate) no_verify: bool,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Args)]
pub(crate) struct PackArgs {
    /// Folder whose files go into the new volume; it is only read
    #[arg(index = 1, conflicts_with_all = ["header", "image_offset", "image_size"])]
    pub(crate) folder: PathBuf,
    /// Print the summary as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Args)]
pub(crate) struct EncryptArgs {
    /// Encrypt the data where it is; `import` encrypts a copy instead
    #[arg(long, required = true, conflicts_with_all = ["size", "header", "image_offset", "image_size"])]
    pub(crate) in_place: bool,
    /// Use the last SIZE bytes of IMAGE, which hold no data, as space for the header; without it a file is
    /// extended
    #[arg(long, value_parser = parse_size, value_name = "SIZE")]
    pub(crate) reduce_device_size: Option<u64>,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Args)]
pub(crate) struct ExportArgs {
    /// File, block device, NBD URI or rbd:POOL/IMAGE with the volume, which is only read
    pub(crate) image: PathBuf,
    /// File to create, sparse, not a device; it gets its name once it is complete
    pub(crate) raw: PathBuf,
    /// Continue an interrupted export of IMAGE
    #[arg(long)]
    pub(crate) resume: bool,
    /// Skip the comparison of source and copy at the end
    #[arg(long)]
    pub(crate) no_verify: bool,
    /// Replace RAW and the rest of an unfinished export, without confirmation
    #[arg(long, short = 'q')]
    pub(crate) batch_mode: bool,
    #[command(flatten)]
    pub(crate) luks: LuksArgs,
}
