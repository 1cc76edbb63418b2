//! The file that a transfer writes, until it is whole.
//!
//! `TARGET.partial` takes the bytes, and `TARGET.partial.state` holds the position up to which they are written. A
//! position is recorded when everything before it is on the disk, and TARGET gets its name when everything is. So
//! TARGET is either whole or missing, whenever the power fails or the process ends.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use scrim_backend::{Access, FileBackend, own_file};

use super::{Kind, Record, Stamp};
use crate::error::{CliError, Exit};

/// Longest record that is read, in bytes.
const RECORD_MAX: usize = 4096;

/// A target that is not whole yet.
pub(crate) struct Partial {
    target: PathBuf,
    path: PathBuf,
    state: PathBuf,
    /// True if an existing target is to be replaced.
    replace: bool,
}

/// State of the transfer that [`Partial::resume`] finds.
pub(crate) enum Resumed {
    /// Something is left to do.
    Unfinished(FileBackend, Record),
    /// Only the record was left.
    Finished,
}

impl Partial {
    /// Refuses a target that cannot be made: the source itself, one that exists, unless it may be
    /// replaced, and one that is no file.
    pub(crate) fn of(target: &Path, source: &Path, replace: bool) -> Result<Self, CliError> {
        let shown = target.display();
        // If the target is a link, the file that it leads to is replaced, not the link.
        let target = &match fs::symlink_metadata(target) {
            Ok(found) if found.is_symlink() => own_file::follow(target).map_err(|error| {
                CliError::io(format_args!("find what {shown} links to"), &error)
            })?,
            _ => target.to_owned(),
        };
        let partial = Self {
            target: target.clone(),
            path: with_suffix(target, ".partial"),
            state: with_suffix(target, ".partial.state"),
            replace,
        };
        if is_same(source, target) || is_same(source, &partial.path) {
            return Err(CliError::usage(format!(
                "{} would be both read and written; give the new file another name",
                source.display()
            )));
        }
        match fs::symlink_metadata(target) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(partial),
            Err(error) => Err(CliError::io(format_args!("look at {shown}"), &error)),
            Ok(found) if !found.is_file() => Err(CliError::usage(format!(
                "{shown} is not a regular file, and only a file can get its name once it is complete; for a \
                 device, open the volume and use nbdcopy"
            ))),
            Ok(_) if replace => {
                // A process that has it open would go on with a file that has lost its name.
                drop(FileBackend::open(target, Access::ReadWrite)?);
                Ok(partial)
            }
            Ok(_) => match partial.finished()? {
                // Nothing resumes a pack, so its record would be in the way of every command.
                Some(record) if record.kind == Kind::Pack => {
                    partial.remove_record()?;
                    Err(exists(target))
                }
                Some(_) => Ok(partial),
                None => Err(exists(target)),
            },
        }
    }

    /// The file with the bytes.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the record of a target that is whole, if a crash has left it.
    fn finished(&self) -> Result<Option<Record>, CliError> {
        if !self.target.exists() || self.path.exists() {
            return Ok(None);
        }
        Ok(self.load()?.filter(|record| record.whole))
    }

    /// Refuses to begin where another transfer was interrupted, before the user is asked for a passphrase. A partial
    /// file that may be replaced stays until [`Partial::create`].
    pub(crate) fn check_unused(&self, kind: Kind) -> Result<(), CliError> {
        if self.target.exists() && !self.replace {
            if kind == Kind::Pack {
                return Err(exists(&self.target));
            }
            return Err(CliError::new(
                Exit::Busy,
                format!(
                    "{} was finished by an earlier {}, which --resume confirms",
                    self.target.display(),
                    kind.verb()
                ),
            ));
        }
        if !self.path.exists() {
            return Ok(());
        }
        // Fails if a running transfer uses it: that transfer is not disturbed.
        drop(FileBackend::open_own(&self.path, Access::ReadWrite)?);
        let nothing_done = || {
            let record = self.load().ok().flatten();
            record.is_some_and(|record| record.position == 0)
        };
        if self.replace || nothing_done() {
            return Ok(());
        }
        let path = self.path.display();
        let message = match kind {
            Kind::Pack => format!("{path} is in the way; remove it, or choose another name"),
            Kind::Import | Kind::Export => format!(
                "{path} is there from an earlier {}: go on with it by --resume, or remove it to begin \
                 again",
                kind.verb()
            ),
        };
        Err(CliError::new(Exit::Busy, message))
    }

    /// Makes the file, with space for all of it if it is to be `full`, and then its record. Files that an earlier
    /// transfer has left are removed if that is allowed.
    pub(crate) fn create(
        &self,
        size: u64,
        full: bool,
        record: &Record,
    ) -> Result<FileBackend, CliError> {
        self.check_unused(record.kind)?;
        self.abandon()?;
        drop(FileBackend::create(&self.path, size)?);
        let make = || {
            let backend = FileBackend::open_own(&self.path, Access::ReadWrite)?;
            if full {
                backend.reserve(size)?;
            }
            self.save(record)?;
            Ok(backend)
        };
        make().inspect_err(|_| drop(self.abandon()))
    }

    /// Takes up an interrupted transfer of the same source.
    pub(crate) fn resume(&self, kind: Kind, source: Stamp) -> Result<Resumed, CliError> {
        let path = self.path.display();
        let wrong = |message| Err(CliError::new(Exit::WrongDevice, message));
        let Some(record) = self.load()? else {
            return wrong(if self.path.exists() {
                format!("nothing tells how far {path} is; remove it and begin without --resume")
            } else {
                format!("cannot continue: {path} does not exist; start without --resume")
            });
        };
        if record.kind != kind {
            return wrong(match record.kind {
                Kind::Pack => format!("{path} belongs to a pack; begin without --resume"),
                Kind::Import | Kind::Export => {
                    let verb = record.kind.verb();
                    format!("{path} belongs to an {verb}; resume that")
                }
            });
        }
        if self.finished()?.is_some() {
            self.remove_record()?;
            return Ok(Resumed::Finished);
        }
        if record.source != source {
            return wrong(format!(
                "the source has changed since {path} was begun; remove {path} and begin without \
                 --resume"
            ));
        }
        let backend = FileBackend::open_own(&self.path, Access::ReadWrite)?;
        Ok(Resumed::Unfinished(backend, record))
    }

    /// Records a position, durably.
    pub(crate) fn save(&self, record: &Record) -> Result<(), CliError> {
        let new = with_suffix(&self.state, ".new");
        let fail = |doing: &str, path: &Path, error: &io::Error| {
            CliError::io(format_args!("{doing} {}", path.display()), error)
        };
        let mut file = own_file::create(&new).map_err(|error| fail("make", &new, &error))?;
        let mut write = || -> io::Result<()> {
            file.write_all(&serde_json::to_vec(record)?)?;
            file.sync_all()?;
            fs::rename(&new, &self.state)?;
            sync_folder(&self.state)
        };
        write().map_err(|error| {
            let _ = fs::remove_file(&new);
            fail("write", &self.state, &error)
        })
    }

    fn load(&self) -> Result<Option<Record>, CliError> {
        let shown = self.state.display();
        let record = load(&self.state)
            .map_err(|error| CliError::io(format_args!("read {shown}"), &error))?;
        match record {
            Some(record) => Ok(Some(record)),
            None if !self.state.exists() => Ok(None),
            None => Err(CliError::new(
                Exit::WrongDevice,
                format!(
                    "{shown} is not a record of this version of scrim; remove it and {}, and begin \
                     without --resume",
                    self.path.display()
                ),
            )),
        }
    }

    /// Gives the file, which is on the disk, its name.
    pub(crate) fn finish(&self, mut record: Record) -> Result<(), CliError> {
        record.whole = true;
        self.save(&record)?;
        self.rename().map_err(|error| {
            let (path, target) = (self.path.display(), self.target.display());
            CliError::io(format_args!("rename {path} to {target}"), &error)
        })?;
        self.remove_record()
    }

    fn rename(&self) -> io::Result<()> {
        let replace = || fs::rename(&self.path, &self.target);
        if self.replace {
            replace()?;
        } else {
            match renameat_with(CWD, &self.path, CWD, &self.target, RenameFlags::NOREPLACE) {
                // The file system cannot tell; a moment ago there was no target.
                Err(Errno::INVAL | Errno::NOSYS) if !self.target.exists() => replace()?,
                renamed => renamed?,
            }
        }
        sync_folder(&self.target)
    }

    fn remove_record(&self) -> Result<(), CliError> {
        remove(&self.state)
    }

    /// Removes the files of a transfer, first the one that could be mistaken for a volume.
    pub(crate) fn abandon(&self) -> Result<(), CliError> {
        remove(&self.path)?;
        self.remove_record()
    }
}

