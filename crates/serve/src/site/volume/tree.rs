//! The way from a path to a file of a file system, and what it may not leave.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use http::StatusCode;
use scrim_ext4::{Budget, Error, FileSystem, Inode, Kind, Patience, ROOT};

use super::{VolumeFile, VolumeFiles};
use crate::site::settings::Symlinks;
use crate::site::tree::{Folder, Looked, Name, Node};
use crate::site::{OpenFile, SiteError};

/// Most symbolic links on a path, as in the kernel.
const LINKS_MAX: usize = 40;
/// Most names on a path, including those of links, and most folders that a path may lead down.
const NAMES_MAX: usize = 4096;
const DEPTH_MAX: usize = 512;
/// Most bytes of folders that are looked through for a path, about four million names; and for all links of a
/// listing together.
const SEARCHED: u64 = 256 << 20;
const SEARCHED_FOR_LINKS: u64 = 1 << 30;
/// Bytes of that budget that each step of a path counts for, and each name of a link.
const STEP_COST: u64 = 128;

/// A folder of a volume's file system that is served.
#[derive(Debug)]
pub(in crate::site) struct VolumeTree {
    files: Arc<VolumeFiles>,
    path: Box<[u8]>,
    symlinks: Symlinks,
    found: Mutex<Found>,
}

/// A file or folder that was found, and the way to it.
#[derive(Debug, Clone)]
pub(in crate::site) struct Found {
    fs: Arc<FileSystem>,
    /// Inodes from the file system's root to what was found.
    trail: Vec<Arc<Inode>>,
    /// Length of the part of `trail` that leads to the folder that is served, which links within may not leave.
    floor: usize,
}

/// A walk along a path that has not ended.
struct Walk<'a> {
    fs: &'a FileSystem,
    /// Inodes that have been passed, from the file system's root on.
    trail: Vec<Arc<Inode>>,
    floor: usize,
    /// Names that are still to come; the next name is the last.
    names: Vec<Box<[u8]>>,
    /// Number of links that have been followed.
    links: usize,
    symlinks: Symlinks,
    budget: &'a Budget,
}

impl VolumeTree {
    /// A folder of a file system, by the way from its root.
    pub(in crate::site) fn open(
        files: &Arc<VolumeFiles>,
        path: &[u8],
        symlinks: Symlinks,
    ) -> Result<Self, SiteError> {
        let failed = |source| SiteError::VolumeRoot {
            path: format!(
                "{}#/{}",
                files.identity.name,
                path.strip_prefix(b"/").unwrap_or(path).escape_ascii()
            ),
            source,
        };
        let fs = files.now().map_err(|error| failed(Some(error)))?;
        match Found::look(fs, path) {
            Ok(Some(found)) => Ok(Self {
                files: Arc::clone(files),
                path: path.into(),
                symlinks,
                found: Mutex::new(found),
            }),
            Ok(None) => Err(failed(None)),
            Err(error) => Err(failed(Some(error))),
        }
    }

    /// The folder as it is now; nothing if it has gone.
    fn now(&self) -> Result<Option<Found>, Error> {
        let fs = self.files.now()?;
        let lock = || self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let known = lock().clone();
        if Arc::ptr_eq(&known.fs, &fs) {
            return Ok(Some(known));
        }
        let fresh = Found::look(fs, &self.path)?;
        if let Some(fresh) = &fresh {
            *lock() = fresh.clone();
        }
        Ok(fresh)
    }

    /// Finds a file or a folder.
    pub(in crate::site) fn find(&self, path: &[u8]) -> Result<Node, StatusCode> {
        let failed = |error| self.files.status(&error);
        let here = self.now().map_err(failed)?.ok_or(StatusCode::NOT_FOUND)?;
        let budget = Budget::new(SEARCHED);
        let found = here.walk(path, self.symlinks, &budget).map_err(failed)?;
        let found = found.ok_or(StatusCode::NOT_FOUND)?;
        match found.last().map(|inode| inode.kind()) {
            Some(Kind::Folder) => Ok(Node::Folder(Folder::InVolume(found))),
            Some(Kind::File) => self.open_file(&found).map(Node::File),
            _ => Err(StatusCode::NOT_FOUND),
        }
    }

