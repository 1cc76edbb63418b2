//! The command line: the one source of help, man page and shell completions.
//!
//! Verbs and option names are those of `cryptsetup(8)` where it has them.

mod advise;
mod bench;
mod bench_fileserver;
mod bench_paths;
mod bench_serve;
mod cryptsetup;
mod files;
mod format;
mod fstab;
mod headers;
mod https;
mod invocation;
mod kernel_key;
mod keys;
mod luks;
mod mount;
mod nbd;
mod numbers;
mod open;
mod open_volume;
mod plain;
mod storage;
mod suggestions;
mod tune;
mod unlock;
mod volume_name;

use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand};

pub(crate) use advise::AdviseArgs;
pub(crate) use bench::{Bench, BenchArgs, BenchCiphersArgs};
pub(crate) use bench_fileserver::BenchFileserverArgs;
pub(crate) use bench_paths::{BenchEngineArg, BenchPathsArgs};
pub(crate) use bench_serve::BenchServeArgs;
pub(crate) use cryptsetup::{Manners, tables as cryptsetup_tables};
pub(crate) use files::{CatArgs, CpArgs, FileArgs, LsArgs};
pub(crate) use format::{EncryptArgs, ExportArgs, FormatArgs, ImportArgs, PackArgs};
pub(crate) use headers::{
    ConfigArgs, ConvertArgs, DumpArgs, HeaderBackupArgs, HeaderRestoreArgs, IsLuksArgs,
    NewTokenArgs, RepairArgs, TestArgs, TokenAction, TokenAddArgs, TokenArgs, TokenExportArgs,
    TokenImportArgs, UuidArgs,
};
pub(crate) use https::{ServeArgs, ServeVolumeArgs};
pub(crate) use invocation::Invocation;
pub(crate) use kernel_key::{KernelKey, KeyLink, Keyring};
pub(crate) use keys::{
    AddKeyArgs, ChangeKeyArgs, ChangeSlotArgs, ConvertKeyArgs, EraseArgs, KeyArgs,
    KeyslotCipherArgs, KillSlotArgs, NewKeyArgs, PbkdfArgs, PbkdfType, RemoveKeyArgs, SealArgs,
    TokenKeyArgs, VolumeKeyArgs,
};
pub(crate) use luks::{ChangeArgs, HeaderOnlyArgs, LuksType};
pub(crate) use mount::{MountArgs, MountMethod, UmountArgs};
pub(crate) use nbd::ServingArgs;
pub(crate) use open::OpenArgs;
pub(crate) use open_volume::{
    CloseArgs, DataPathArg, EngineArg, KeyAgainArgs, ListArgs, LuksResumeArgs, NameArgs,
    OpenNameArgs, RefreshArgs, ReloadArgs, ResizeArgs, ResumeArgs, SnapshotArgs, StatsArgs,
    TableArgs,
};
pub(crate) use plain::PlainOpenArgs;
pub(crate) use storage::{DirectIo, IoEngine, StorageArgs, WindowArgs};
pub(crate) use suggestions::without_danger;
pub(crate) use tune::TuneArgs;
pub(crate) use unlock::{LuksArgs, UnlockArgs};
pub(crate) use volume_name::VolumeName;