/// Refuses to open an image that a transfer has not finished.
pub(crate) fn refuse_unfinished(image: &Path) -> Result<(), CliError> {
    let is_partial = image.extension().is_some_and(|ext| ext == "partial");
    let state = with_suffix(image, ".state");
    if !is_partial || !state.exists() {
        return Ok(());
    }
    let was_packed = load(&state).is_ok_and(|found| found.is_some_and(|r| r.kind == Kind::Pack));
    let unfinished = match was_packed {
        true => "a pack that was interrupted; give the command again",
        false => "an import that was interrupted; finish it with `scrim import --resume`",
    };
    Err(CliError::new(
        Exit::WrongDevice,
        format!("{} is {unfinished}", image.display()),
    ))
}

fn exists(target: &Path) -> CliError {
    CliError::new(
        Exit::Busy,
        format!(
            "{} exists already; choose another name, or replace it with --batch-mode",
            target.display()
        ),
    )
}

/// Reads the record in a file; `None` if there is no such file, or it is not a record of this version.
fn load(state: &Path) -> io::Result<Option<Record>> {
    let text = own_file::read(state, RECORD_MAX)?;
    let record = text.and_then(|text| serde_json::from_slice(&text).ok());
    Ok(record.filter(Record::is_current))
}

/// Returns whether both paths lead to one file.
fn is_same(one: &Path, other: &Path) -> bool {
    let id = |path| {
        let found = fs::metadata(path).ok()?;
        Some((found.dev(), found.ino()))
    };
    id(one).is_some() && id(one) == id(other)
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

fn remove(path: &Path) -> Result<(), CliError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(CliError::io(
            format_args!("remove {}", path.display()),
            &error,
        )),
        _ => Ok(()),
    }
}

