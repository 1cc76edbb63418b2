//! `rivals fuse`: volumes as files, over FUSE, from images in memory.
//!
//! Two parts. `raw` runs fio on the plaintext as one file, beside other programs that show a disk as a file. `files` does
//! common work on the file system in it, beside `fuse2fs` on a plain image and beside `gocryptfs`.

mod cipher;
mod files;
mod mounted;
mod raw;
mod stage;

use clap::ValueEnum;
use scrim_bench::{Peer, Report, Study};

use super::options::{Common, Ours};
use super::programs::{
    CRYPTSETUP, FIO, FUSE2FS, GOCRYPTFS, MKE2FS, NBDFUSE, QEMU_STORAGE_DAEMON, TAR, machine,
};
use super::room::Room;
use super::scrim;
use crate::error::Error;

/// Options of `cargo xtask rivals fuse`.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) common: Common,
    #[command(flatten)]
    ours: Ours,
    /// Measure only this part
    #[arg(long)]
    only: Option<Part>,
    #[command(flatten)]
    raw: raw::Options,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// The plaintext as one file, by fio
    Raw,
    /// The files in it, by tar and by programs that read and write
    Files,
}

/// Programs that one of the parts needs or is compared with.
const PEERS: [Peer; 8] = [
    CRYPTSETUP,
    FIO,
    QEMU_STORAGE_DAEMON,
    NBDFUSE,
    MKE2FS,
    TAR,
    FUSE2FS,
    GOCRYPTFS,
];

/// Each ratio with its target.
pub(super) fn promises() -> impl Iterator<Item = (String, Option<f64>)> {
    raw::promises().chain(files::promises())
}

pub(super) fn run(args: &Args) -> Result<Report, Error> {
    let scrim = scrim::binary(args.ours.scrim.as_deref())?;
    let with = |part| args.only.is_none_or(|only| only == part);
    let mut needed = vec![CRYPTSETUP];
    if with(Part::Raw) {
        needed.push(FIO);
    }
    if with(Part::Files) {
        needed.extend([MKE2FS, TAR]);
    }
    let machine = machine(&PEERS, &needed)?;
    let (raw, files) = (raw::available(&machine), files::available(&machine));
    let mut study = Study::new(machine, args.common.rounds);
    let room = Room::new()?;
    if !room.in_memory {
        study.warn("no tmpfs: the images are on a disk, and the disk is measured too");
    }
    if with(Part::Raw) {
        raw::measure(&room, &scrim, &mut study, &args.raw, &raw)?;
    }
    if with(Part::Files) {
        files::measure(&room, &scrim, &mut study, &files)?;
    }
    Ok(study.finish())
}
