//! Options of the commands that add, change and remove key slots, and what they share with `format`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::kernel_key::KernelKey;
use super::luks::{ChangeArgs, HeaderOnlyArgs};

/// Source of a key.
#[derive(Args, Clone)]
pub(crate) struct KeyArgs {
    /// Read the key from FILE ("-": all of standard input) instead of asking for a passphrase
    #[arg(long, short = 'd', value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,
    /// Number of bytes to skip in the key file, or on standard input
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    pub(crate) keyfile_offset: u64,
    /// Number of bytes to use from the key file, or from the first line of standard input
    #[arg(long, short = 'l', value_name = "BYTES")]
    pub(crate) keyfile_size: Option<usize>,
    /// Memory limit in KiB for a key derivation that the header demands [default: 1048576 for a header
    /// on an NBD server or in a file of another user, otherwise the memory of the machine]
    #[arg(long, value_name = "KIB")]
    pub(crate) pbkdf_memory_limit: Option<u32>,
    /// Time limit in seconds for the key derivations of one passphrase [default: 120 for such a header,
    /// or --nbd-timeout; otherwise no limit]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) pbkdf_time_limit: Option<u16>,
}

/// The volume key itself, in place of a passphrase.
#[derive(Args, Clone, Default)]
pub(crate) struct VolumeKeyArgs {
    /// Read the volume key from FILE instead of asking for a passphrase
    #[arg(
        long,
        value_name = "FILE",
        visible_alias = "master-key-file",
        conflicts_with_all = ["key_file", "keyfile_offset", "keyfile_size", "key_slot"]
    )]
    pub(crate) volume_key_file: Option<PathBuf>,
    /// Take the volume key from a keyring of the kernel: %TYPE:NAME, or NAME for a key of type user
    #[arg(
        long,
        value_name = "KEY",
        conflicts_with_all = ["volume_key_file", "key_file", "keyfile_offset", "keyfile_size", "key_slot"]
    )]
    pub(crate) volume_key_keyring: Option<KernelKey>,
    /// Size of the volume key in bits, where no key slot of the header tells it
    // `requires` would not hold beside what conflicts with the file.
    #[arg(long, short = 's', value_name = "BITS")]
    pub(crate) key_size: Option<u32>,
}

impl VolumeKeyArgs {
    /// Checks whether an option is about a volume key.
    pub(crate) fn is_given(&self) -> bool {
        let is_named = self.volume_key_file.is_some() || self.volume_key_keyring.is_some();
        is_named || self.key_size.is_some()
    }
}

/// A token of the header, in place of a passphrase.
#[derive(Args, Clone, Default)]
pub(crate) struct TokenKeyArgs {
    /// Use token N of the header: its key in a keyring, cryptsetup's plugin for it, or clevis
    #[arg(long, value_name = "N")]
    pub(crate) token_id: Option<u8>,
    /// Use tokens of this type, such as luks2-keyring, systemd-tpm2 or clevis
    #[arg(long, value_name = "TYPE")]
    pub(crate) token_type: Option<String>,
    /// Use any token, and do not ask for a passphrase if no token opens the volume
    #[arg(long, conflicts_with_all = ["key_file", "volume_key_file", "volume_key_keyring"])]
    pub(crate) token_only: bool,
    /// Time limit in seconds for the program that uses a token
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub(crate) token_timeout: u16,
}

impl TokenKeyArgs {
    /// Returns whether a token is to be used.
    pub(crate) fn is_given(&self) -> bool {
        self.token_only || self.token_id.is_some() || self.token_type.is_some()
    }
}

/// Source of a new key.
#[derive(Args)]
pub(crate) struct NewKeyArgs {
    /// Key file with the new key, the same as --new-keyfile
    #[arg(value_name = "NEW_KEY_FILE", conflicts_with = "new_keyfile")]
    pub(crate) positional_key: Option<PathBuf>,
    /// Read the new key from FILE ("-": all of standard input) instead of asking for a passphrase
    #[arg(long, value_name = "FILE")]
    pub(crate) new_keyfile: Option<PathBuf>,
    /// Number of bytes to skip in the new key file, or on standard input
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    pub(crate) new_keyfile_offset: u64,
    /// Number of bytes to use from the new key file, or from the next line of standard input
    #[arg(long, value_name = "BYTES")]
    pub(crate) new_keyfile_size: Option<usize>,
    /// Accepted for compatibility with cryptsetup; a new passphrase is always asked for twice
    #[arg(long, short = 'y', hide = true)]
    pub(crate) verify_passphrase: bool,
    /// Accepted for compatibility with cryptsetup; the quality of a passphrase is not checked
    #[arg(long, hide = true)]
    pub(crate) force_password: bool,
}

/// Key derivation functions of key slots.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PbkdfType {
    /// PBKDF2 (RFC 8018), the only one that LUKS1 supports
    Pbkdf2,
    /// Argon2i (RFC 9106), data-independent
    Argon2i,
    /// Argon2id (RFC 9106), the hybrid variant
    Argon2id,
}

