//! Options of all commands that work on a LUKS header.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::storage::WindowArgs;

/// Types of device metadata: versions of LUKS.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LuksType {
    /// LUKS1 or LUKS2; a new volume gets LUKS2
    Luks,
    /// LUKS version 1 only
    Luks1,
    /// LUKS version 2 only
    Luks2,
}

#[derive(Args)]
pub(crate) struct HeaderOnlyArgs {
    /// File, block device, NBD URI or rbd:POOL/IMAGE with the header
    pub(crate) image: PathBuf,
    /// File or device with the detached LUKS header
    #[arg(long, value_name = "FILE")]
    pub(crate) header: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) window: WindowArgs,
}

impl HeaderOnlyArgs {
    /// The file with the header, as the user has named it.
    pub(crate) fn header_path(&self) -> &Path {
        self.header.as_deref().unwrap_or(&self.image)
    }
}

/// Options of every command that changes a header.
#[derive(Args)]
pub(crate) struct ChangeArgs {
    #[command(flatten)]
    pub(crate) on: HeaderOnlyArgs,
    /// Expected type of device metadata
    #[arg(long, short = 'M', value_enum, default_value = "luks")]
    pub(crate) r#type: LuksType,
    /// Do not ask for confirmation
    #[arg(long, short = 'q')]
    pub(crate) batch_mode: bool,
}
