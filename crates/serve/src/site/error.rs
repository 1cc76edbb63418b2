//! Reasons for which a site cannot be served.

use std::path::PathBuf;
use std::{fmt, io};

/// A site does not start.
#[derive(Debug)]
#[non_exhaustive]
pub enum SiteError {
    /// The folder cannot be opened.
    Root { path: PathBuf, source: io::Error },
    /// The folder is there, and its permissions keep this user out.
    RootRefused { path: PathBuf, source: io::Error },
    /// The file system in a volume has no such folder.
    VolumeRoot {
        path: String,
        /// The reason, if it is not just missing.
        source: Option<scrim_files::Error>,
    },
    /// The path of a mount is malformed.
    Mount { at: String },
    /// The kernel, or a filter of its calls, has no `openat2`.
    NoOpenat2 {
        /// Error of the operating system.
        source: io::Error,
    },
    /// A name for index files has a slash, or is not a name.
    Index { name: String },
    /// A fallback that is not a file of the site.
    Fallback { path: String },
    /// A content type that cannot be one.
    Type {
        /// The extension that it is for.
        extension: String,
    },
    /// A rule's `Cache-Control` that cannot be one.
    Rule { pattern: String },
    /// A field that the server sets by itself.
    Field { name: String },
    /// A page for a number that is not the status of an error.
    Status { status: u16 },
    /// A page for a status cannot be read.
    Page { path: PathBuf, source: io::Error },
    /// A page for a status is longer than 1 MiB.
    PageTooLong { path: PathBuf },
}

impl fmt::Display for SiteError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root { path, .. } => write!(
                out,
                "{}: cannot be opened as a folder to serve; give one that this user may enter",
                path.display()
            ),
            Self::RootRefused { path, .. } => write!(
                out,
                "{}: the user of this server may not enter this folder to serve; allow it to (chmod or setfacl, read \
                 and execute), or name another folder",
                path.display()
            ),
            Self::VolumeRoot { path, source: None } => {
                write!(out, "{path}: the volume has no such folder; name one that exists in it")
            }
            Self::VolumeRoot {
                path,
                source: Some(_),
            } => write!(out, "{path}: this folder of the volume cannot be opened"),
            Self::Mount { at } => write!(
                out,
                "nothing can be served below {at:?}: give a path such as /backup, without . and .., and only once"
            ),
            Self::NoOpenat2 { .. } => out.write_str(
                "the kernel cannot confine paths to the site's folder: this needs the system call openat2. Use Linux \
                 5.6 or newer, and allow openat2 if a seccomp filter is active",
            ),
            Self::Index { name } => {
                write!(out, "{name:?} is not the name of an index file: give a file name without slashes")
            }
            Self::Fallback { path } => write!(
                out,
                "fallback: the site serves no file {path:?}: name one by its path from the root on, such as /index.html"
            ),
            Self::Type { extension } => write!(
                out,
                "the content type for .{extension} is not valid; give one such as text/plain"
            ),
            Self::Rule { pattern } => write!(
                out,
                "the cache rule for {pattern} is not a value of Cache-Control; give one such as max-age=3600"
            ),
            Self::Field { name } => {
                write!(out, "the field {name} is set by the server itself: leave it out")
            }
            Self::Status { status } => {
                write!(out, "{status} is not the status of an error; give one from 400 to 599")
            }
            Self::Page { path, .. } => {
                write!(out, "{}: the error page cannot be read; name a file that this user may read", path.display())
            }
            Self::PageTooLong { path } => write!(
                out,
                "{}: the error page is longer than 1 MiB; give a shorter one",
                path.display()
            ),
        }
    }
}

impl std::error::Error for SiteError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Root { source, .. }
            | Self::RootRefused { source, .. }
            | Self::NoOpenat2 { source }
            | Self::Page { source, .. } => Some(source),
            Self::VolumeRoot { source, .. } => {
                let source = source.as_ref();
                source.map(|error| error as &(dyn std::error::Error + 'static))
            }
            Self::Mount { .. }
            | Self::Index { .. }
            | Self::Fallback { .. }
            | Self::Type { .. }
            | Self::Rule { .. }
            | Self::Field { .. }
            | Self::Status { .. }
            | Self::PageTooLong { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;

    #[test]
    fn an_error_leaves_its_source_to_those_who_print_it() {
        let source = || io::Error::from_raw_os_error(rustix::io::Errno::ACCESS.raw_os_error());
        let path = || PathBuf::from("/srv/files");
        for error in [
            SiteError::Root {
                path: path(),
                source: source(),
            },
            SiteError::RootRefused {
                path: path(),
                source: source(),
            },
            SiteError::NoOpenat2 { source: source() },
            SiteError::Page {
                path: path(),
                source: source(),
            },
        ] {
            let said = error.source().map(ToString::to_string).expect("a source");
            assert!(said.starts_with("Permission denied"), "{said}");
            let text = error.to_string().to_lowercase();
            assert!(!text.contains("permission denied"), "{text}");
        }
    }
}
