//! All folders that a site serves, in one name space: local folders, and folders in volumes.

use std::ops::ControlFlow;

use http::StatusCode;

use super::error::SiteError;
use super::folder::{FolderTree, ProbeError};
use super::node::{EntryInfo, Folder, FolderEntry, Node};
use super::path::FilePath;
use super::settings::{Mount, Root, Settings, Symlinks};
use super::volume::VolumeTree;
use crate::files::{OpenFile, StorageError};

/// The root folder of a site and its mounts.
#[derive(Debug)]
pub(super) struct Tree {
    /// Folders at other paths than the root; longer paths come first.
    mounts: Vec<(FilePath, Branch)>,
    root: Branch,
    /// True if names that begin with a dot are served.
    dot_files: bool,
}

#[derive(Debug)]
enum Branch {
    Folder(FolderTree),
    Volume(VolumeTree),
}

impl Tree {
    /// Opens the root and all mounts of a site.
    pub(super) fn open(settings: &Settings) -> Result<Self, SiteError> {
        let Settings {
            root,
            mounts,
            symlinks,
            dot_files,
            ..
        } = settings;
        let symlinks = *symlinks;
        let mut opened: Vec<(FilePath, Branch)> = Vec::new();
        for Mount { at, root } in mounts {
            let wrong = || SiteError::Mount { at: at.clone() };
            let path = FilePath::parse(at).map_err(|_| wrong())?;
            let is_taken = opened
                .iter()
                .any(|(other, _)| other.as_bytes() == path.as_bytes());
            if path.as_bytes().is_empty() || is_taken || at.contains(['?', '#', '%']) {
                return Err(wrong());
            }
            opened.push((path, Branch::open(root, symlinks)?));
        }
        opened.sort_by_key(|(path, _)| std::cmp::Reverse(path.as_bytes().len()));
        Ok(Self {
            mounts: opened,
            root: Branch::open(root, symlinks)?,
            dot_files: *dot_files,
        })
    }

    pub(super) fn has_volumes(&self) -> bool {
        let mut branches = self.mounts.iter().map(|(_, branch)| branch);
        let is_volume = |branch: &Branch| matches!(branch, Branch::Volume(_));
        is_volume(&self.root) || branches.any(is_volume)
    }

    /// Reads a little of the storage of each branch.
    pub(super) fn check_storage(&self) -> Result<(), StorageError> {
        let mounts = self.mounts.iter().map(|(_, branch)| branch);
        let mut branches = std::iter::once(&self.root).chain(mounts);
        branches.try_for_each(Branch::check_storage)
    }

    /// Resolves a path to a file or folder.
    pub(super) fn find(&self, path: &FilePath) -> Result<Node, StatusCode> {
        match self.branch(path) {
            (Branch::Folder(tree), rest) => tree.find(rest),
            (Branch::Volume(tree), rest) => tree.find(rest),
        }
    }

    /// Finds the files whose names are that of `path` with each of `endings` appended, except those that a mount hides.
    /// The results are in the order of `endings`.
    pub(super) fn find_beside(&self, path: &FilePath, endings: &[&str]) -> Vec<Option<OpenFile>> {
        if endings.is_empty() {
            return Vec::new();
        }
        let beside = |ending: &&str| path.with_extension(ending);
        let mut found = match self.branch(path) {
            (Branch::Volume(tree), rest) => tree.find_beside(rest, endings).unwrap_or_default(),
            (Branch::Folder(tree), rest) => {
                let find = |ending: &&str| match tree.find(&[rest, ending.as_bytes()].concat()) {
                    Ok(Node::File(file)) => Some(file),
                    _ => None,
                };
                endings.iter().map(find).collect()
            }
        };
        for (file, ending) in found.iter_mut().zip(endings) {
            if self
                .mounts
                .iter()
                .any(|(at, _)| at.as_bytes() == beside(ending).as_bytes())
            {
                *file = None;
            }
        }
        found
    }

