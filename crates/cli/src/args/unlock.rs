//! Options of the commands that unlock a volume.

use std::path::PathBuf;

use clap::Args;

use super::keys::{KeyArgs, TokenKeyArgs, VolumeKeyArgs};
use super::luks::LuksType;
use super::open_volume::{DataPathArg, PerfArgs};
use super::storage::{StorageArgs, WindowArgs};

/// Options that tell where a LUKS volume and its header are, and with which key it is opened.
#[derive(Args)]
pub(crate) struct LuksArgs {
    /// Expected type of device metadata
    #[arg(long, short = 'M', value_enum, default_value = "luks")]
    pub(crate) r#type: LuksType,
    /// File or device with the detached LUKS header
    #[arg(long, value_name = "FILE")]
    pub(crate) header: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) window: WindowArgs,
    /// Try only this key slot
    #[arg(long, short = 'S', value_name = "N")]
    pub(crate) key_slot: Option<u8>,
    /// Number of attempts to enter the passphrase
    #[arg(long, short = 'T', default_value_t = 3, value_name = "N")]
    pub(crate) tries: u32,
    #[command(flatten)]
    pub(crate) key: KeyArgs,
    #[command(flatten)]
    pub(crate) volume_key: VolumeKeyArgs,
    #[command(flatten)]
    pub(crate) token: TokenKeyArgs,
}

/// Options by which a command unlocks a volume and carries out its requests.
#[derive(Args)]
pub(crate) struct UnlockArgs {
    #[command(flatten)]
    pub(crate) luks: LuksArgs,
    /// Open the volume read-only
    #[arg(long, short)]
    pub(crate) readonly: bool,
    /// Allow discard (TRIM) requests, which reveal the unused parts of the volume
    #[arg(long)]
    pub(crate) allow_discards: bool,
    /// Make --allow-discards and the --perf flags persistent in the header, and drop all others (LUKS2)
    #[arg(long, conflicts_with = "readonly")]
    pub(crate) persistent: bool,
    /// Data path of requests: on the thread of the client, through queues as in dm-crypt, or chosen by size and load
    #[arg(long, value_enum, default_value = "auto", value_name = "PATH")]
    pub(crate) data_path: DataPathArg,
    #[command(flatten)]
    pub(crate) perf: PerfArgs,
    #[command(flatten)]
    pub(crate) storage: StorageArgs,
}
