//! Options of the commands that add, change and remove key slots, and what they share with `format`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::luks::{ChangeArgs, HeaderOnlyArgs};

/// Where a key comes from.
#[derive(Args, Clone)]
pub(crate) struct KeyArgs {
    /// Read the key from FILE ("-": all of standard input) instead of asking for a passphrase
    #[arg(long, short = 'd', value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,
    /// Skip this many bytes of the key file, or of standard input
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    pub(crate) keyfile_offset: u64,
    /// Use exactly this many bytes of the key file, or of the first line of standard input
    #[arg(long, short = 'l', value_name = "BYTES")]
    pub(crate) keyfile_size: Option<usize>,
    /// Most memory that the header may ask for to derive a key [default: 1048576 for a header on an
    /// NBD server or in a file of another user, else what the machine has]
    #[arg(long, value_name = "KIB")]
    pub(crate) pbkdf_memory_limit: Option<u32>,
    /// How long the header may have keys derived for one passphrase [default: 120 for such a header, or
    /// --nbd-timeout; else no limit]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) pbkdf_time_limit: Option<u16>,
}

/// Where a new key comes from.
#[derive(Args)]
pub(crate) struct NewKeyArgs {
    /// Key file with the new key, as --new-keyfile
    #[arg(value_name = "NEW_KEY_FILE", conflicts_with = "new_keyfile")]
    pub(crate) positional_key: Option<PathBuf>,
    /// Read the new key from FILE ("-": all of standard input) instead of asking for a passphrase
    #[arg(long, value_name = "FILE")]
    pub(crate) new_keyfile: Option<PathBuf>,
    /// Skip this many bytes of the new key file, or of standard input
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    pub(crate) new_keyfile_offset: u64,
    /// Use exactly this many bytes of the new key file, or of the next line of standard input
    #[arg(long, value_name = "BYTES")]
    pub(crate) new_keyfile_size: Option<usize>,
    /// Taken for cryptsetup's sake; a new passphrase is always asked for twice
    #[arg(long, short = 'y', hide = true)]
    pub(crate) verify_passphrase: bool,
    /// Taken for cryptsetup's sake; no passphrase is refused for its quality
    #[arg(long, hide = true)]
    pub(crate) force_password: bool,
}

/// A key derivation.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PbkdfType {
    /// PBKDF2 (the only one of LUKS1)
    Pbkdf2,
    /// Argon2i
    Argon2i,
    /// Argon2id
    Argon2id,
}

/// Options of the cost of a key slot.
#[derive(Args)]
pub(crate) struct PbkdfArgs {
    /// How the passphrase becomes a key (default: argon2id for LUKS2, pbkdf2 for LUKS1)
    #[arg(long, value_enum)]
    pub(crate) pbkdf: Option<PbkdfType>,
    /// How long unlocking may take on this machine, in milliseconds
    #[arg(long, short = 'i', default_value_t = 2000, value_name = "MS")]
    pub(crate) iter_time: u32,
    /// Most memory for Argon2, in KiB
    #[arg(long, value_name = "KIB")]
    pub(crate) pbkdf_memory: Option<u32>,
    /// Most threads for Argon2
    #[arg(long, value_name = "N")]
    pub(crate) pbkdf_parallel: Option<u32>,
    /// Use exactly this cost instead of measuring
    #[arg(long, value_name = "N", conflicts_with = "iter_time")]
    pub(crate) pbkdf_force_iterations: Option<u32>,
}

/// Options of the protection of a new key slot.
#[derive(Args)]
pub(crate) struct SealArgs {
    /// Hash of the key slot's anti-forensic splitter and of PBKDF2 (default: sha256; in LUKS1 that of
    /// the header)
    #[arg(long, short = 'h')]
    pub(crate) hash: Option<String>,
    /// Cipher of the key slot (LUKS2; default: that of the data)
    #[arg(long, value_name = "SPEC", requires = "keyslot_key_size")]
    pub(crate) keyslot_cipher: Option<String>,
    /// Size of the key of that cipher, in bits
    #[arg(long, value_name = "BITS", requires = "keyslot_cipher")]
    pub(crate) keyslot_key_size: Option<u32>,
    #[command(flatten)]
    pub(crate) pbkdf: PbkdfArgs,
}

