//! Options of the commands that show, back up, repair and change headers.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use scrim_luks::{Flag, Priority};

use super::kernel_key::KeyLink;
use super::keys::{KeyArgs, TokenKeyArgs, VolumeKeyArgs};
use super::luks::{ChangeArgs, HeaderOnlyArgs, LuksType};

#[derive(Args)]
pub(crate) struct DumpArgs {
    #[command(flatten)]
    pub(crate) on: HeaderOnlyArgs,
    /// Expected type of device metadata
    #[arg(long, short = 'M', value_enum, default_value = "luks")]
    pub(crate) r#type: LuksType,
    /// Print the header as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the metadata of LUKS2 as they are stored, which is JSON
    #[arg(long, conflicts_with = "json")]
    pub(crate) dump_json_metadata: bool,
    /// Print the volume key in place of the key slots, or write it to --volume-key-file; asks for a passphrase
    #[arg(
        long,
        visible_alias = "dump-master-key",
        conflicts_with_all = ["json", "dump_json_metadata", "unbound"]
    )]
    pub(crate) dump_volume_key: bool,
    /// Print the key of the unbound key slot --key-slot, or write it to --volume-key-file; asks for its passphrase
    #[arg(long, requires = "key_slot", conflicts_with_all = ["json", "dump_json_metadata"])]
    pub(crate) unbound: bool,
    /// Create FILE with the key, as bytes, instead of printing it
    #[arg(long, value_name = "FILE", visible_alias = "master-key-file")]
    pub(crate) volume_key_file: Option<PathBuf>,
    /// Try only this key slot
    #[arg(long, short = 'S', value_name = "N")]
    pub(crate) key_slot: Option<u8>,
    /// Number of attempts to enter the passphrase
    #[arg(long, short = 'T', default_value_t = 3, value_name = "N")]
    pub(crate) tries: u32,
    /// Do not ask for confirmation to show a key
    #[arg(long, short = 'q')]
    pub(crate) batch_mode: bool,
    #[command(flatten)]
    pub(crate) key: KeyArgs,
}

#[derive(Args)]
pub(crate) struct TestArgs {
    #[command(flatten)]
    pub(crate) on: HeaderOnlyArgs,
    /// Try only this key slot
    #[arg(long, short = 'S', value_name = "N")]
    pub(crate) key_slot: Option<u8>,
    /// Try key slots too that do not hold the volume key
    #[arg(long)]
    pub(crate) unbound: bool,
    /// Number of attempts to enter the passphrase
    #[arg(long, short = 'T', default_value_t = 3, value_name = "N")]
    pub(crate) tries: u32,
    #[command(flatten)]
    pub(crate) key: KeyArgs,
    #[command(flatten)]
    pub(crate) volume_key: VolumeKeyArgs,
    #[command(flatten)]
    pub(crate) token: TokenKeyArgs,
    /// Put the volume key into a keyring of the kernel, as `open` does
    #[arg(long, value_name = "KEYRING::KEY")]
    pub(crate) link_vk_to_keyring: Option<KeyLink>,
}

#[derive(Args)]
pub(crate) struct IsLuksArgs {
    #[command(flatten)]
    pub(crate) on: HeaderOnlyArgs,
    /// Expected type of device metadata
    #[arg(long, short = 'M', value_enum, default_value = "luks")]
    pub(crate) r#type: LuksType,
    /// Print the result as text
    #[arg(long, short)]
    pub(crate) verbose: bool,
}

#[derive(Args)]
pub(crate) struct HeaderBackupArgs {
    #[command(flatten)]
    pub(crate) on: HeaderOnlyArgs,
    /// Expected type of device metadata
    #[arg(long, short = 'M', value_enum, default_value = "luks")]
    pub(crate) r#type: LuksType,
    /// Backup file to create, which must not exist
    #[arg(long, value_name = "FILE")]
    pub(crate) header_backup_file: PathBuf,
    /// Accepted for compatibility with cryptsetup; no confirmation is asked for
    #[arg(long, short = 'q', hide = true)]
    pub(crate) batch_mode: bool,
}

