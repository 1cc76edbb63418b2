//! A served folder of a volume's file system.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use http::StatusCode;
use scrim_files::{Budget, Error, Kind, LastLink, Located, ReadMode, SEARCH_BYTES_MAX};

use crate::files::{OpenFile, StorageError, VolumeFile, VolumeFiles};
use crate::site::error::SiteError;
use crate::site::node::{EntryInfo, Folder, FolderEntry, Node};
use crate::site::settings::Symlinks;

/// Bytes of folders that may be searched for all links of one listing together.
const LINK_SEARCH_BYTES_MAX: u64 = 1 << 30;

/// A folder of a volume's file system, served at some path of a site.
#[derive(Debug)]
pub(in crate::site) struct VolumeTree {
    files: Arc<VolumeFiles>,
    path: Box<[u8]>,
    symlinks: Symlinks,
    folder: Mutex<Located>,
}

impl VolumeTree {
    /// Opens a folder by its path from the file system's root.
    pub(in crate::site) fn open(
        files: &Arc<VolumeFiles>,
        path: &[u8],
        symlinks: Symlinks,
    ) -> Result<Self, SiteError> {
        let failed = |source| SiteError::VolumeRoot {
            path: format!(
                "{}#/{}",
                files.name(),
                path.strip_prefix(b"/").unwrap_or(path).escape_ascii()
            ),
            source,
        };
        let fs = files.file_system().map_err(|error| failed(Some(error)))?;
        match Located::folder(fs, path) {
            Ok(Some(found)) => Ok(Self {
                files: Arc::clone(files),
                path: path.into(),
                symlinks,
                folder: Mutex::new(found),
            }),
            Ok(None) => Err(failed(None)),
            Err(error) => Err(failed(Some(error))),
        }
    }

    /// Reads a block of the file system from the storage.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(in crate::site) fn check_storage(&self) -> Result<(), StorageError> {
        self.files.check_storage()
    }

    /// Current state of the folder, looked up again if the file system was opened anew; `None` if the folder is gone.
    fn current(&self) -> Result<Option<Located>, Error> {
        let fs = self.files.file_system()?;
        let lock = || self.folder.lock().unwrap_or_else(PoisonError::into_inner);
        let known = lock().clone();
        if Arc::ptr_eq(known.file_system(), &fs) {
            return Ok(Some(known));
        }
        let fresh = Located::folder(fs, &self.path)?;
        if let Some(fresh) = &fresh {
            *lock() = fresh.clone();
        }
        Ok(fresh)
    }

    /// Finds a file or a folder.
    pub(in crate::site) fn find(&self, path: &[u8]) -> Result<Node, StatusCode> {
        let failed = |error| self.files.status(&error);
        let here = self
            .current()
            .map_err(failed)?
            .ok_or(StatusCode::NOT_FOUND)?;
        let budget = Budget::new(SEARCH_BYTES_MAX);
        let found = self.walk(&here, path, &budget)?;
        match found.last().kind() {
            Kind::Folder => Ok(Node::Folder(Folder::InVolume(found))),
            Kind::File => self.open_file(&found).map(Node::File),
            _ => Err(StatusCode::NOT_FOUND),
        }
    }

    /// Finds the files whose names are that of `path` with each of `endings` appended; the results are in their order.
    pub(in crate::site) fn find_beside(
        &self,
        path: &[u8],
        endings: &[&str],
    ) -> Result<Vec<Option<OpenFile>>, StatusCode> {
        let failed = |error| self.files.status(&error);
        let (parent, name) = match path.iter().rposition(|&byte| byte == b'/') {
            Some(slash) => (&path[..slash], &path[slash + 1..]),
            None => (&[][..], path),
        };
        let here = self
            .current()
            .map_err(failed)?
            .ok_or(StatusCode::NOT_FOUND)?;
        let budget = Budget::new(SEARCH_BYTES_MAX);
        let parent = self.walk(&here, parent, &budget)?;
        let names = endings
            .iter()
            .map(|ending| [name, ending.as_bytes()].concat());
        let names: Vec<_> = names.collect();
        let names: Vec<_> = names.iter().map(Vec::as_slice).collect();
        let numbers = parent
            .file_system()
            .lookup_all(parent.last(), &names, &budget)
            .map_err(failed)?;
        let open = |number| {
            let found = parent.enter(number, self.symlinks, &budget);
            let found = found.map_err(failed).ok()?.ok()?;
            let is_file = found.last().kind() == Kind::File;
            is_file.then(|| self.open_file(&found).ok())?
        };
        Ok(numbers.into_iter().map(|number| open(number?)).collect())
    }

    fn walk(&self, from: &Located, path: &[u8], budget: &Budget) -> Result<Located, StatusCode> {
        let found = from.walk(path, self.symlinks, LastLink::Follow, budget);
        let found = found.map_err(|error| self.files.status(&error))?;
        found.map_err(|_| StatusCode::NOT_FOUND)
    }

    fn open_file(&self, found: &Located) -> Result<OpenFile, StatusCode> {
        let inode = found.last();
        let readable = inode.check_readable();
        readable.map_err(|error| self.files.status(&error))?;
        let fs = Arc::clone(found.file_system());
        let file = VolumeFile::new(&self.files, fs, Arc::clone(inode));
        Ok(OpenFile::of_volume(file))
    }

    /// Calls `each` for the entries of a folder until it breaks.
    pub(in crate::site) fn names(
        &self,
        folder: &Located,
        each: &mut dyn FnMut(FolderEntry<'_>) -> ControlFlow<()>,
    ) -> Result<(), StatusCode> {
        let failed = |error| self.files.status(&error);
        let for_links = Budget::new(LINK_SEARCH_BYTES_MAX);
        let budget = Budget::new(SEARCH_BYTES_MAX);
        let read = folder
            .file_system()
            .entries(folder.last(), &budget, |entry| {
                let look = || self.look(folder, entry.inode, &for_links).map_err(failed);
                each(FolderEntry {
                    bytes: entry.name,
                    look: &look,
                })
            });
        read.map_err(failed)
    }

    /// Describes the folder itself as it was when it was last looked up.
    pub(in crate::site) fn look_at_root(&self) -> EntryInfo {
        let found = self.folder.lock().unwrap_or_else(PoisonError::into_inner);
        EntryInfo {
            is_link: false,
            is_folder: true,
            size: 0,
            modified: found.last().modified().0,
        }
    }

    /// Describes an entry of a folder. A link is resolved from the folder as it is open; `None` if it leads nowhere.
    fn look(
        &self,
        folder: &Located,
        number: u32,
        budget: &Budget,
    ) -> Result<Option<EntryInfo>, Error> {
        let mut inode = Arc::new(folder.file_system().inode(number, ReadMode::Wait)?);
        let is_link = inode.kind() == Kind::Link;
        if is_link {
            match folder.enter(number, self.symlinks, budget)? {
                Ok(target) => inode = Arc::clone(target.last()),
                Err(_) => return Ok(None),
            }
        }
        let is_folder = match inode.kind() {
            Kind::Folder => true,
            Kind::File => false,
            _ => return Ok(None),
        };
        Ok(Some(EntryInfo {
            is_link,
            is_folder,
            size: inode.size(),
            modified: inode.modified().0,
        }))
    }
}