/// Makes a new name in a folder durable.
fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(own_file::folder_of(path))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = 8192;

    /// A source and the target that it is to become.
    fn place() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let (source, target) = (folder.path().join("source"), folder.path().join("target"));
        fs::write(&source, [1; 8192]).unwrap();
        (folder, source, target)
    }

    fn begun(source: &Path, target: &Path) -> (Partial, Record) {
        let partial = Partial::of(target, source, false).unwrap();
        let mut record = Record::new(Kind::Import, Stamp::of(source).unwrap(), "uuid");
        drop(partial.create(SIZE, true, &record).unwrap());
        record.position = 4096;
        partial.save(&record).unwrap();
        (partial, record)
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_target_has_its_name_when_it_is_finished() {
        let (folder, source, target) = place();
        let (partial, record) = begun(&source, &target);
        assert_eq!(
            names(folder.path()),
            ["source", "target.partial", "target.partial.state"]
        );
        let error = partial.check_unused(Kind::Import).unwrap_err();
        assert_eq!(error.exit, Exit::Busy);
        assert!(refuse_unfinished(&folder.path().join("target.partial")).is_err());
        let stamp = Stamp::of(&source).unwrap();
        match partial.resume(Kind::Import, stamp).unwrap() {
            Resumed::Unfinished(_, found) => assert_eq!(found, record),
            Resumed::Finished => panic!("it is not finished"),
        }
        assert!(partial.resume(Kind::Export, stamp).is_err());
        partial.finish(record).unwrap();
        assert_eq!(names(folder.path()), ["source", "target"]);
        assert!(partial.resume(Kind::Import, stamp).is_err());
    }

    #[test]
    fn what_may_be_replaced_stays_until_it_is() {
        let (_folder, source, target) = place();
        let (_, mut record) = begun(&source, &target);
        let partial = Partial::of(&target, &source, true).unwrap();
        partial.check_unused(Kind::Import).unwrap();
        let stamp = Stamp::of(&source).unwrap();
        match partial.resume(Kind::Import, stamp).unwrap() {
            Resumed::Unfinished(_, found) => assert_eq!(found, record),
            Resumed::Finished => panic!("it is not finished"),
        }
        record.position = 0;
        drop(partial.create(SIZE, true, &record).unwrap());
        match partial.resume(Kind::Import, stamp).unwrap() {
            Resumed::Unfinished(_, found) => assert_eq!(found, record),
            Resumed::Finished => panic!("it is not finished"),
        }
    }

    #[test]
    fn a_target_that_appears_meanwhile_is_kept() {
        let (_folder, source, target) = place();
        let (partial, record) = begun(&source, &target);
        fs::write(&target, "precious").unwrap();
        assert_eq!(partial.finish(record).unwrap_err().exit, Exit::Busy);
        assert_eq!(fs::read(&target).unwrap(), b"precious");
        assert!(partial.path().exists());
    }

    #[test]
    fn a_crash_before_the_record_goes_is_noticed() {
        let (folder, source, target) = place();
        let (partial, mut record) = begun(&source, &target);
        record.whole = true;
        partial.save(&record).unwrap();
        partial.rename().unwrap();
        let again = Partial::of(&target, &source, false).unwrap();
        assert!(again.check_unused(Kind::Import).is_err());
        let resumed = again.resume(Kind::Import, record.source).unwrap();
        assert!(matches!(resumed, Resumed::Finished));
        assert_eq!(names(folder.path()), ["source", "target"]);
    }

    #[test]
    fn a_crash_before_the_record_of_a_pack_goes_leaves_a_target_that_exists() {
        let (folder, source, target) = place();
        let (partial, mut record) = begun(&source, &target);
        record.kind = Kind::Pack;
        record.whole = true;
        partial.save(&record).unwrap();
        partial.rename().unwrap();
        for _ in 0..2 {
            let error = Partial::of(&target, &source, false).err().unwrap();
            assert!(error.to_string().contains("exists already"));
            assert_eq!(names(folder.path()), ["source", "target"]);
        }
    }

    #[test]
    fn changed_sources_and_foreign_records_are_refused() {
        let (_folder, source, target) = place();
        let (partial, _) = begun(&source, &target);
        fs::write(&source, [2; 4096]).unwrap();
        let stamp = Stamp::of(&source).unwrap();
        assert!(partial.resume(Kind::Import, stamp).is_err());
        for text in [&b""[..], b"{}", b"{\"version\":2}", &[b'['; 1 << 20]] {
            fs::write(&partial.state, text).unwrap();
            assert!(partial.resume(Kind::Import, stamp).is_err());
        }
        assert!(Partial::of(&target, &partial.path, true).is_err());
        assert!(Partial::of(&source, &source, true).is_err());
    }
}
