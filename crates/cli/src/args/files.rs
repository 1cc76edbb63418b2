//! Options of the commands that show and copy files of a volume.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::unlock::LuksArgs;

/// A file in a volume, and the options for opening the volume.
#[derive(Args)]
pub(crate) struct FileArgs {
    /// File or folder in a volume: a file, block device, NBD URI or rbd:POOL/IMAGE, or the name of an open volume; then
    /// ":" and the path in its file system, from "/" on
    #[arg(value_name = "IMAGE:/PATH", index = 1)]
    pub(crate) file: OsString,
    #[command(flatten)]
    pub(crate) luks: LuksArgs,
}

#[derive(Args)]
pub(crate) struct LsArgs {
    #[command(flatten)]
    pub(crate) on: FileArgs,
    /// Show type, permissions, links, owner, group, size and time, and the targets of symbolic links
    // A listing needs the letter more often than a key file's size does.
    #[arg(long = "long", short = 'l')]
    pub(crate) is_long: bool,
    /// Also show the folder itself (.) and its parent (..); names that begin with a dot are always shown
    #[arg(long, short)]
    pub(crate) all: bool,
    /// Show a folder itself, not its files
    #[arg(long, conflicts_with_all = ["recursive", "all"])]
    pub(crate) directory: bool,
    /// Also show what is in all folders below
    #[arg(long, short = 'R')]
    pub(crate) recursive: bool,
    /// Print an array with an object for each file
    #[arg(long, conflicts_with_all = ["is_long", "all"])]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct CatArgs {
    #[command(flatten)]
    pub(crate) on: FileArgs,
}

#[derive(Args)]
pub(crate) struct CpArgs {
    #[command(flatten)]
    pub(crate) on: FileArgs,
    /// File or folder to create, or a folder to copy into
    #[arg(value_name = "DEST", index = 2)]
    pub(crate) target: PathBuf,
    /// Copy a folder with everything in it
    #[arg(long, short, visible_short_alias = 'R')]
    pub(crate) recursive: bool,
    /// Replace files that exist and are not the same
    #[arg(long, short)]
    pub(crate) force: bool,
    /// Copy to DEST itself, even if it is a folder
    #[arg(long)]
    pub(crate) no_target_directory: bool,
    /// Keep owners and groups, by their numbers, with set-user-ID and set-group-ID bits; needs root
    #[arg(long)]
    pub(crate) preserve_owner: bool,
    /// Print the summary as JSON
    #[arg(long)]
    pub(crate) json: bool,
}