/// Opens LUKS volumes without root and serves their plaintext as block devices over NBD.
#[derive(Parser)]
#[command(name = "scrim", version, max_term_width = 100, after_help = EXIT_CODES)]
#[command(disable_help_flag = true)]
pub(crate) struct Cli {
    /// Print this help text
    // As in cryptsetup, where -h is --hash.
    #[arg(long, short = '?', action = ArgAction::Help, global = true)]
    help: Option<bool>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXIT_CODES: &str = "\
`scrim cryptsetup …`, or a link of that name to this program, takes cryptsetup's own command line, for scripts.

Exit codes: 0 done, 1 wrong parameters, 2 wrong passphrase or key, 3 out of memory, \
4 wrong device or file, 5 exists already or is in use; an interrupted measurement, transfer or \
copy keeps its results so far and exits with 128 + signal, so 130 after Ctrl-C.";

const SECTOR_SIZE_OF_DATA: &str = "Encryption sector size in bytes (LUKS2; default: 512 unless the data is known to \
be in 4096-byte blocks)";

const SIZE_OF_PACK: &str = "Size of IMAGE in bytes; K, M, G and T stand for powers of 1024 (default: as the files need, \
with a tenth and at least 16 MiB free)";

const NEW_IMAGE: &str = "File to create, not a device; it gets its name once it is complete";

const PACK: &str = "\
mke2fs makes the file system on the plaintext of the volume, as one file over FUSE, or in memory where FUSE cannot be used. \
Plaintext never lies on a disk. After an interruption nothing is left; give the command again.";

const SERVING: &str = "\
SIGTERM closes the volume cleanly; SIGHUP resizes it to match its device, or closes it if --foreground runs \
at a terminal. Sockets that a service manager passes (LISTEN_FDS) are used instead of --nbd; giving both is an error. \
In the foreground, open tells the manager when clients can connect (NOTIFY_SOCKET).";

const SERVE: &str = "\
SIGTERM and Ctrl-C end the server once all requests in flight are answered. SIGHUP reloads sites and certificates \
and reopens the access log; no connection is lost. At a terminal, SIGHUP ends the server. SIGUSR1 makes health checks \
get 503, SIGUSR2 takes that back. Sockets that a service manager passes (LISTEN_FDS) replace \
--listen.";

const PLAIN_OPEN: &str = "\
Nothing tells a wrong cipher, key or passphrase: the volume opens, and reads as noise. Cipher, key size and hash have no \
defaults, for those of cryptsetup differ between its versions: aes-cbc-essiv:sha256, 256 and ripemd160 up to 2.6, \
aes-xts-plain64, 256 and sha256 since 2.7.";

const MOUNT: &str = "\
Root gets the kernel's own file system, by a loop device on the plaintext. Without root, ext2, ext3 and ext4 are mounted by \
fuse2fs, NTFS by ntfs-3g, exFAT by mount.exfat-fuse and SquashFS by squashfuse; the command says which. \
A name that no file has is that of an open volume. SIGTERM and Ctrl-C (with --foreground) unmount.";

const RELOAD: &str = "\
Without FILE or --table, the table is read from standard input. Every user of the machine can see a command line, \
so pass a table with a key through a pipe: `scrim table NAME --showkeys | sed … | scrim reload NAME`. The active \
table does not change before `scrim resume NAME`.";

const LUKS_SUSPEND: &str = "\
No key in memory can decrypt the volume until `scrim resume` gets the passphrase; requests of clients wait. Data that \
clients have already read stays in their memory. A loaded table is dropped. If the volume is closed before it is \
resumed, waiting requests fail.";

const SNAPSHOT: &str = "\
Everything that was written is flushed first, and file systems that the kernel has mounted by `scrim mount` are frozen, so \
that COMMAND, such as `rbd snap create` or `lvcreate -s`, sees storage on which nothing is half done. Requests go on when \
COMMAND ends, after --hold-limit at the latest, and also when this command is killed. COMMAND finds the volume's name in \
SCRIM_NAME and its storage in SCRIM_DEVICE, and reads nothing from the terminal. The exit code is COMMAND's own if it \
fails, 4 if the time was over, and 5 if requests were not held until its end.";

const REFRESH: &str = "\
The given flags replace those of the active table. As in cryptsetup, persistent flags in the LUKS2 header apply \
too, unless --persistent replaces them. The passphrase is asked for only where the kernel runs the volume and its key is \
in a keyring (`status` says so).";

const TUNE: &str = "\
On a volume that the kernel runs, these are dm-crypt's flags; on one of Scrim's own engine, its data paths. Requests go on \
throughout, and the volume has its old settings afterwards, unless --apply is given. If tune is killed, `tune NAME --undo` or \
the next tune goes back.";

const LS: &str = "\
Names are in the order of their bytes, except in folders with more than 65,536, which come in the order of the disk. \
Owners are numbers, and times are in UTC.";

const CP: &str = "\
Permissions and times are kept, holes stay holes, and names of one file stay names of one file. A symbolic link that you \
name is followed; others are copied as links. Device nodes, pipes, sockets and extended attributes are left out, and \
named. After an interruption, give the same command again: files that are whole are not copied twice.";

const DOCTOR: &str = "\
The checks need no root and change nothing; they do not load the kernel modules tls and nbd. A missing feature does \
not change the exit code: scripts read `missing` and each finding's `state` in --json (docs/doctor.schema.json).";

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Create a new LUKS volume without a file system (`pack` makes one with); all data on IMAGE is lost
    #[command(visible_alias = "luksFormat")]
    Format(FormatArgs),
    /// Unlock a volume, and serve its plaintext over NBD or make it a block device of the kernel
    #[command(visible_aliases = ["luksOpen"], after_help = SERVING)]
    Open(OpenArgs),
    /// Open a volume of dm-crypt's plain format, which has no header, by its cipher and key
    #[command(name = "plainOpen", visible_alias = "plain-open", after_help = PLAIN_OPEN)]
    PlainOpen(PlainOpenArgs),
    /// Unlock a volume and mount its file system, without root where that is possible
    #[command(after_help = MOUNT)]
    Mount(MountArgs),
    /// Unmount a volume, and close it if `mount` has opened it
    Umount(UmountArgs),
    /// Make a new LUKS volume with an ext4 file system from a folder, without root
    #[command(mut_arg("image", |arg| arg.index(2).help(NEW_IMAGE)))]
    #[command(mut_arg("positional_key", |arg| arg.index(3)))]
    #[command(mut_arg("size", |arg| arg.help(SIZE_OF_PACK)), mut_arg("header", |arg| arg.hide(true)))]
    #[command(mut_arg("image_offset", |arg| arg.hide(true)), mut_arg("image_size", |arg| arg.hide(true)))]
    #[command(mut_arg("sector_size", |arg| arg.help("Encryption sector size in bytes (LUKS2; default: 4096)")))]
    #[command(mut_arg("batch_mode", |arg| arg.help("Replace IMAGE without confirmation")))]
    #[command(after_help = PACK)]
    Pack(PackArgs),
    /// Encrypt a raw image into a new LUKS volume
    #[command(mut_arg("image", |arg| arg.index(2).help(NEW_IMAGE)))]
    #[command(mut_arg("positional_key", |arg| arg.index(3)))]
    #[command(mut_arg("size", |arg| arg.hide(true)), mut_arg("header", |arg| arg.hide(true)))]
    #[command(mut_arg("image_offset", |arg| arg.hide(true)), mut_arg("image_size", |arg| arg.hide(true)))]
    #[command(mut_arg("sector_size", |arg| arg.help(SECTOR_SIZE_OF_DATA)))]
    #[command(mut_arg("batch_mode", |arg| arg.help("Replace IMAGE and an unfinished import, without confirmation")))]
    Import(ImportArgs),
    /// Decrypt a volume into a raw image
    Export(ExportArgs),
    /// Encrypt a raw image or device in place; run the command again to continue after an interruption
    #[command(mut_arg("image", |arg| arg.index(1).help("File or block device with the data to encrypt")))]
    #[command(mut_arg("positional_key", |arg| arg.index(2)))]
    #[command(mut_arg("size", |arg| arg.hide(true)), mut_arg("header", |arg| arg.hide(true)))]
    #[command(mut_arg("image_offset", |arg| arg.hide(true)), mut_arg("image_size", |arg| arg.hide(true)))]
    #[command(mut_arg("sector_size", |arg| arg.help(SECTOR_SIZE_OF_DATA)))]
    Encrypt(EncryptArgs),
    /// Flush a volume and close it
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
    /// Suspend I/O of an open volume; its key stays in memory
    Suspend(OpenNameArgs),
    /// Suspend I/O of an open LUKS volume and wipe its key from memory
    #[command(name = "luksSuspend", visible_alias = "luks-suspend", after_help = LUKS_SUSPEND)]
    LuksSuspend(OpenNameArgs),
    /// Resume a suspended volume, and activate the loaded table, if any; asks for the passphrase after
    /// luksSuspend
    Resume(ResumeArgs),
    /// Resume a volume after luksSuspend; asks for its passphrase
    #[command(name = "luksResume", visible_alias = "luks-resume")]
    LuksResume(LuksResumeArgs),
    /// Hold I/O of an open volume while a command takes a snapshot of its storage
    #[command(after_help = SNAPSHOT)]
    Snapshot(SnapshotArgs),
    /// Drop the loaded table of an open volume
    Clear(OpenNameArgs),
    /// Change the flags or the data path of an open volume, without interrupting its requests
    #[command(after_help = REFRESH)]
    Refresh(RefreshArgs),
    /// Measure which flags or data path suit an open volume's storage, while it is in use
    #[command(after_help = TUNE)]
    Tune(TuneArgs),
    /// Show request counts and latencies of an open volume
    Stats(StatsArgs),
    /// List this user's open volumes, and for root the encrypted volumes of the kernel
    List(ListArgs),
    /// Serve files over HTTPS from a directory or a volume
    #[command(after_help = SERVE)]
    Serve(ServeArgs),
    /// List files of the file system in a volume, without mounting it
    #[command(mut_arg("keyfile_size", |arg| arg.short(None)), after_help = LS)]
    Ls(LsArgs),
    /// Print a file of the file system in a volume, without mounting it
    Cat(CatArgs),
    /// Copy a file or folder out of the file system in a volume, without mounting it
    #[command(after_help = CP)]
    Cp(CpArgs),
    /// Show a LUKS header
    #[command(visible_alias = "luksDump")]
    Dump(DumpArgs),
    /// Check a passphrase or key file without opening anything
    TestPassphrase(TestArgs),
    /// Check IMAGE for a LUKS header; the exit code is 0 if it has one
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
    /// Erase all key slots; the volume cannot be opened any more
    #[command(visible_alias = "luksErase")]
    Erase(EraseArgs),
    /// Back up the header and its key slots to a file
    #[command(visible_alias = "luksHeaderBackup")]
    HeaderBackup(HeaderBackupArgs),
    /// Restore a header from a backup, and keep a copy of the header that it replaces
    #[command(visible_alias = "luksHeaderRestore")]
    HeaderRestore(HeaderRestoreArgs),
    /// Show damage to a header, and repair it where possible
    Repair(RepairArgs),
    /// Change the label, the subsystem, persistent flags or a key slot's priority
    Config(ConfigArgs),
    /// Convert a header from LUKS1 to LUKS2 or back
    Convert(ConvertArgs),
    /// Add, remove, import, export and assign tokens
    Token(TokenArgs),
    /// Check this machine for CPU and kernel features that Scrim uses, and show the cost of missing ones
    #[command(after_help = DOCTOR)]
    Doctor(DoctorArgs),
    /// Print what helps to find a fault, without secrets: versions, doctor, open volumes, headers and log, as JSON
    Support(SupportArgs),
    /// Recommend a cipher, key, sector, key derivation and flags for a new volume, with the evidence
    Advise(AdviseArgs),
    /// List cipher implementations, or show the one that a cipher specification selects on this machine
    Ciphers(CiphersArgs),
    /// Measure the cost of encryption on this machine
    Bench(BenchArgs),
    /// Measure ciphers and key derivations, with the options of `cryptsetup benchmark`
    Benchmark(BenchCiphersArgs),
    /// Write the man pages, or print the tables of cryptsetup's options or a shell's completions
    #[command(hide = true)]
    Generate(GenerateArgs),
}

#[derive(Args)]
pub(crate) struct DoctorArgs {
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct SupportArgs {
    /// Images whose headers to add, without salts, digests and the contents of tokens
    #[arg(value_name = "IMAGE")]
    pub(crate) images: Vec<PathBuf>,
}

#[derive(Args)]
pub(crate) struct CiphersArgs {
    /// Cipher specification: show its implementation on this machine, and the reason for it
    #[arg(value_name = "SPEC")]
    pub(crate) spec: Option<String>,
    /// Check that SPEC supports a volume key of this size
    #[arg(long, short = 's', value_name = "BITS", requires = "spec")]
    pub(crate) key_size: Option<u32>,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct GenerateArgs {
    /// Text to make of the command line's definition
    #[command(subcommand)]
    pub(crate) what: Generated,
}

/// Texts that are generated from the definition of the command line.
#[derive(Subcommand)]
pub(crate) enum Generated {
    /// Write a man page for the program and one for each command
    Man {
        /// Folder for the pages
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },
    /// Print the tables of docs/compatibility.md
    Compatibility,
    /// Print the completion script for bash
    Bash,
    /// Print the completion script for zsh
    Zsh,
    /// Print the completion script for fish
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
