//! Names of a folder's entries, for an archive of it.

use std::ops::ControlFlow;

use http::StatusCode;

use super::node::Folder;
use super::path::FilePath;
use super::tree::Tree;

/// Limit in bytes on the names that wait for their turn: those of a folder with some 100,000 files.
pub(super) const WAITING_MAX: usize = 8 << 20;

/// Bytes that a waiting name takes besides its text.
pub(super) const NAME_OVERHEAD: usize = 32;

/// Names of a folder that wait for their turn.
#[derive(Debug)]
pub struct FolderNames {
    pub(super) path: FilePath,
    /// Time of the folder's last change, in seconds since 1970.
    pub(super) modified: i64,
    /// The names, the next one last.
    pub(super) names: Vec<Box<[u8]>>,
    /// Bytes that they take.
    pub(super) bytes: usize,
}

impl FolderNames {
    /// Reads the names of a folder that its site would serve.
    pub(super) fn read(tree: &Tree, folder: &Folder, path: &FilePath) -> Result<Self, StatusCode> {
        let (mut names, mut bytes) = (Vec::<Box<[u8]>>::new(), 0);
        let mut failed = None;
        tree.names(folder, path, &mut |entry| {
            match (entry.look)() {
                Ok(Some(info)) if !(info.is_link && info.is_folder) => {
                    names.push(entry.bytes.into());
                    bytes += entry.bytes.len() + NAME_OVERHEAD;
                }
                Ok(_) => {}
                Err(status) => failed = Some(status),
            }
            if bytes > WAITING_MAX {
                failed = Some(StatusCode::SERVICE_UNAVAILABLE);
            }
            match failed {
                None => ControlFlow::Continue(()),
                Some(_) => ControlFlow::Break(()),
            }
        })?;
        names.sort_unstable_by(|one, other| other.cmp(one));
        let (path, modified) = (path.clone(), folder.modified());
        let read = Self {
            path,
            modified,
            names,
            bytes,
        };
        failed.map_or(Ok(read), Err)
    }
}

/// Returns whether a target asks for an archive of a folder.
pub(super) fn archive_is_wanted(target: &str) -> bool {
    let query = target.split_once('?').map_or("", |(_, query)| query);
    query.split('&').any(|parameter| parameter == "archive=tar")
}
