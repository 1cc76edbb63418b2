//! The command line: the one source of help, man page and shell completions.
//!
//! Verbs and option names are those of `cryptsetup(8)` where it has them.

mod bench;
mod bench_paths;
mod bench_serve;
mod format;
mod headers;
mod https;
mod keys;
mod luks;
mod nbd;
mod numbers;
mod open;
mod open_volume;
mod storage;
mod suggestions;
mod volume_name;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};

pub(crate) use bench::{Bench, BenchArgs, BenchCiphersArgs};
pub(crate) use bench_paths::BenchPathsArgs;
pub(crate) use bench_serve::BenchServeArgs;
pub(crate) use format::{EncryptArgs, ExportArgs, FormatArgs, ImportArgs};
pub(crate) use headers::{
    ConfigArgs, ConvertArgs, DumpArgs, HeaderBackupArgs, HeaderRestoreArgs, IsLuksArgs,
    NewTokenArgs, RepairArgs, TestArgs, TokenAction, TokenAddArgs, TokenArgs, TokenExportArgs,
    TokenImportArgs, UuidArgs,
};
pub(crate) use https::{ServeArgs, ServeVolumeArgs};
pub(crate) use keys::{
    AddKeyArgs, ChangeKeyArgs, ChangeSlotArgs, ConvertKeyArgs, EraseArgs, KeyArgs, KillSlotArgs,
    NewKeyArgs, PbkdfArgs, PbkdfType, RemoveKeyArgs, SealArgs,
};
pub(crate) use luks::{ChangeArgs, HeaderOnlyArgs, LuksType};
pub(crate) use nbd::ServingArgs;
pub(crate) use open::OpenArgs;
pub(crate) use open_volume::{
    CloseArgs, ListArgs, NameArgs, OpenNameArgs, RefreshArgs, ReloadArgs, ResizeArgs, ResumeArgs,
    StatsArgs, TableArgs,
};
pub(crate) use storage::{DirectIo, IoEngine, StorageArgs};
pub(crate) use suggestions::without_danger;
pub(crate) use volume_name::VolumeName;

