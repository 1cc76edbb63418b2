//! Options of `scrim mount` and `scrim umount`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use super::unlock::UnlockArgs;
use super::volume_name::VolumeName;

#[derive(Args)]
pub(crate) struct MountArgs {
    /// File, block device, NBD URI or rbd:POOL/IMAGE with the volume, or the name of an open volume
    #[arg(value_name = "IMAGE|NAME")]
    pub(crate) image: PathBuf,
    /// Directory to mount on
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
    /// Show the plaintext as one file, DIR/NAME, instead of the files in it
    #[arg(long)]
    pub(crate) raw: bool,
    /// Program or kernel code that mounts the file system
    #[arg(
        long,
        value_enum,
        default_value = "auto",
        value_name = "METHOD",
        conflicts_with = "raw"
    )]
    pub(crate) method: MountMethod,
    /// Let other users access the files, as their modes allow it
    #[arg(long)]
    pub(crate) allow_other: bool,
    /// Keep plaintext of what Scrim itself shows in the page cache, which makes mmap and small reads quicker
    #[arg(long)]
    pub(crate) page_cache: bool,
    /// Discard the range of a hole that a program punches in the one file, which then reads as noise, not as zeros: for
    /// virtual machines that are offered no write-zeroes, not for mkfs or qemu-img
    #[arg(long, requires_all = ["raw", "allow_discards"])]
    pub(crate) discard_holes: bool,
    /// Name of the open volume (default: the image's file name)
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<VolumeName>,
    /// Stay in the foreground instead of starting a background process
    #[arg(long)]
    pub(crate) foreground: bool,
    #[command(flatten)]
    pub(crate) unlock: UnlockArgs,
}

#[derive(Args)]
pub(crate) struct UmountArgs {
    /// Directory that a volume is mounted on, or the name of an open volume: all its mounts
    #[arg(value_name = "DIR|NAME")]
    pub(crate) what: PathBuf,
    /// Unmount even if files are in use: programs that have them open get errors
    #[arg(long)]
    pub(crate) force: bool,
}

/// Ways to mount a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum MountMethod {
    /// The best that this machine allows
    Auto,
    /// The kernel's file system on a loop device, as root
    Kernel,
    /// A FUSE program: fuse2fs, ntfs-3g, mount.exfat-fuse or squashfuse
    Program,
    /// Scrim's own reader of ext2, ext3 and ext4, with --readonly
    Scrim,
}
