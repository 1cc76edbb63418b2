//! Options of all commands that work on a LUKS header.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

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
