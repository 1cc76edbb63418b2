//! Files that commands make: whole or not at all, for their owner only, never over another one.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use scrim_backend::{Backend, Durability, FileBackend, own_file};

use crate::error::CliError;

/// Refuses a place where something is already, before anything is asked for; `lost` is what an older file would hold.
pub(crate) fn demand_new(path: &Path, lost: &str) -> Result<(), CliError> {
    // As in cryptsetup: this is a wrong parameter.
    match path.symlink_metadata() {
        Ok(_) => Err(CliError::usage(format!(
            "{} exists already; name a file that does not, so that no older {lost} is lost",
            path.display()
        ))),
        Err(_) => Ok(()),
    }
}

/// Makes a file with these bytes, durably. They are on the disk before the file gets its name: a header backup that
/// looks whole has to be whole.
pub(crate) fn write_new(path: &Path, bytes: &[u8]) -> Result<(), CliError> {
    let fail = |error: &io::Error| {
        let doing = format_args!("make {}", path.display());
        match error.kind() {
            // As in cryptsetup: a place where no file can be is a wrong parameter.
            io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => CliError::usage(format!(
                "cannot {doing}: {error}; name a folder that exists and may be written to"
            )),
            _ => CliError::io(doing, error),
        }
    };
    if path.symlink_metadata().is_ok() {
        return Err(fail(&Errno::EXIST.into()));
    }
    let new = beside(path);
    let file =
        FileBackend::create(&new, bytes.len() as u64).map_err(|error| fail(&error.source))?;
    let written = file
        .write_at(0, bytes, Durability::Durable)
        .map_err(CliError::from)
        .and_then(|()| rename(&new, path).map_err(|error| fail(&error)));
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written
}

/// Temporary name in the same folder, for a file that is not whole yet.
fn beside(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(format!(".{}.new", std::process::id()));
    PathBuf::from(name)
}

fn rename(new: &Path, path: &Path) -> io::Result<()> {
    match renameat_with(CWD, new, CWD, path, RenameFlags::NOREPLACE) {
        // A file system that cannot tell; a moment ago there was none.
        Err(Errno::INVAL | Errno::NOSYS) if path.symlink_metadata().is_err() => {
            fs::rename(new, path)?;
        }
        renamed => renamed?,
    }
    File::open(own_file::folder_of(path))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Exit;

    #[test]
    fn a_file_has_its_name_when_it_is_whole_and_replaces_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("backup");
        write_new(&path, b"one").unwrap();
        let again = write_new(&path, b"two").unwrap_err();
        assert_eq!(again.exit, Exit::Busy);
        assert_eq!(fs::read(&path).unwrap(), b"one");
        let nowhere = write_new(&folder.path().join("no/backup"), b"").unwrap_err();
        assert_eq!(nowhere.exit, Exit::Usage);
        // One that appears meanwhile is not replaced either.
        let new = beside(&path);
        fs::write(&new, "three").unwrap();
        let taken = rename(&new, &path).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AlreadyExists);
        fs::remove_file(&new).unwrap();
        let left = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(left, 1, "no temporary file");
    }
}
