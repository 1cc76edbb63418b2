//! The command line: the one source of help, man page and shell completions.
//!
//! Verbs and option names are those of `cryptsetup(8)` where it has them.

mod bench_paths;
mod bench_serve;
mod headers;
mod keys;
mod running;
mod serve;
mod serving;
mod storage;
mod suggestions;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};

pub(crate) use bench_paths::BenchPathsArgs;
pub(crate) use bench_serve::BenchServeArgs;
pub(crate) use headers::{
    ConfigArgs, ConvertArgs, HeaderBackupArgs, HeaderRestoreArgs, NewTokenArgs, RepairArgs,
    TokenAction, TokenAddArgs, TokenArgs, TokenExportArgs, TokenImportArgs, UuidArgs,
};
pub(crate) use keys::{
    AddKeyArgs, ChangeKeyArgs, ChangeSlotArgs, ConvertKeyArgs, EraseArgs, KeyArgs, KillSlotArgs,
    PbkdfArgs, PbkdfType, RemoveKeyArgs, SealArgs,
};
pub(crate) use running::{
    DataPathArg, OpenNameArgs, PerfArgs, RefreshArgs, ReloadArgs, ResumeArgs, StatsArgs, TableArgs,
};
pub(crate) use serve::{ServeArgs, ServeVolumeArgs};
pub(crate) use serving::ServingArgs;

pub(crate) use storage::{IoEngine, StorageArgs};
pub(crate) use suggestions::without_danger;

use crate::runtime::VolumeName;

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

/// Which LUKS version.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LuksType {
    /// Either version; a new volume is LUKS2
    Luks,
    /// LUKS1
    Luks1,
    /// LUKS2
    Luks2,
}

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

