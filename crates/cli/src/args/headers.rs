//! Options of the commands that save, mend and change headers.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use scrim_luks::{Flag, Priority};

use super::keys::KeyArgs;
use super::luks::{ChangeArgs, HeaderOnlyArgs, LuksType};

#[derive(Args)]
pub(crate) struct DumpArgs {
    #[command(flatten)]
    pub(crate) on: HeaderOnlyArgs,
    /// Print JSON
    #[arg(long, visible_alias = "dump-json-metadata")]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct TestArgs {
    #[command(flatten)]
    pub(crate) on: HeaderOnlyArgs,
    /// Try only this key slot
    #[arg(long, short = 'S', value_name = "N")]
    pub(crate) key_slot: Option<u8>,
    /// How often to ask for a passphrase
    #[arg(long, short = 'T', default_value_t = 3, value_name = "N")]
    pub(crate) tries: u32,
    #[command(flatten)]
    pub(crate) key: KeyArgs,
}

#[derive(Args)]
pub(crate) struct IsLuksArgs {
    #[command(flatten)]
    pub(crate) on: HeaderOnlyArgs,
    /// LUKS version that is expected
    #[arg(long, short = 'M', value_enum, default_value = "luks")]
    pub(crate) r#type: LuksType,
    /// Say what was found
    #[arg(long, short)]
    pub(crate) verbose: bool,
}

#[derive(Args)]
pub(crate) struct HeaderBackupArgs {
    #[command(flatten)]
    pub(crate) on: HeaderOnlyArgs,
    /// The file to make, which must not exist
    #[arg(long, value_name = "FILE")]
    pub(crate) header_backup_file: PathBuf,
    /// Taken for cryptsetup's sake; there is nothing to ask
    #[arg(long, short = 'q', hide = true)]
    pub(crate) batch_mode: bool,
}

#[derive(Args)]
pub(crate) struct HeaderRestoreArgs {
    #[command(flatten)]
    pub(crate) on: HeaderOnlyArgs,
    /// The file that `header-backup` or `cryptsetup luksHeaderBackup` made
    #[arg(long, value_name = "FILE")]
    pub(crate) header_backup_file: PathBuf,
    /// Keep what is overwritten in FILE (default: beside the backup, as BACKUP.replaced-UUID)
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
    /// When --key-slot is tried: only when it is named, in turn, or before all others
    #[arg(long, value_enum, requires = "key_slot", group = "setting")]
    pub(crate) priority: Option<SlotPriority>,
    /// The key slot that gets the priority
    #[arg(long, short = 'S', value_name = "N", requires = "priority")]
    pub(crate) key_slot: Option<u8>,
    /// Set the label; "" takes it away
    #[arg(long, group = "setting")]
    pub(crate) label: Option<String>,
    /// Set the subsystem; "" takes it away
    #[arg(long, group = "setting")]
    pub(crate) subsystem: Option<String>,
    /// Open with these flags from now on and with no others, for example
    /// allow-discards,no-read-workqueue; "none" takes all away
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
            format!("{name} is no flag; there are {names}, and none")
        };
        let flag = Flag::from_name(name).ok_or_else(known)?;
        if !flags.contains(&flag) {
            flags.push(flag);
        }
    }
    Ok(Flags(flags))
}

/// When a key slot is tried.
#[derive(ValueEnum, Clone, Copy)]
pub(crate) enum SlotPriority {
    /// Only when it is named
    Ignore,
    /// In turn
    Normal,
    /// Before all others
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
    /// The version to convert to
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
    /// Give the volume this UUID
    #[arg(long)]
    pub(crate) uuid: Option<String>,
}

#[derive(Args)]
pub(crate) struct TokenArgs {
    #[command(subcommand)]
    pub(crate) action: TokenAction,
}

/// What is done with a token.
#[derive(Subcommand)]
pub(crate) enum TokenAction {
    /// Add a token that finds a passphrase in the kernel's keyring
    Add(TokenAddArgs),
    /// Remove a token; the key slots that it names stay
    Remove(TokenIdArgs),
    /// Store a token from JSON, of whatever type
    Import(TokenImportArgs),
    /// Print a token as JSON
    Export(TokenExportArgs),
    /// Have a token name a key slot that its passphrase opens
    Assign(TokenSlotArgs),
    /// Have a token no longer name a key slot
    Unassign(TokenSlotArgs),
}

/// Where a new token goes.
#[derive(Args)]
pub(crate) struct NewTokenArgs {
    /// The number of the token (default: the first free one)
    #[arg(long, value_name = "N")]
    pub(crate) token_id: Option<u8>,
    /// Replace the token that has this number
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
    /// The key slot that the passphrase opens (default: every one with the volume key)
    #[arg(long, short = 'S', value_name = "N")]
    pub(crate) key_slot: Option<u8>,
    /// Name no key slot
    #[arg(long, conflicts_with = "key_slot")]
    pub(crate) unbound: bool,
    #[command(flatten)]
    pub(crate) new: NewTokenArgs,
}

#[derive(Args)]
pub(crate) struct TokenImportArgs {
    #[command(flatten)]
    pub(crate) on: ChangeArgs,
    /// Read the token from FILE (default: standard input)
    #[arg(long, value_name = "FILE")]
    pub(crate) json_file: Option<PathBuf>,
    /// Have it name this key slot too
    #[arg(long, short = 'S', value_name = "N")]
    pub(crate) key_slot: Option<u8>,
    #[command(flatten)]
    pub(crate) new: NewTokenArgs,
}

#[derive(Args)]
pub(crate) struct TokenExportArgs {
    #[command(flatten)]
    pub(crate) on: HeaderOnlyArgs,
    /// The number of the token
    #[arg(long, value_name = "N")]
    pub(crate) token_id: u8,
    /// Write the token to FILE (default: standard output)
    #[arg(long, value_name = "FILE")]
    pub(crate) json_file: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct TokenIdArgs {
    #[command(flatten)]
    pub(crate) on: ChangeArgs,
    /// The number of the token
    #[arg(long, value_name = "N")]
    pub(crate) token_id: u8,
}

#[derive(Args)]
pub(crate) struct TokenSlotArgs {
    #[command(flatten)]
    pub(crate) on: ChangeArgs,
    /// The number of the token
    #[arg(long, value_name = "N")]
    pub(crate) token_id: u8,
    /// The key slot
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
