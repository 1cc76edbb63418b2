//! `scrim cp`: files and folders out of a volume's file system.
//!
//! | module | content |
//! |---|---|
//! | [`place`] | the meaning of DEST |
//! | [`target`] | entries of folders that are made, found and renamed, without following a link |
//! | [`names`] | names that are not copied |
//! | [`links`] | files with several names |
//! | [`one`] | the copy of one file or symbolic link |
//! | [`report`] | counts, notes and the summary |
//!
//! A file has its name once it is whole, and so has a folder that did not exist before. A second run finds files that are
//! whole by their size and time, and copies the others.

mod links;
mod names;
mod one;
mod place;
mod report;
mod target;

pub(crate) use self::report::counted;

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::ExitCode;

use scrim_files::{Inode, Kind, LastLink};

use self::one::{Copier, Stop};
use self::place::{Copied, Place};
use self::report::Kind as Note;
use self::target::{Attributes, Existing, Folder};
use super::entry::name_of;
use super::source::Source;
use super::walk::{Name, Step, Walk};
use crate::args::CpArgs;
use crate::error::{CliError, Exit};
use crate::process::interruption::Interruption;
use crate::terminal::note;

/// Ending of the name of a folder that is not whole.
const PARTIAL: &[u8] = b".partial";

/// Copies a file, or a folder with all that is in it.
pub(crate) fn run(source: &Source, args: &CpArgs) -> Result<ExitCode, CliError> {
    let found = source.find(LastLink::Follow)?;
    let inode = Inode::clone(found.last());
    let is_folder = inode.is_folder();
    if is_folder && !args.recursive {
        return Err(CliError::usage(format!(
            "{} is a folder; copy it with all its files by --recursive (-r)",
            source.location
        )));
    }
    if !is_folder && inode.kind() != Kind::File {
        return Err(CliError::new(
            Exit::WrongDevice,
            format!(
                "{} is a {}, which is not copied; name a file or folder",
                source.location,
                name_of(inode.kind())
            ),
        ));
    }
    let copied = Copied {
        name: source.location.name(),
        is_folder,
        to_itself: args.no_target_directory,
    };
    let place = Place::of(&args.target, copied)?;
    let interruption = Interruption::listen()?;
    let mut copier = Copier::new(source, args, &interruption);
    let done = match place {
        Place::Named { folder, path, name } if is_folder => {
            named_folder(&mut copier, inode, &folder, &path, &name)
        }
        Place::Named { folder, path, name } => {
            copier.base = path;
            copier
                .file(folder.as_fd(), &name, &name, &inode, None)
                .and_then(|()| copier.sync(&folder))
        }
        Place::Folder { folder, path } => {
            copier.base = path;
            tree(&mut copier, inode, Folder::existing(folder)).and_then(|top| copier.sync(&top))
        }
    };
    end(copier, done)
}

/// Prints the summary, or the reason for an early end.
fn end(mut copier: Copier<'_>, done: Result<(), Stop>) -> Result<ExitCode, CliError> {
    copier.display.clear();
    let next = "what is copied stays; give the same command again for the rest";
    match done {
        Err(Stop::Interrupted) => {
            note(format_args!("scrim: interrupted; {next}"));
            return Ok(copier.interruption.exit_code());
        }
        Err(Stop::Fatal(error)) => return Err(error.followed_by(&format!("; {next}"))),
        Err(Stop::Entry(error)) => return Err(error),
        Ok(()) => {}
    }
    let source = copier.source.location.to_string();
    copier.report.finish(&source, copier.args.json)?;
    Ok(ExitCode::SUCCESS)
}

/// Copies a folder to a name: into the folder that has it, or else into a new one, which gets the name when it is whole.
fn named_folder(
    copier: &mut Copier<'_>,
    inode: Inode,
    folder: &OwnedFd,
    path: &Path,
    name: &[u8],
) -> Result<(), Stop> {
    let folder = folder.as_fd();
    let shown = |name: &[u8]| place::below(path, name);
    let failed = |name: &[u8], error: &std::io::Error| {
        Stop::Fatal(CliError::io(
            format_args!("make {}", shown(name).display()),
            error,
        ))
    };
    match target::look(folder, name).map_err(|error| failed(name, &error))? {
        Existing::Nothing => {}
        Existing::Folder => {
            copier.base = shown(name);
            let top = target::open_folder(folder, name).map_err(|error| failed(name, &error))?;
            let top = tree(copier, inode, Folder::existing(top))?;
            return copier.sync(&top);
        }
        other => return Err(Stop::Entry(in_the_way(&shown(name), &other))),
    }
    let partial = [name, PARTIAL].concat();
    copier.base = shown(&partial);
    let top = match target::look(folder, &partial).map_err(|error| failed(&partial, &error))? {
        Existing::Nothing => target::make_folder(folder, &partial),
        Existing::Folder => target::open_folder(folder, &partial),
        other => return Err(Stop::Entry(in_the_way(&shown(&partial), &other))),
    };
    let top = top.map_err(|error| failed(&partial, &error))?;
    let top = tree(copier, inode, Folder::ours(top))?;
    copier.sync(&top)?;
    target::give_name(folder, &partial, name, false).map_err(|error| {
        let to = shown(name);
        Stop::Entry(CliError::io(
            format_args!("rename {} to {}", shown(&partial).display(), to.display()),
            &error,
        ))
    })
}

