//! Files with secrets that are replaced as a whole: whatever happens, there is either the old file or the new one.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use aws_lc_rs::rand;
use rustix::fs::{CWD, RenameFlags, XattrFlags, fgetxattr, fremovexattr, fsetxattr, renameat_with};
use rustix::io::Errno;

/// Extended attribute that has the POSIX ACL of a file.
const ACL: &str = "system.posix_acl_access";
/// Longest value of an extended attribute, in bytes.
const XATTR_MAX: usize = 1 << 16;

/// The file whose place a new one takes.
#[derive(Clone, Copy)]
pub(crate) enum Former<'a> {
    /// There must be none. The new one is for its owner only.
    Nothing,
    /// Any file or none. The new one is for its owner only.
    Any,
    /// This one, whose owner, mode and ACL the new one gets.
    Like(&'a File),
}

/// Writes a file. The name may be lost in a crash until [`sync_folder_of`] has ended.
///
/// # Errors
/// Those of the file system, after which the former file is in its place; `AlreadyExists` if there is one that must not
/// be there.
pub(crate) fn write(place: &Path, bytes: &[u8], former: Former<'_>) -> io::Result<()> {
    let draft = draft_of(place)?;
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&draft)?;
    let written = write_draft(file, bytes, former).and_then(|()| match former {
        Former::Nothing => rename_to_new(&draft, place),
        Former::Any | Former::Like(_) => fs::rename(&draft, place),
    });
    if written.is_err() {
        let _ = fs::remove_file(&draft);
    }
    written
}

/// Makes the names in a file's folder durable.
///
/// # Errors
/// Those of the file system; some cannot sync a folder.
pub(crate) fn sync_folder_of(place: &Path) -> io::Result<()> {
    let folder = place.parent().filter(|it| !it.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// A hidden file beside this one, with a name that no other process chooses.
fn draft_of(place: &Path) -> io::Result<PathBuf> {
    let mut number = [0; 4];
    rand::fill(&mut number).map_err(|_| io::Error::other("there are no random numbers"))?;
    let name = place.file_name();
    let name = name.ok_or_else(|| io::Error::from(Errno::ISDIR))?;
    let mut draft = OsString::from(".");
    draft.push(name);
    draft.push(format!(".{:08x}", u32::from_be_bytes(number)));
    Ok(place.with_file_name(draft))
}

/// Removes the drafts that crashes have left in a folder of one process.
///
/// # Errors
/// Those of the file system.
pub(crate) fn remove_drafts(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if is_draft(&entry.file_name()) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Returns whether a name is one of [`draft_of`].
fn is_draft(name: &OsStr) -> bool {
    let name = name.to_str().and_then(|name| name.strip_prefix('.'));
    let number = name.and_then(|name| name.rsplit_once('.'));
    number.is_some_and(|(_, number)| {
        number.len() == 8 && number.bytes().all(|digit| digit.is_ascii_hexdigit())
    })
}

/// Renames a file, and fails if there is a file of the new name.
fn rename_to_new(draft: &Path, place: &Path) -> io::Result<()> {
    match renameat_with(CWD, draft, CWD, place, RenameFlags::NOREPLACE) {
        // The file system or the kernel has no such flag.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            fs::hard_link(draft, place)?;
            // The new file is in its place; the name of the draft that may be left is for the owner only.
            let _ = fs::remove_file(draft);
            Ok(())
        }
        renamed => Ok(renamed?),
    }
}

fn write_draft(mut file: File, bytes: &[u8], former: Former<'_>) -> io::Result<()> {
    if let Former::Like(old) = former {
        let (new, found) = (file.metadata()?, old.metadata()?);
        if (new.uid(), new.gid()) != (found.uid(), found.gid()) {
            fchown(&file, Some(found.uid()), Some(found.gid()))?;
        }
        copy_acl(old, &file)?;
        file.set_permissions(Permissions::from_mode(found.mode() & 0o777))?;
    }
    file.write_all(bytes)?;
    file.sync_all()
}

/// Gives a file the POSIX ACL of another one, or none. With an ACL the group's bits of a mode are its mask, so the mode
/// alone would open the file to the group; and an ACL that comes from the folder would open it to others.
fn copy_acl(from: &File, to: &File) -> io::Result<()> {
    let mut acl = vec![0; XATTR_MAX];
    let copied = match fgetxattr(from, ACL, &mut acl[..]) {
        Ok(length) => fsetxattr(to, ACL, &acl[..length], XattrFlags::empty()),
        Err(Errno::NODATA | Errno::OPNOTSUPP) => match fremovexattr(to, ACL) {
            Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(()),
            removed => removed,
        },
        Err(error) => Err(error),
    };
    Ok(copied?)
}