/// Options of the PBKDF of a key slot.
#[derive(Args)]
pub(crate) struct PbkdfArgs {
    /// PBKDF algorithm (default: argon2id for LUKS2, pbkdf2 for LUKS1)
    #[arg(long, value_enum)]
    pub(crate) pbkdf: Option<PbkdfType>,
    /// PBKDF iteration time on this machine, in milliseconds
    #[arg(long, short = 'i', default_value_t = 2000, value_name = "MS")]
    pub(crate) iter_time: u32,
    /// PBKDF memory cost limit of Argon2, in KiB
    #[arg(long, value_name = "KIB")]
    pub(crate) pbkdf_memory: Option<u32>,
    /// PBKDF parallel cost limit of Argon2: number of threads
    #[arg(long, value_name = "N")]
    pub(crate) pbkdf_parallel: Option<u32>,
    /// PBKDF iterations cost; nothing is measured
    #[arg(long, value_name = "N", conflicts_with = "iter_time")]
    pub(crate) pbkdf_force_iterations: Option<u32>,
}

/// Cipher of a new key slot.
#[derive(Args)]
pub(crate) struct KeyslotCipherArgs {
    /// Cipher used to encrypt the key slot (LUKS2; default: the cipher of the data)
    #[arg(long, value_name = "SPEC", requires = "keyslot_key_size")]
    pub(crate) keyslot_cipher: Option<String>,
    /// Key size of --keyslot-cipher in bits
    #[arg(long, value_name = "BITS", requires = "keyslot_cipher")]
    pub(crate) keyslot_key_size: Option<u32>,
}

/// Options of the protection of a new key slot.
#[derive(Args)]
pub(crate) struct SealArgs {
    /// Hash of the key slot's anti-forensic splitter and of PBKDF2 (default: sha256; for LUKS1 the hash of
    /// the header)
    #[arg(long, short = 'h')]
    pub(crate) hash: Option<String>,
    #[command(flatten)]
    pub(crate) cipher: KeyslotCipherArgs,
    #[command(flatten)]
    pub(crate) pbkdf: PbkdfArgs,
}

/// Options of an existing key, which conflict with a volume key and --unbound.
const EXISTING_KEY: [&str; 7] = [
    "key_file",
    "keyfile_offset",
    "keyfile_size",
    "tries",
    "token_id",
    "token_type",
    "token_only",
];

#[derive(Args)]
pub(crate) struct AddKeyArgs {
    #[command(flatten)]
    pub(crate) on: ChangeArgs,
    #[command(flatten)]
    pub(crate) new: NewKeyArgs,
    /// Slot number for the new key; with --new-key-slot, the slot that the existing key opens
    #[arg(long, short = 'S', value_name = "N")]
    pub(crate) key_slot: Option<u8>,
    /// Slot number for the new key
    #[arg(long, value_name = "N")]
    pub(crate) new_key_slot: Option<u8>,
    /// Read the volume key from FILE instead of asking for an existing passphrase; with --unbound, the key to store
    #[arg(
        long,
        value_name = "FILE",
        visible_alias = "master-key-file",
        conflicts_with_all = EXISTING_KEY
    )]
    pub(crate) volume_key_file: Option<PathBuf>,
    /// Take the volume key from a keyring of the kernel: %TYPE:NAME, or NAME for a key of type user; with --unbound, the
    /// key to store
    #[arg(
        long,
        value_name = "KEY",
        conflicts_with = "volume_key_file",
        conflicts_with_all = EXISTING_KEY
    )]
    pub(crate) volume_key_keyring: Option<KernelKey>,
    /// Create an unbound key slot, with a random key or the one that is named (LUKS2)
    #[arg(long, requires = "key_size", conflicts_with_all = EXISTING_KEY)]
    pub(crate) unbound: bool,
    /// Size in bits of the unbound key, or of the volume key that is named
    #[arg(long, short = 's', value_name = "BITS")]
    pub(crate) key_size: Option<u32>,
    /// Number of attempts to enter the existing passphrase
    #[arg(long, short = 'T', default_value_t = 3, value_name = "N")]
    pub(crate) tries: u32,
    #[command(flatten)]
    pub(crate) token: TokenKeyArgs,
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

/// Key slot to write again, and its new protection.
#[derive(Args)]
pub(crate) struct ChangeSlotArgs {
    /// Number of the key slot to change (default: the one that the key opens)
    #[arg(long, short = 'S', value_name = "N")]
    pub(crate) key_slot: Option<u8>,
    /// Number of attempts to enter the existing passphrase
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
    /// Key file with the key to remove, the same as --key-file
    #[arg(value_name = "KEY_FILE", conflicts_with = "key_file")]
    pub(crate) positional_key: Option<PathBuf>,
    /// Number of attempts to enter the passphrase
    #[arg(long, short = 'T', default_value_t = 3, value_name = "N")]
    pub(crate) tries: u32,
    #[command(flatten)]
    pub(crate) key: KeyArgs,
}

#[derive(Args)]
pub(crate) struct KillSlotArgs {
    #[command(flatten)]
    pub(crate) on: ChangeArgs,
    /// Number of the key slot to remove
    #[arg(value_name = "SLOT")]
    pub(crate) slot: u8,
    /// Number of attempts to enter the passphrase
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