    /// Calls `each` for the entries of the folder that was found at `path`, until it breaks. Names that begin with a dot
    /// are left out unless the site serves them, so that no caller shows what a request would not get.
    pub(super) fn names(
        &self,
        folder: &Folder,
        path: &FilePath,
        each: &mut dyn FnMut(FolderEntry<'_>) -> ControlFlow<()>,
    ) -> Result<(), StatusCode> {
        let mut each = |entry: FolderEntry<'_>| match entry.bytes {
            [b'.', ..] if !self.dot_files => ControlFlow::Continue(()),
            _ => each(entry),
        };
        let here: Vec<_> = self.mounts_in(path).collect();
        for name in &here {
            let looked = self.look_at_mount(path, name);
            let name = FolderEntry {
                bytes: name,
                look: &|| Ok(looked),
            };
            if each(name).is_break() {
                return Ok(());
            }
        }
        let mut others = |name: FolderEntry<'_>| match here.contains(&name.bytes) {
            true => ControlFlow::Continue(()),
            false => each(name),
        };
        match (self.branch(path), folder) {
            ((Branch::Folder(tree), rest), Folder::Open(file)) => {
                tree.names(file, rest, &mut others)
            }
            ((Branch::Volume(tree), _), Folder::InVolume(found)) => tree.names(found, &mut others),
            _ => Err(StatusCode::INTERNAL_SERVER_ERROR),
        }
    }

    /// Names of the mounts directly below a folder.
    fn mounts_in(&self, path: &FilePath) -> impl Iterator<Item = &[u8]> {
        self.mounts
            .iter()
            .filter_map(|(at, _)| below(at.as_bytes(), path.as_bytes()))
            .filter(|name| !name.is_empty() && !name.contains(&b'/'))
    }

    fn look_at_mount(&self, path: &FilePath, name: &[u8]) -> Option<EntryInfo> {
        let name = std::str::from_utf8(name).ok()?;
        match self.branch(&path.child(name)).0 {
            Branch::Folder(_) => Some(EntryInfo::unknown_folder()),
            Branch::Volume(tree) => Some(tree.look_at_root()),
        }
    }

    /// Finds the branch that has a path, and the rest of the path below that branch.
    fn branch<'a>(&self, path: &'a FilePath) -> (&Branch, &'a [u8]) {
        let path = path.as_bytes();
        let found = self
            .mounts
            .iter()
            .find_map(|(at, branch)| Some((branch, below(path, at.as_bytes())?)));
        found.unwrap_or((&self.root, path))
    }
}

impl Branch {
    fn open(root: &Root, symlinks: Symlinks) -> Result<Self, SiteError> {
        match root {
            Root::Folder(path) => {
                let tree = FolderTree::open(path, symlinks).map_err(|error| SiteError::Root {
                    path: path.clone(),
                    source: error.into(),
                })?;
                tree.probe().map_err(|fault| match fault {
                    ProbeError::Refused(error) => SiteError::RootRefused {
                        path: path.clone(),
                        source: error.into(),
                    },
                    ProbeError::NoOpenat2(error) => SiteError::NoOpenat2 {
                        source: error.into(),
                    },
                })?;
                Ok(Self::Folder(tree))
            }
            Root::Volume { files, path } => {
                VolumeTree::open(files, path, symlinks).map(Self::Volume)
            }
        }
    }

    fn check_storage(&self) -> Result<(), StorageError> {
        match self {
            Self::Folder(tree) => tree.check_storage(),
            Self::Volume(tree) => tree.check_storage(),
        }
    }
}

/// Rest of a path below a folder: empty if it is the folder, `None` if it is elsewhere.
fn below<'a>(path: &'a [u8], folder: &[u8]) -> Option<&'a [u8]> {
    if folder.is_empty() {
        return Some(path);
    }
    match path.strip_prefix(folder)? {
        [] => Some(&[]),
        [b'/', rest @ ..] => Some(rest),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn names_that_begin_with_a_dot_are_left_out_unless_they_are_served() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["a", ".b", "..c"] {
            fs::write(folder.path().join(name), "").expect("a file");
        }
        let mut settings = Settings::new(folder.path());
        settings.mounts = vec![Mount {
            at: "/.m".into(),
            root: Root::Folder(folder.path().into()),
        }];
        let path = FilePath::parse("/").expect("a path");
        for (dot_files, wanted) in [(false, &["a"][..]), (true, &["..c", ".b", ".m", "a"])] {
            settings.dot_files = dot_files;
            let tree = Tree::open(&settings).expect("a tree");
            let Ok(Node::Folder(root)) = tree.find(&path) else {
                panic!("the root is a folder");
            };
            let mut names = Vec::new();
            let read = tree.names(&root, &path, &mut |entry| {
                names.push(String::from_utf8_lossy(entry.bytes).into_owned());
                ControlFlow::Continue(())
            });
            names.sort();
            assert_eq!(read, Ok(()));
            assert_eq!(names, wanted);
        }
    }
}