#[derive(Args)]
pub(crate) struct HeaderRestoreArgs {
    #[command(flatten)]
    pub(crate) on: HeaderOnlyArgs,
    /// Backup file of `header-backup` or `cryptsetup luksHeaderBackup`
    #[arg(long, value_name = "FILE")]
    pub(crate) header_backup_file: PathBuf,
    /// Save what is replaced in FILE (default: beside the backup, as BACKUP.replaced-UUID, or
    /// BACKUP.replaced-unreadable if no header can be read)
    #[arg(long, value_name = "FILE")]
    pub(crate) replaced_file: Option<PathBuf>,
    /// Do not ask for confirmation
    #[arg(long, short = 'q')]
    pub(crate) batch_mode: bool,
}

#[derive(Args)]
pub(crate) struct RepairArgs {
    #[command(flatten)]
    pub(crate) on: ChangeArgs,
}

#[derive(Args)]
#[command(group = ArgGroup::new("setting").required(true).multiple(true))]
pub(crate) struct ConfigArgs {
    #[command(flatten)]
    pub(crate) on: ChangeArgs,
    /// Key slot priority of --key-slot
    #[arg(long, value_enum, requires = "key_slot", group = "setting")]
    pub(crate) priority: Option<SlotPriority>,
    /// Number of the key slot whose priority is set
    #[arg(long, short = 'S', value_name = "N", requires = "priority")]
    pub(crate) key_slot: Option<u8>,
    /// Set the label; "" removes it
    #[arg(long, group = "setting")]
    pub(crate) label: Option<String>,
    /// Set the subsystem label; "" removes it
    #[arg(long, group = "setting")]
    pub(crate) subsystem: Option<String>,
    /// Set exactly these persistent flags, for example allow-discards,no-read-workqueue; "none" removes
    /// all
    #[arg(long, value_name = "FLAGS", value_parser = parse_flags, group = "setting")]
    pub(crate) persistent_flags: Option<Flags>,
}

/// Persistent flags, each once.
#[derive(Clone)]
pub(crate) struct Flags(pub(crate) Vec<Flag>);

fn parse_flags(text: &str) -> Result<Flags, String> {
    let mut flags = Vec::new();
    let names = text.split(',').filter(|name| !name.is_empty());
    for name in names.filter(|_| text != "none") {
        let known = || {
            let names = Flag::ALL.map(Flag::name).join(", ");
            format!("{name} is not a flag; use {names}, or none")
        };
        let flag = Flag::from_name(name).ok_or_else(known)?;
        if !flags.contains(&flag) {
            flags.push(flag);
        }
    }
    Ok(Flags(flags))
}

/// Priority of a key slot.
#[derive(ValueEnum, Clone, Copy)]
pub(crate) enum SlotPriority {
    /// Tried only if selected by its number
    Ignore,
    /// Tried in order of its number
    Normal,
    /// Tried before all other key slots
    Prefer,
}

impl From<SlotPriority> for Priority {
    fn from(priority: SlotPriority) -> Self {
        match priority {
            SlotPriority::Ignore => Self::Ignore,
            SlotPriority::Normal => Self::Normal,
            SlotPriority::Prefer => Self::Prefer,
        }
    }
}

#[derive(Args)]
pub(crate) struct ConvertArgs {
    #[command(flatten)]
    pub(crate) on: HeaderOnlyArgs,
    /// Type of device metadata to convert to
    #[arg(long, short = 'M', value_enum)]
    pub(crate) r#type: LuksType,
    /// Do not ask for confirmation
    #[arg(long, short = 'q')]
    pub(crate) batch_mode: bool,
}

#[derive(Args)]
pub(crate) struct UuidArgs {
    #[command(flatten)]
    pub(crate) on: ChangeArgs,
    /// New UUID of the volume
    #[arg(long)]
    pub(crate) uuid: Option<String>,
}

