//! `scrim pack`: a folder becomes a new volume with an ext4 file system.
//!
//! | module | content |
//! |---|---|
//! | [`folder`] | the folder's entries, and the blocks that they need |
//! | [`layout`] | size of the file system |
//! | [`mke2fs`] | the program that makes it |
//! | [`fill`] | the plaintext that the program writes: over FUSE, or in memory |
//! | [`report`] | the summary |
//!
//! Plaintext never lies on a disk. mke2fs writes the volume's plaintext as one file over FUSE; where there is no FUSE, it
//! writes a file in memory, which is then encrypted into the volume.

mod fill;
mod folder;
mod layout;
mod mke2fs;
mod report;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use rustix::fs::statvfs;
use scrim_backend::own_file;
use scrim_crypt::SectorSize;
use scrim_figures::Size;

use crate::args::PackArgs;
use crate::error::{CliError, Exit};
use crate::luks::new_volume::NewVolume;
use crate::process::interruption::Interruption;
use crate::storage::{demand_local, demand_whole};
use crate::terminal::note;
use crate::transfer::{Kind, Partial, Record, Stamp};
use crate::volume::new_image::{ImageSize, NewImage};

use self::fill::{End, Filling};
use self::folder::{BLOCK, Content};
use self::layout::FileSystem;
use self::mke2fs::Mke2fs;
use self::report::Report;

pub(crate) fn run(args: &PackArgs) -> Result<ExitCode, CliError> {
    let image = &args.format.image;
    demand_local(image, "pack")?;
    demand_whole(image, "pack")?;
    let new = NewVolume::asked_for(&args.format)?;
    let program = Mke2fs::find()?;
    let folder = real_folder(&args.folder)?;
    let partial = Partial::of(image, &args.folder, args.format.batch_mode)?;
    partial.check_unused(Kind::Pack)?;
    check_outside(partial.path(), &folder, image)?;
    new.warn();
    let content = Content::of(&folder)?;
    let size = asked_size(args, &content)?;
    let sector_size = new.sector_size.unwrap_or(SectorSize::S4096);
    let laid_out = NewImage::lay_out(&new, &args.format, size, sector_size)?;
    let blocks = laid_out.data_size / BLOCK;
    let file_system = FileSystem::within(&content, blocks)
        .map_err(|needed| too_small(image, needed * BLOCK + header_size(&laid_out)))?;
    check_space(
        partial.path(),
        file_system.written(&content) + header_size(&laid_out),
    )?;
    let interruption = Interruption::listen()?;
    let uuid = laid_out.formatted.header.uuid();
    let record = Record::new(Kind::Pack, Stamp::of(&folder)?, uuid.raw());
    let volume = Arc::new(laid_out.create(&partial, false, &record)?);
    let filling = Filling {
        program: &program,
        folder: &folder,
        content: &content,
        file_system: &file_system,
        volume: &volume,
        interruption: &interruption,
    };
    let filled = filling.run().and_then(|end| {
        volume.flush()?;
        Ok(end)
    });
    let way = match filled {
        Ok(End::Done(way)) => way,
        Ok(End::Interrupted) => {
            partial.abandon()?;
            note("scrim: interrupted; nothing was made");
            return Ok(interruption.exit_code());
        }
        Err(error) => {
            partial.abandon()?;
            return Err(error);
        }
    };
    partial.finish(record)?;
    note(format_args!(
        "{}: LUKS{} volume {uuid} created",
        image.display(),
        laid_out.formatted.header.version()
    ));
    let report = Report {
        content: &content,
        uuid: uuid.raw(),
        size: laid_out.image_size,
        way,
    };
    report.print(&args.folder, args.json)?;
    Ok(ExitCode::SUCCESS)
}

/// The canonical path of the folder, so that mke2fs takes it neither for an option nor for an archive.
fn real_folder(folder: &Path) -> Result<PathBuf, CliError> {
    let shown = folder.display();
    let fail = |error| CliError::io(format_args!("look at {shown}"), &error);
    let real = folder.canonicalize().map_err(fail)?;
    match real.is_dir() {
        true => Ok(real),
        false => Err(CliError::usage(format!(
            "{shown} is not a folder; name a folder, or encrypt a disk image with `scrim import`"
        ))),
    }
}

/// Refuses a new file that would be among the files that go into it.
fn check_outside(new: &Path, folder: &Path, image: &Path) -> Result<(), CliError> {
    let place = own_file::folder_of(new).canonicalize();
    if place.is_ok_and(|place| place.starts_with(folder)) {
        return Err(CliError::usage(format!(
            "{} would lie within the folder that goes into it; choose a place outside of {}",
            image.display(),
            folder.display()
        )));
    }
    Ok(())
}

/// The size that was asked for, or the one that the content needs.
fn asked_size(args: &PackArgs, content: &Content) -> Result<ImageSize, CliError> {
    match args.format.size {
        None => Ok(ImageSize::OfData(
            FileSystem::for_content(content).blocks * BLOCK,
        )),
        Some(size) if !size.is_multiple_of(BLOCK) => Err(CliError::usage(format!(
            "--size must be a multiple of {BLOCK} bytes here, the block of the file system"
        ))),
        // Before a passphrase is asked for.
        Some(size) if size < content.blocks * BLOCK => {
            Err(too_small(&args.format.image, content.blocks * BLOCK))
        }
        Some(size) => Ok(ImageSize::OfImage(size)),
    }
}

fn header_size(laid_out: &NewImage) -> u64 {
    laid_out.image_size - laid_out.data_size
}

fn too_small(image: &Path, needed: u64) -> CliError {
    CliError::usage(format!(
        "{}: --size is too small, since the files take about {}; give a larger one, or leave it out",
        image.display(),
        Size::of_bytes(needed)
    ))
}

/// Refuses to begin where the disk has not enough space for `needed` bytes.
fn check_space(new: &Path, needed: u64) -> Result<(), CliError> {
    let folder = own_file::folder_of(new);
    // If the file system does not tell, writing does.
    let Ok(found) = statvfs(folder) else {
        return Ok(());
    };
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    if free >= needed {
        return Ok(());
    }
    Err(CliError::new(
        Exit::WrongDevice,
        format!(
            "{}: the volume takes about {}, and {} are free there; free some space, or choose another place",
            folder.display(),
            Size::of_bytes(needed),
            Size::of_bytes(free)
        ),
    ))
}