/// Opens LUKS volumes without root and serves their plaintext as block devices over NBD.
#[derive(Parser)]
#[command(name = "scrim", version, max_term_width = 100, after_help = EXIT_CODES)]
#[command(disable_help_flag = true)]
pub(crate) struct Cli {
    /// Print help
    // As in cryptsetup, where -h is --hash.
    #[arg(long, short = '?', action = ArgAction::Help, global = true)]
    help: Option<bool>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXIT_CODES: &str = "\
Exit codes: 0 done, 1 wrong parameters, 2 wrong passphrase or key, 3 out of memory, \
4 wrong device or file, 5 exists already or is in use; a measurement or transfer that was interrupted \
keeps what it has and gives 128 + signal, so 130 after Ctrl-C.";

const SERVING: &str = "\
SIGTERM closes the volume in order; SIGHUP resizes it to match its device, and closes it where --foreground \
is at a terminal. Sockets that a service manager passes (LISTEN_FDS) replace --nbd; in the foreground, open tells \
the manager when clients can connect (NOTIFY_SOCKET).";

const SERVE: &str = "\
SIGTERM and Ctrl-C end it once the requests under way are answered; SIGHUP reads sites and certificates \
again and opens the access log again, and no connection is lost by it. Where a service manager hands sockets \
on (LISTEN_FDS), they are served on in place of --listen.";

const RELOAD: &str = "\
A table is read from standard input, where no FILE or LINE is given. It has a key: what is on a command line \
is visible to every user of the machine, so `scrim table NAME --showkeys | sed … | scrim reload NAME` is the \
way for a line with one. Nothing changes before `scrim resume NAME`.";

const LUKS_SUSPEND: &str = "\
Nothing in memory can decrypt the volume then, until `scrim resume` gets the passphrase; clients wait. What they \
have read already stays with them. A loaded table is dropped. Closed before that, the volume has its clients' \
waiting requests fail.";

const REFRESH: &str = "\
The flags that are given replace those that the table has. Flags that the LUKS2 header stores count as well, \
unless --persistent replaces them, as in cryptsetup.";

const DOCTOR: &str = "\
Nothing needs root and nothing is changed; the modules tls and nbd are not loaded by it. What is missing does not change \
the exit code: scripts read `missing` and each finding's `state` in --json (docs/doctor.schema.json).";

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Make a new LUKS volume; what IMAGE held is lost
    #[command(visible_alias = "luksFormat")]
    Format(FormatArgs),
    /// Unlock a volume and serve its plaintext over NBD
    #[command(visible_aliases = ["luksOpen"], after_help = SERVING)]
    Open(OpenArgs),
    /// Encrypt a raw image into a new LUKS volume
    #[command(mut_arg("image", |arg| arg.index(2).help("File to make; named so once it is whole")))]
    #[command(mut_arg("positional_key", |arg| arg.index(3)))]
    #[command(mut_arg("size", |arg| arg.hide(true)), mut_arg("header", |arg| arg.hide(true)))]
    #[command(mut_arg("batch_mode", |arg| arg.help("Replace IMAGE, and what is left of an import")))]
    Import(ImportArgs),
    /// Decrypt a volume into a raw image
    Export(ExportArgs),
    /// Encrypt a raw image or device in place; give the command again to continue after an interruption
    #[command(mut_arg("image", |arg| arg.index(1).help("File or block device with data, which becomes a volume")))]
    #[command(mut_arg("positional_key", |arg| arg.index(2)))]
    #[command(mut_arg("size", |arg| arg.hide(true)), mut_arg("header", |arg| arg.hide(true)))]
    Encrypt(EncryptArgs),
    /// Flush a volume, stop serving it and end its process
    #[command(visible_alias = "luksClose")]
    Close(CloseArgs),
    /// Show the state of an open volume
    Status(NameArgs),
    /// Resize an open volume to match its device, or to --size
    Resize(ResizeArgs),
    /// Print an open volume's device-mapper table
    Table(TableArgs),
    /// Load a table beside the active one; `resume` activates it
    #[command(visible_alias = "load", after_help = RELOAD)]
    Reload(ReloadArgs),
    /// Hold an open volume's requests; its key stays in memory
    Suspend(OpenNameArgs),
    /// Hold an open LUKS volume's requests, and destroy its key in memory
    #[command(name = "luksSuspend", visible_alias = "luks-suspend", after_help = LUKS_SUSPEND)]
    LuksSuspend(OpenNameArgs),
    /// Resume an open volume, with the loaded table if there is one; asks for the passphrase after
    /// luksSuspend
    Resume(ResumeArgs),
    /// Ask for the passphrase of a volume after luksSuspend, and resume it
    #[command(name = "luksResume", visible_alias = "luks-resume")]
    LuksResume(ResumeArgs),
    /// Drop the loaded table of an open volume
    Clear(OpenNameArgs),
    /// Change flags or data path of an open volume, at once and without a passphrase
    #[command(after_help = REFRESH)]
    Refresh(RefreshArgs),
    /// Show an open volume's requests and their latencies
    Stats(StatsArgs),
    /// List open volumes
    List(ListArgs),
    /// Serve files over HTTPS, from a directory or out of a volume
    #[command(after_help = SERVE)]
    Serve(ServeArgs),
    /// Show a LUKS header
    #[command(visible_alias = "luksDump")]
    Dump(DumpArgs),
    /// Check a passphrase or key file without opening anything
    TestPassphrase(TestArgs),
    /// Check whether IMAGE has a LUKS header, for scripts: the exit code tells
    #[command(name = "isLuks", visible_alias = "is-luks")]
    IsLuks(IsLuksArgs),
    /// Print the UUID of a LUKS header, or change it
    #[command(name = "luksUUID", visible_alias = "luks-uuid")]
    LuksUuid(UuidArgs),
    /// Add a passphrase or key file
    #[command(visible_alias = "luksAddKey")]
    AddKey(AddKeyArgs),
    /// Change a passphrase or key file
    #[command(visible_alias = "luksChangeKey")]
    ChangeKey(ChangeKeyArgs),
    /// Change the key derivation or cipher of a key slot; its passphrase stays the same
    #[command(visible_alias = "luksConvertKey")]
    ConvertKey(ConvertKeyArgs),
    /// Remove the key slot that a passphrase or key file opens
    #[command(visible_alias = "luksRemoveKey")]
    RemoveKey(RemoveKeyArgs),
    /// Remove a key slot by its number
    #[command(visible_alias = "luksKillSlot")]
    KillSlot(KillSlotArgs),
    /// Remove all key slots: nobody can open the volume any more
    #[command(visible_alias = "luksErase")]
    Erase(EraseArgs),
    /// Save the header and its key slots in a file
    #[command(visible_alias = "luksHeaderBackup")]
    HeaderBackup(HeaderBackupArgs),
    /// Restore a saved header, and keep a copy of the one that it replaces
    #[command(visible_alias = "luksHeaderRestore")]
    HeaderRestore(HeaderRestoreArgs),
    /// Show what is wrong with a header, and repair what can be repaired
    Repair(RepairArgs),
    /// Change the label, the subsystem, persistent flags or a key slot's priority
    Config(ConfigArgs),
    /// Convert a header from LUKS1 to LUKS2 or back
    Convert(ConvertArgs),
    /// Add, remove, import, export and assign tokens
    Token(TokenArgs),
    /// Show what this machine offers, and what each missing thing costs
    #[command(after_help = DOCTOR)]
    Doctor(DoctorArgs),
    /// List the implementations of ciphers, and the one that a specification selects on this machine
    Ciphers(CiphersArgs),
    /// Measure what encryption costs on this machine
    Bench(BenchArgs),
    /// Measure ciphers and key derivations, with the options of `cryptsetup benchmark`
    Benchmark(BenchCiphersArgs),
    /// Print the man page, or a shell's completions
    #[command(hide = true)]
    Generate(GenerateArgs),
}

#[derive(Args)]
pub(crate) struct DoctorArgs {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct CiphersArgs {
    /// Show what computes this cipher specification, and why
    #[arg(value_name = "SPEC")]
    pub(crate) spec: Option<String>,
    /// Check that SPEC takes a volume key of this size
    #[arg(long, short = 's', value_name = "BITS", requires = "spec")]
    pub(crate) key_size: Option<u32>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct GenerateArgs {
    /// What to print
    #[arg(value_enum)]
    pub(crate) what: Generated,
}

/// What can be generated from the command line's definition.
#[derive(ValueEnum, Clone, Copy)]
pub(crate) enum Generated {
    /// The man page
    Man,
    /// Completions for bash
    Bash,
    /// Completions for zsh
    Zsh,
    /// Completions for fish
    Fish,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }
}
