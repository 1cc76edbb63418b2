//! Options of `scrim advise`.

use std::path::PathBuf;

use clap::Args;

/// Measures ciphers, key derivation and the storage for some ten seconds. A directory gets a temporary file of at most
/// 256 MiB; a device is only read.
#[derive(Args)]
pub(crate) struct AdviseArgs {
    /// Directory that an image is to lie in, or the block device of the volume
    #[arg(value_name = "DIR|DEVICE", default_value = ".")]
    pub(crate) place: PathBuf,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}
