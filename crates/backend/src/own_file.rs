//! Files that a program keeps beside a file that a user named.
//!
//! Their names can be predicted. In a folder where other users may write too, such as `/tmp`, one of them may have
//! put a link, a pipe or a file there, so that the program truncates another file of its user, waits for ever, or
//! trusts another user's data. So such a file is created only where no entry exists, and opened only if it is a
//! regular file of this user with no second name; never through a link. A file counts as the user's, too, if it
//! belongs to root or to the owner of the folder: these can put anything there at any time, and file systems
//! without owners name one for all files.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::access::Access;

/// Opens an existing file.
///
/// # Errors
/// When it cannot be opened, or is not a file of this user's; the error says which.
pub fn open(path: &Path, access: Access) -> io::Result<File> {
    // A pipe is opened without waiting for its other end, and then refused.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mut options = File::options();
    options.read(true).write(access == Access::ReadWrite);
    options.custom_flags(flags.bits().cast_signed());
    let file = options
        .open(path)
        .map_err(|error| match error.raw_os_error() {
            Some(code) if code == Errno::LOOP.raw_os_error() => in_the_way(LINK),
            _ => error,
        })?;
    check(&file.metadata()?, path)?;
    // Reads and writes of a ring would not wait for the disk.
    let flags = rustix::fs::fcntl_getfl(&file)?;
    rustix::fs::fcntl_setfl(&file, flags.difference(OFlags::NONBLOCK))?;
    Ok(file)
}

/// Reads all of an existing file, which has at most `max` bytes; `None` if there is no such file.
///
/// # Errors
/// As for [`open`], and when it is longer.
pub fn read(path: &Path, max: usize) -> io::Result<Option<Vec<u8>>> {
    let file = match open(path, Access::ReadOnly) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let mut bytes = Vec::new();
    file.take(max as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > max {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("it has more than {max} bytes"),
        ));
    }
    Ok(Some(bytes))
}

/// Makes an empty file, readable by its owner only, in the place of one that an earlier run of the
/// program may have left.
///
/// # Errors
/// When it cannot be made, or what is there is not a file of this user's.
pub fn create(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    // The kernel follows no link where it has to make the file.
    options.read(true).write(true).create_new(true).mode(0o600);
    match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            check(&fs::symlink_metadata(path)?, path)?;
            fs::remove_file(path)?;
            options.open(path)
        }
        opened => opened,
    }
}

/// Finds the file that a link leads to, over further links, each of which must belong to the user, to root or to the
/// owner of its folder.
///
/// # Errors
/// When a link belongs to another user, leads nowhere, or there are too many.
pub fn follow(link: &Path) -> io::Result<PathBuf> {
    let mut path = link.to_owned();
    for _ in 0..LINKS_MAX {
        let found = fs::symlink_metadata(&path)?;
        if !found.is_symlink() {
            return fs::canonicalize(path);
        }
        if !is_ours(&found, &path)? {
            return Err(in_the_way(
                "it is, or leads to, a symbolic link of another user, which is not followed: name the file itself",
            ));
        }
        path = folder_of(&path).join(fs::read_link(&path)?);
    }
    Err(Errno::LOOP.into())
}

/// Most links that are followed for one name, as in the kernel (`MAXSYMLINKS`).
const LINKS_MAX: usize = 40;

const LINK: &str = "it is a symbolic link, which somebody may have put there: remove it";

/// Refuses an entry that another user may have put there.
fn check(found: &fs::Metadata, path: &Path) -> io::Result<()> {
    if found.is_symlink() {
        return Err(in_the_way(LINK));
    }
    if !found.is_file() {
        return Err(in_the_way("it is not a regular file: remove it"));
    }
    if !is_ours(found, path)? {
        return Err(in_the_way(
            "it belongs to another user: remove it, or choose another folder",
        ));
    }
    if found.nlink() > 1 {
        return Err(in_the_way(
            "it has a second name, so that writing would change another file: remove it",
        ));
    }
    Ok(())
}

fn is_ours(found: &fs::Metadata, path: &Path) -> io::Result<bool> {
    let owner = found.uid();
    Ok(owner == geteuid().as_raw() || owner == 0 || owner == fs::metadata(folder_of(path))?.uid())
}

/// The folder that a path's name is in.
#[must_use]
pub fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

fn in_the_way(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::fs::{CWD, Mode, mkfifoat};

    use super::*;

    /// A folder with a victim in it, and a name beside.
    fn place() -> (tempfile::TempDir, std::path::PathBuf, std::path::PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let victim = folder.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        let name = folder.path().join("name");
        (folder, victim, name)
    }

    #[test]
    fn what_others_may_have_put_there_is_neither_opened_nor_replaced() {
        let plant: [fn(&Path, &Path); 4] = [
            |victim, name| symlink(victim, name).unwrap(),
            |victim, name| symlink(victim.with_extension("none"), name).unwrap(),
            |victim, name| fs::hard_link(victim, name).unwrap(),
            |_, name| mkfifoat(CWD, name, Mode::from_raw_mode(0o666)).unwrap(),
        ];
        for plant in plant {
            let (folder, victim, name) = place();
            plant(&victim, &name);
            for refused in [
                open(&name, Access::ReadOnly).map(drop),
                open(&name, Access::ReadWrite).map(drop),
                read(&name, 100).map(drop),
                create(&name).map(drop),
            ] {
                let error = refused.unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
                assert!(error.to_string().contains("remove it"), "{error}");
            }
            assert_eq!(fs::read(&victim).unwrap(), b"precious");
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
        }
    }

    #[test]
    fn a_file_of_ones_own_is_read_and_replaced() {
        let (_folder, victim, name) = place();
        assert_eq!(read(&name, 8).unwrap(), None);
        assert_eq!(read(&victim, 8).unwrap().unwrap(), b"precious");
        assert!(read(&victim, 7).is_err());
        drop(create(&name).unwrap());
        fs::write(&name, "left").unwrap();
        drop(create(&name).unwrap());
        assert_eq!(read(&name, 0).unwrap().unwrap(), b"");
        assert_eq!(fs::metadata(&name).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn links_are_followed_that_belong_to_the_user_all_of_them() {
        let (_folder, victim, name) = place();
        let [first, second, round] = ["1", "2", "3"].map(|end| name.with_extension(end));
        symlink(second.file_name().unwrap(), &first).unwrap();
        symlink(&victim, &second).unwrap();
        symlink(&round, &round).unwrap();
        assert_eq!(follow(&first).unwrap(), fs::canonicalize(&victim).unwrap());
        assert!(follow(&round).is_err());
        if !geteuid().is_root() {
            println!("skipped: only root can make a link of another user");
            return;
        }
        std::os::unix::fs::lchown(&second, Some(12_345), None).unwrap();
        let error = follow(&first).unwrap_err();
        assert!(error.to_string().contains("of another user"), "{error}");
    }
}