fn in_the_way(path: &Path, existing: &Existing) -> CliError {
    CliError::new(
        Exit::Busy,
        format!(
            "{} is {}; remove it, or choose another name",
            path.display(),
            existing.what()
        ),
    )
}

/// Copies all that is in a folder into an open one, which it returns.
fn tree(copier: &mut Copier<'_>, inode: Inode, top: Folder) -> Result<OwnedFd, Stop> {
    let mut walk = Walk::new(&copier.source.tree);
    // The first folder is met before any other.
    let _ = walk.meet(inode.number());
    copier.report.counts.folders += 1;
    copier.note_attributes(&inode, b"");
    walk.enter(inode, Vec::new(), top);
    while let Some(step) = walk.step() {
        copier.check_interruption()?;
        let done = match step {
            Ok(Step::Entry(name)) => entry(copier, &mut walk, &name),
            Ok(Step::Left(folder)) => {
                let attributes = Attributes::of(folder.inode(), copier.args.preserve_owner);
                let given = match folder.kept.is_ours {
                    true => attributes.give_to(&folder.kept.open),
                    false => Ok(()),
                };
                let given = given
                    .map_err(|error| copier.failed_to("set attributes of", &folder.path, &error));
                if walk.here().is_none() {
                    if let Err(Stop::Entry(error)) = given {
                        copier.fail(&error);
                    }
                    return Ok(folder.kept.open);
                }
                given
            }
            Err(error) => {
                let path = walk.here().map(|folder| folder.path.as_slice());
                Err(Stop::Entry(
                    copier.source.failed(path.unwrap_or_default(), error),
                ))
            }
        };
        match done {
            Err(Stop::Entry(error)) => copier.fail(&error),
            other => other?,
        }
    }
    Err(Stop::Interrupted)
}

/// Copies an entry of the folder that the walk is in.
fn entry(copier: &mut Copier<'_>, walk: &mut Walk<'_, Folder>, entry: &Name) -> Result<(), Stop> {
    let Some(here) = walk.here() else {
        return Ok(());
    };
    let path = here.below(&entry.name);
    let refused = |reason: String| {
        let place = copier.source.location.shown(&path);
        Stop::Entry(CliError::new(Exit::WrongDevice, reason).within(place))
    };
    if let Some(reason) = names::refused(&entry.name) {
        return Err(refused(reason.to_owned()));
    }
    let inode = copier.source.tree.inode(entry.inode);
    let inode = inode.map_err(|error| Stop::Entry(copier.source.failed(&path, error)))?;
    match inode.kind() {
        Kind::Folder => {
            walk.meet(inode.number())
                .map_err(|why| refused(why.reason()))?;
            let Some(here) = walk.here() else {
                return Ok(());
            };
            let made = folder(copier, &here.kept, &entry.name, &path)?;
            copier.report.counts.folders += 1;
            copier.note_attributes(&inode, &path);
            walk.enter(inode, path, made);
            Ok(())
        }
        Kind::File => {
            let start = walk.start().map(|start| start.kept.open.as_fd());
            copier.file(here.kept.open.as_fd(), &entry.name, &path, &inode, start)
        }
        Kind::Link => copier.link(here.kept.open.as_fd(), &entry.name, &path, &inode),
        other => {
            let place = copier.source.location.shown(&path);
            copier.note(
                Note::Special,
                &format!("{place}: left out, as it is a {}", name_of(other)),
            );
            Ok(())
        }
    }
}

/// Makes a folder, or opens one that exists. What is in a folder of an unfinished copy is of that copy too.
fn folder(copier: &Copier<'_>, parent: &Folder, name: &[u8], path: &[u8]) -> Result<Folder, Stop> {
    let is_within_ours = parent.is_ours;
    let parent = parent.open.as_fd();
    let failed = |error: &std::io::Error| copier.failed_to("make", path, error);
    let made = match target::look(parent, name).map_err(|error| failed(&error))? {
        Existing::Nothing => target::make_folder(parent, name).map(Folder::ours),
        Existing::Folder if is_within_ours => target::open_folder(parent, name).map(Folder::ours),
        Existing::Folder => target::open_folder(parent, name).map(Folder::existing),
        other => return Err(Stop::Entry(in_the_way(&copier.shown(path), &other))),
    };
    made.map_err(|error| failed(&error))
}