/// Options of a LUKS volume: a table says what they say, or has no place for it.
const TABLE_EXCLUDES: [&str; 18] = [
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

/// Options of a volume that is opened, for one whose passphrase is only tested.
const TEST_EXCLUDES: [&str; 19] = [
    "name",
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
    /// File, block device or NBD URI with the volume; with --table the NAME
    #[arg(value_name = "IMAGE")]
    pub(crate) image: PathBuf,
    /// Name of the open volume
    #[arg(required_unless_present_any = ["test_passphrase", "table"])]
    pub(crate) name: Option<VolumeName>,
    /// LUKS version that is expected
    #[arg(long, short = 'M', value_enum, default_value = "luks")]
    pub(crate) r#type: LuksType,
    /// Refuse writes
    #[arg(long, short)]
    pub(crate) readonly: bool,
    /// Take the header from FILE instead of IMAGE
    #[arg(long, value_name = "FILE")]
    pub(crate) header: Option<PathBuf>,
    /// Try only this key slot
    #[arg(long, short = 'S', value_name = "N")]
    pub(crate) key_slot: Option<u8>,
    /// Pass discards on; shows which parts of the volume are unused
    #[arg(long)]
    pub(crate) allow_discards: bool,
    #[command(flatten)]
    pub(crate) serving: ServingArgs,
    /// Stay in the foreground
    #[arg(long)]
    pub(crate) foreground: bool,
    /// End when process PID does, which has started this one
    #[arg(long, value_name = "PID", requires = "foreground", value_parser = clap::value_parser!(i32).range(1..))]
    pub(crate) end_with_parent: Option<i32>,
    /// Only check the passphrase; nothing is served
    #[arg(long, conflicts_with_all = TEST_EXCLUDES)]
    pub(crate) test_passphrase: bool,
    /// Store --allow-discards and the --perf flags in the header, and no others (LUKS2)
    #[arg(long, conflicts_with_all = ["test_passphrase", "readonly"])]
    pub(crate) persistent: bool,
    /// Run a table from FILE ("-": standard input), or a LINE such as "0 8 zero", instead of a LUKS
    /// header: `open --table FILE NAME`. A line on the command line is visible to others: give one
    /// with a key in a file or on standard input
    #[arg(long, value_name = "FILE|LINE", conflicts_with_all = TABLE_EXCLUDES)]
    pub(crate) table: Option<OsString>,
    /// How often to ask for a passphrase
    #[arg(long, short = 'T', default_value_t = 3, value_name = "N")]
    pub(crate) tries: u32,
    /// Who does the work of a request: the requester, dm-crypt's queues, or the best by size and load
    #[arg(long, value_enum, default_value = "auto", value_name = "PATH")]
    pub(crate) data_path: DataPathArg,
    #[command(flatten)]
    pub(crate) perf: PerfArgs,
    #[command(flatten)]
    pub(crate) storage: StorageArgs,
    #[command(flatten)]
    pub(crate) key: KeyArgs,
}

#[derive(Args)]
pub(crate) struct CloseArgs {
    /// Name of the open volume
    pub(crate) name: VolumeName,
    /// Close even while clients are connected; they are disconnected
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Args)]
pub(crate) struct NameArgs {
    /// Name of the open volume
    pub(crate) name: VolumeName,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct ResizeArgs {
    /// Name of the open volume
    pub(crate) name: VolumeName,
    /// The size that is wanted, in 512-byte sectors (default: as large as the device allows)
    #[arg(long, short = 'b', value_name = "SECTORS")]
    pub(crate) size: Option<u64>,
    /// The size that is wanted, in bytes; K, M, G and T stand for powers of 1024
    #[arg(long, value_parser = parse_size, value_name = "SIZE", conflicts_with = "size")]
    pub(crate) device_size: Option<u64>,
}

#[derive(Args)]
pub(crate) struct ListArgs {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

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
pub(crate) struct HeaderOnlyArgs {
    /// File, block device or NBD URI with the header
    pub(crate) image: PathBuf,
    /// Take the header from FILE instead of IMAGE
    #[arg(long, value_name = "FILE")]
    pub(crate) header: Option<PathBuf>,
}

impl HeaderOnlyArgs {
    pub(crate) fn header_path(&self) -> &Path {
        self.header.as_deref().unwrap_or(&self.image)
    }
}

/// Options of every command that changes a header.
#[derive(Args)]
pub(crate) struct ChangeArgs {
    #[command(flatten)]
    pub(crate) on: HeaderOnlyArgs,
    /// LUKS version that is expected
    #[arg(long, short = 'M', value_enum, default_value = "luks")]
    pub(crate) r#type: LuksType,
    /// Do not ask for confirmation
    #[arg(long, short = 'q')]
    pub(crate) batch_mode: bool,
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
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    pub(crate) what: Bench,
}

/// What can be measured.
#[derive(Subcommand)]
pub(crate) enum Bench {
    /// Key derivation and ciphers: MB/s and cycles a byte, beside memcpy and the processor's limit
    Ciphers(BenchCiphersArgs),
    /// What queues between a request and the cipher cost, on a RAM disk or on FILE
    Paths(BenchPathsArgs),
    /// What TLS costs when a file is served, or how long responses take from a folder and from volumes
    Serve(BenchServeArgs),
}

/// By default cryptsetup's key derivations and those of its ciphers that Scrim has, in 40 seconds.
/// With an option that chooses ciphers no key derivation is measured, and the other way round.
#[derive(Args)]
pub(crate) struct BenchCiphersArgs {
    /// Measure this cipher specification; can be given several times
    #[arg(long, short, value_name = "SPEC")]
    pub(crate) cipher: Vec<String>,
    /// Size of the volume key, and of the derived key, in bits (default: the usual ones, and 256)
    #[arg(long, short = 's', value_name = "BITS")]
    pub(crate) key_size: Option<u32>,
    /// Encryption sector in bytes (default: 512 and 4096)
    #[arg(long, value_name = "BYTES")]
    pub(crate) sector_size: Option<u32>,
    /// Measure this driver instead of the best one (`scrim ciphers` lists them)
    #[arg(long, value_name = "DRIVER")]
    pub(crate) driver: Option<String>,
    /// Measure every mode, size of key and driver, which takes minutes
    #[arg(long)]
    pub(crate) all: bool,
    /// In how many rounds each figure is measured; it is the median
    #[arg(long, value_name = "N", default_value_t = scrim_bench::ROUNDS, value_parser = parse_rounds)]
    pub(crate) rounds: usize,
    /// How long each figure is measured, over all rounds
    #[arg(long, value_name = "S", default_value_t = 0.2, value_parser = parse_seconds)]
    pub(crate) seconds: f64,
    /// Size of the buffer that no cache holds (default: 256M, or twice the largest cache)
    #[arg(long, value_parser = parse_size, value_name = "SIZE")]
    pub(crate) memory: Option<u64>,
    /// Measure PBKDF2 with this hash
    #[arg(long, short = 'h')]
    pub(crate) hash: Option<String>,
    /// Measure this key derivation
    #[arg(long, value_enum)]
    pub(crate) pbkdf: Option<PbkdfType>,
    /// How long Argon2 is to take, in milliseconds
    #[arg(long, short = 'i', default_value_t = 2000, value_name = "MS")]
    pub(crate) iter_time: u32,
    /// Most memory for Argon2, in KiB
    #[arg(long, value_name = "KIB")]
    pub(crate) pbkdf_memory: Option<u32>,
    /// Threads for Argon2
    #[arg(long, value_name = "N")]
    pub(crate) pbkdf_parallel: Option<u32>,
    /// Print JSON, as one line
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

fn parse_rounds(text: &str) -> Result<usize, &'static str> {
    let rounds = text.parse().ok();
    rounds
        .filter(|rounds| (1..=1000).contains(rounds))
        .ok_or("give a number from 1 to 1000")
}

fn parse_seconds(text: &str) -> Result<f64, &'static str> {
    let seconds = text.parse().ok();
    seconds
        .filter(|seconds| (0.001..=3600.0).contains(seconds))
        .ok_or("give a number from 0.001 to 3600")
}

/// A size in bytes, with an optional suffix for a power of 1024.
fn parse_size(text: &str) -> Result<u64, String> {
    let usage = || "give a number of bytes, or one with K, M, G or T, like 512M".to_owned();
    let upper = text.to_ascii_uppercase();
    let short = upper.trim_end_matches("IB").trim_end_matches('B');
    let (digits, shift) = match short.char_indices().next_back() {
        Some((at, 'K')) => (&short[..at], 10),
        Some((at, 'M')) => (&short[..at], 20),
        Some((at, 'G')) => (&short[..at], 30),
        Some((at, 'T')) => (&short[..at], 40),
        _ => (short, 0),
    };
    let number: u64 = digits.parse().map_err(|_| usage())?;
    number
        .checked_mul(1 << shift)
        .filter(|&size| size <= i64::MAX as u64)
        .ok_or_else(|| "the size is larger than any file can be".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn measurements_have_bounds() {
        assert_eq!(parse_rounds("15"), Ok(15));
        assert_eq!(parse_seconds("0.25"), Ok(0.25));
        for wrong in ["", "0", "-1", "1001", "x"] {
            assert!(parse_rounds(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "0", "-1", "inf", "NaN", "4000", "1s"] {
            assert!(parse_seconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_have_suffixes() {
        assert_eq!(parse_size("1G"), Ok(1 << 30));
        assert_eq!(parse_size("512MiB"), Ok(512 << 20));
        assert_eq!(parse_size("12345"), Ok(12345));
        for wrong in ["", "G", "1X", "-1", "1.5G", "99999999999T"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }
}