/// Options of an existing key, which is not needed with the volume key, nor to store another one.
const EXISTING_KEY: [&str; 4] = ["key_file", "keyfile_offset", "keyfile_size", "tries"];

#[derive(Args)]
pub(crate) struct AddKeyArgs {
    #[command(flatten)]
    pub(crate) on: ChangeArgs,
    #[command(flatten)]
    pub(crate) new: NewKeyArgs,
    /// Put the new key into this slot; with --new-key-slot, the slot that the existing key opens
    #[arg(long, short = 'S', value_name = "N")]
    pub(crate) key_slot: Option<u8>,
    /// Put the new key into this slot
    #[arg(long, value_name = "N")]
    pub(crate) new_key_slot: Option<u8>,
    /// Use the volume key in FILE instead of an existing passphrase; with --unbound, the key to store
    #[arg(
        long,
        value_name = "FILE",
        visible_alias = "master-key-file",
        conflicts_with_all = EXISTING_KEY
    )]
    pub(crate) volume_key_file: Option<PathBuf>,
    /// Store a key that is not the volume key: a new random one, or that in --volume-key-file (LUKS2)
    #[arg(long, requires = "key_size", conflicts_with_all = EXISTING_KEY)]
    pub(crate) unbound: bool,
    /// Size of the unbound key, or of that in --volume-key-file, in bits; of another key it is known
    #[arg(long, short = 's', value_name = "BITS")]
    pub(crate) key_size: Option<u32>,
    /// How often to ask for the existing passphrase
    #[arg(long, short = 'T', default_value_t = 3, value_name = "N")]
    pub(crate) tries: u32,
    #[command(flatten)]
    pub(crate) seal: SealArgs,
    #[command(flatten)]
    pub(crate) key: KeyArgs,
}

#[derive(Args)]
pub(crate) struct ChangeKeyArgs {
    #[command(flatten)]
    pub(crate) on: ChangeArgs,
    #[command(flatten)]
    pub(crate) new: NewKeyArgs,
    #[command(flatten)]
    pub(crate) change: ChangeSlotArgs,
}

#[derive(Args)]
pub(crate) struct ConvertKeyArgs {
    #[command(flatten)]
    pub(crate) on: ChangeArgs,
    #[command(flatten)]
    pub(crate) change: ChangeSlotArgs,
}

/// Which key slot is made anew, and how.
#[derive(Args)]
pub(crate) struct ChangeSlotArgs {
    /// Change this key slot (default: the one that the key opens)
    #[arg(long, short = 'S', value_name = "N")]
    pub(crate) key_slot: Option<u8>,
    /// How often to ask for the existing passphrase
    #[arg(long, short = 'T', default_value_t = 3, value_name = "N")]
    pub(crate) tries: u32,
    #[command(flatten)]
    pub(crate) seal: SealArgs,
    #[command(flatten)]
    pub(crate) key: KeyArgs,
}

#[derive(Args)]
pub(crate) struct RemoveKeyArgs {
    #[command(flatten)]
    pub(crate) on: ChangeArgs,
    /// Key file with the key to remove, as --key-file
    #[arg(value_name = "KEY_FILE", conflicts_with = "key_file")]
    pub(crate) positional_key: Option<PathBuf>,
    /// How often to ask for the passphrase
    #[arg(long, short = 'T', default_value_t = 3, value_name = "N")]
    pub(crate) tries: u32,
    #[command(flatten)]
    pub(crate) key: KeyArgs,
}

#[derive(Args)]
pub(crate) struct KillSlotArgs {
    #[command(flatten)]
    pub(crate) on: ChangeArgs,
    /// The key slot to remove
    #[arg(value_name = "SLOT")]
    pub(crate) slot: u8,
    /// How often to ask for a passphrase
    #[arg(long, short = 'T', default_value_t = 3, value_name = "N")]
    pub(crate) tries: u32,
    #[command(flatten)]
    pub(crate) key: KeyArgs,
}

#[derive(Args)]
pub(crate) struct EraseArgs {
    #[command(flatten)]
    pub(crate) on: HeaderOnlyArgs,
    /// Do not ask for confirmation
    #[arg(long, short = 'q')]
    pub(crate) batch_mode: bool,
}