#[derive(Args)]
pub(crate) struct TokenArgs {
    #[command(subcommand)]
    pub(crate) action: TokenAction,
}

/// Actions of `scrim token`.
#[derive(Subcommand)]
pub(crate) enum TokenAction {
    /// Add a token that names a passphrase in the kernel keyring
    Add(TokenAddArgs),
    /// Remove a token; its key slots stay
    Remove(TokenIdArgs),
    /// Import a token of any type from JSON
    Import(TokenImportArgs),
    /// Export a token as JSON
    Export(TokenExportArgs),
    /// Assign a token to a key slot that its passphrase opens
    Assign(TokenSlotArgs),
    /// Remove the assignment of a token to a key slot
    Unassign(TokenSlotArgs),
}

/// Number of a new token.
#[derive(Args)]
pub(crate) struct NewTokenArgs {
    /// Token number (default: the first free one)
    #[arg(long, value_name = "N")]
    pub(crate) token_id: Option<u8>,
    /// Replace the token with the number --token-id
    #[arg(long, requires = "token_id")]
    pub(crate) token_replace: bool,
}

#[derive(Args)]
pub(crate) struct TokenAddArgs {
    #[command(flatten)]
    pub(crate) on: ChangeArgs,
    /// Description of the key in the keyring, of type user
    #[arg(long, value_name = "TEXT")]
    pub(crate) key_description: String,
    /// Key slot to assign the token to (default: all key slots of the volume key)
    #[arg(long, short = 'S', value_name = "N")]
    pub(crate) key_slot: Option<u8>,
    /// Assign the token to no key slot
    #[arg(long, conflicts_with = "key_slot")]
    pub(crate) unbound: bool,
    #[command(flatten)]
    pub(crate) new: NewTokenArgs,
}

#[derive(Args)]
pub(crate) struct TokenImportArgs {
    #[command(flatten)]
    pub(crate) on: ChangeArgs,
    /// Read the JSON from FILE ("-" or by default: standard input)
    #[arg(long, value_name = "FILE")]
    pub(crate) json_file: Option<PathBuf>,
    /// Key slot to assign the token to
    #[arg(long, short = 'S', value_name = "N")]
    pub(crate) key_slot: Option<u8>,
    #[command(flatten)]
    pub(crate) new: NewTokenArgs,
}

#[derive(Args)]
pub(crate) struct TokenExportArgs {
    #[command(flatten)]
    pub(crate) on: HeaderOnlyArgs,
    /// Number of the token
    #[arg(long, value_name = "N")]
    pub(crate) token_id: u8,
    /// Write the JSON to FILE (default: standard output)
    #[arg(long, value_name = "FILE")]
    pub(crate) json_file: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct TokenIdArgs {
    #[command(flatten)]
    pub(crate) on: ChangeArgs,
    /// Number of the token
    #[arg(long, value_name = "N")]
    pub(crate) token_id: u8,
}

#[derive(Args)]
pub(crate) struct TokenSlotArgs {
    #[command(flatten)]
    pub(crate) on: ChangeArgs,
    /// Number of the token
    #[arg(long, value_name = "N")]
    pub(crate) token_id: u8,
    /// Number of the key slot
    #[arg(long, short = 'S', value_name = "N")]
    pub(crate) key_slot: u8,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_a_list_of_known_names() {
        let parse = |text| parse_flags(text).map(|flags| flags.0);
        let discards_and_inline = vec![Flag::AllowDiscards, Flag::NoReadWorkqueue];
        assert_eq!(
            parse("allow-discards,no-read-workqueue,allow-discards"),
            Ok(discards_and_inline)
        );
        assert_eq!(parse("none"), Ok(vec![]));
        assert_eq!(parse(""), Ok(vec![]));
        assert!(parse("discard").unwrap_err().contains("allow-discards, "));
    }
}