    /// Finds files beside one, by what follows its name in theirs. Each stands where its ending does.
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
        let here = self.now().map_err(failed)?.ok_or(StatusCode::NOT_FOUND)?;
        let budget = Budget::new(SEARCHED);
        let parent = here.walk(parent, self.symlinks, &budget).map_err(failed)?;
        let parent = parent.ok_or(StatusCode::NOT_FOUND)?;
        let folder = parent.last().ok_or(StatusCode::NOT_FOUND)?;
        let names = endings
            .iter()
            .map(|ending| [name, ending.as_bytes()].concat());
        let names: Vec<_> = names.collect();
        let names: Vec<_> = names.iter().map(Vec::as_slice).collect();
        let numbers = parent
            .fs
            .lookup_all(folder, &names, &budget)
            .map_err(failed)?;
        let open = |number| {
            let found = parent.enter(number, self.symlinks, &budget);
            let found = found.map_err(failed).ok()??;
            let is_file = found.last()?.kind() == Kind::File;
            is_file.then(|| self.open_file(&found).ok())?
        };
        Ok(numbers.into_iter().map(|number| open(number?)).collect())
    }

    fn open_file(&self, found: &Found) -> Result<OpenFile, StatusCode> {
        let inode = found.last().ok_or(StatusCode::NOT_FOUND)?;
        let readable = inode.check_readable();
        readable.map_err(|error| self.files.status(&error))?;
        let file = VolumeFile::new(&self.files, Arc::clone(&found.fs), Arc::clone(inode));
        Ok(OpenFile::of_volume(file))
    }

    /// Calls `each` for the names in a folder, until it has had enough.
    pub(in crate::site) fn names(
        &self,
        folder: &Found,
        each: &mut dyn FnMut(Name<'_>) -> ControlFlow<()>,
    ) -> Result<(), StatusCode> {
        let failed = |error| self.files.status(&error);
        let inode = folder.last().ok_or(StatusCode::NOT_FOUND)?;
        let for_links = Budget::new(SEARCHED_FOR_LINKS);
        let read = folder.fs.entries(inode, &Budget::new(SEARCHED), |entry| {
            let look = || self.look(folder, entry.inode, &for_links).map_err(failed);
            each(Name {
                bytes: entry.name,
                look: &look,
            })
        });
        read.map_err(failed)
    }

    /// The folder itself, as it was when it was found.
    pub(in crate::site) fn look_at_root(&self) -> Looked {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let modified = found.last().map(|inode| inode.modified());
        Looked {
            is_folder: true,
            size: 0,
            modified: modified.map_or(0, |(seconds, _)| seconds),
        }
    }

    /// Looks at an entry of a folder. Links lead on from the folder as it is open, and are counted from there.
    fn look(&self, folder: &Found, number: u32, budget: &Budget) -> Result<Option<Looked>, Error> {
        let mut inode = Arc::new(folder.fs.inode(number, Patience::Wait)?);
        if inode.kind() == Kind::Link {
            let target = folder.enter(number, self.symlinks, budget)?;
            match target.and_then(|target| target.last().cloned()) {
                Some(target) => inode = target,
                None => return Ok(None),
            }
        }
        let is_folder = match inode.kind() {
            Kind::Folder => true,
            Kind::File => false,
            Kind::Link | Kind::Other => return Ok(None),
        };
        Ok(Some(Looked {
            is_folder,
            size: inode.size(),
            modified: inode.modified().0,
        }))
    }
}

impl Found {
    /// A folder by its path from the root; `None` if it does not exist.
    fn look(fs: Arc<FileSystem>, path: &[u8]) -> Result<Option<Self>, Error> {
        let root = Arc::new(fs.inode(ROOT, Patience::Wait)?);
        let root = Self {
            fs,
            trail: vec![root],
            floor: 1,
        };
        // Its owner has named it.
        let found = root.walk(path, Symlinks::Any, &Budget::new(SEARCHED))?;
        let found = found.filter(|found| found.last().is_some_and(|inode| inode.is_folder()));
        Ok(found.map(|found| Self {
            floor: found.trail.len(),
            ..found
        }))
    }

