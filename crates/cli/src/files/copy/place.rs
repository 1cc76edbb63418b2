//! DEST: where the copy goes, as in `cp`.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use scrim_foreign::Foreign;

use super::names;
use super::target;
use crate::error::CliError;
use crate::files::location::Location;

/// The place of a copy.
#[derive(Debug)]
pub(super) enum Place {
    /// A name in a folder.
    Named {
        folder: OwnedFd,
        /// The folder's path, for messages.
        path: PathBuf,
        name: Vec<u8>,
    },
    /// A folder that exists, and that the source's files go into.
    Folder { folder: OwnedFd, path: PathBuf },
}

/// Options and facts that decide on the place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Copied<'a> {
    /// Last name of the source; `None` for the root.
    pub(super) name: Option<&'a [u8]>,
    pub(super) is_folder: bool,
    /// True if DEST is never the folder that the source's name goes into.
    pub(super) to_itself: bool,
}

impl Place {
    /// Finds the place that DEST means: in a folder that exists, under the source's name; or DEST itself.
    pub(super) fn of(dest: &Path, copied: Copied<'_>) -> Result<Self, CliError> {
        let shown = dest.display();
        if !dest.is_dir() {
            return Self::new_name(dest, copied);
        }
        let folder = open(dest)?;
        let path = dest.to_owned();
        match (copied.name, copied.is_folder) {
            (None, true) => Ok(Self::Folder { folder, path }),
            (_, true) if copied.to_itself => Ok(Self::Folder { folder, path }),
            (Some(name), _) if !copied.to_itself => {
                if let Some(reason) = names::refused(name) {
                    let name = Foreign::new(name);
                    return Err(CliError::usage(format!(
                        "{name} is not copied into {shown}: {reason}"
                    )));
                }
                let name = name.to_vec();
                Ok(Self::Named { folder, path, name })
            }
            _ => Err(CliError::usage(format!(
                "{shown} is a folder; give a name for the file in it"
            ))),
        }
    }

    fn new_name(dest: &Path, copied: Copied<'_>) -> Result<Self, CliError> {
        let shown = dest.display();
        let name = dest.file_name().unwrap_or_default().as_bytes().to_vec();
        let ends_with_slash = dest.as_os_str().as_bytes().ends_with(b"/");
        if name.is_empty() || ends_with_slash && !copied.is_folder {
            return Err(CliError::usage(format!(
                "{shown} is no folder; make it first, or leave the slash out"
            )));
        }
        let path = match dest.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        if !path.is_dir() && is_in_image(dest) {
            return Err(CliError::usage(format!(
                "{shown} is a path in a volume, and files are only copied out of volumes; name a folder as DEST"
            )));
        }
        Ok(Self::Named {
            folder: open(path)?,
            path: path.to_owned(),
            name,
        })
    }
}

/// Returns whether a name means a file in a volume, as the source's does.
fn is_in_image(dest: &Path) -> bool {
    Location::parse(dest.as_os_str()).is_ok_and(|place| place.image.is_file())
}

/// A path below a folder, for messages.
pub(super) fn below(folder: &Path, name: &[u8]) -> PathBuf {
    match folder == Path::new(".") {
        true => PathBuf::from(OsStr::from_bytes(name)),
        false => folder.join(OsStr::from_bytes(name)),
    }
}

fn open(path: &Path) -> Result<OwnedFd, CliError> {
    target::open_named(path).map_err(|error| {
        let told = CliError::io(format_args!("copy into {}", path.display()), &error);
        match error.kind() {
            ErrorKind::NotFound => told.followed_by("; make the folder first"),
            _ => told,
        }
    })
}