    fn last(&self) -> Option<&Arc<Inode>> {
        self.trail.last()
    }

    /// Follows a path from here.
    fn walk(
        &self,
        path: &[u8],
        symlinks: Symlinks,
        budget: &Budget,
    ) -> Result<Option<Self>, Error> {
        let mut walk = self.start(symlinks, budget);
        walk.push_names(path);
        Ok(self.found(walk.go()?))
    }

    /// Follows an entry of this folder.
    fn enter(
        &self,
        number: u32,
        symlinks: Symlinks,
        budget: &Budget,
    ) -> Result<Option<Self>, Error> {
        let mut walk = self.start(symlinks, budget);
        match walk.enter(number)? {
            true => Ok(self.found(walk.go()?)),
            false => Ok(None),
        }
    }

    fn start<'a>(&'a self, symlinks: Symlinks, budget: &'a Budget) -> Walk<'a> {
        Walk {
            fs: &self.fs,
            trail: self.trail.clone(),
            floor: self.floor,
            names: Vec::new(),
            links: 0,
            symlinks,
            budget,
        }
    }

    fn found(&self, trail: Option<Vec<Arc<Inode>>>) -> Option<Self> {
        trail.map(|trail| Self {
            fs: Arc::clone(&self.fs),
            trail,
            floor: self.floor,
        })
    }
}

impl Walk<'_> {
    /// Follows the path to its end, which is the last of the inodes that it returns. `None` if there is nothing, or the
    /// path may not lead there.
    fn go(mut self) -> Result<Option<Vec<Arc<Inode>>>, Error> {
        let mut passed = 0;
        while let Some(name) = self.names.pop() {
            passed += 1;
            if passed > NAMES_MAX || self.trail.len() > DEPTH_MAX {
                return Ok(None);
            }
            match &*name {
                b"" | b"." => continue,
                b".." => {
                    if !self.go_up() {
                        return Ok(None);
                    }
                    continue;
                }
                _ => {}
            }
            let Some(folder) = self.trail.last().filter(|inode| inode.is_folder()) else {
                return Ok(None);
            };
            match self.fs.lookup(folder, &name, self.budget)? {
                Some(number) if self.enter(number)? => {}
                _ => return Ok(None),
            }
        }
        Ok(Some(self.trail))
    }

    /// Goes on to an entry of the folder, or to the target of a link. Returns whether it may.
    fn enter(&mut self, number: u32) -> Result<bool, Error> {
        let cost = STEP_COST + u64::from(self.fs.inode_size());
        self.budget.take(cost, number)?;
        let inode = self.fs.inode(number, Patience::Wait)?;
        if inode.kind() != Kind::Link {
            self.trail.push(Arc::new(inode));
            return Ok(true);
        }
        self.links += 1;
        if self.links > LINKS_MAX || self.symlinks == Symlinks::None {
            return Ok(false);
        }
        let target = self.fs.target(&inode)?;
        let names = target.split(|&byte| byte == b'/').count();
        self.budget.take(names as u64 * STEP_COST, number)?;
        Ok(self.follow(&target))
    }

    /// Returns whether there is a folder above that may be entered. The root's is the root.
    fn go_up(&mut self) -> bool {
        if self.trail.len() > self.floor || self.symlinks == Symlinks::Any {
            if self.trail.len() > 1 {
                self.trail.pop();
            }
            return true;
        }
        false
    }

    fn follow(&mut self, target: &[u8]) -> bool {
        let is_absolute = target.starts_with(b"/");
        match self.symlinks {
            Symlinks::None => return false,
            Symlinks::Within if is_absolute => return false,
            Symlinks::Any if is_absolute => self.trail.truncate(1),
            Symlinks::Within | Symlinks::Any => {}
        }
        self.push_names(target);
        true
    }

    fn push_names(&mut self, path: &[u8]) {
        let names = path.split(|&byte| byte == b'/').rev();
        self.names.extend(names.map(Box::from));
    }
}
