//! Path resolution in a volume's file system: follows names and symbolic links, and does not leave the served folder.

use std::sync::Arc;

use scrim_ext4::{Budget, Error, FileSystem, Inode, Kind, Patience, ROOT};

use crate::site::settings::Symlinks;

/// Limit on the symbolic links of a path, as in the kernel.
const LINKS_MAX: usize = 40;
/// Limit on the names of a path, including those of links, and on the depth of folders.
const NAMES_MAX: usize = 4096;
const DEPTH_MAX: usize = 512;
/// Bytes of folders that may be searched for one path: about four million names.
pub(super) const SEARCH_BYTES_MAX: u64 = 256 << 20;
/// Bytes of that budget that each step of a path counts for, and each name of a link.
const STEP_COST: u64 = 128;

/// A file or folder, with the inodes on the path to it.
#[derive(Debug, Clone)]
pub(in crate::site) struct Located {
    pub(super) fs: Arc<FileSystem>,
    /// Inodes from the file system's root to the file or folder.
    trail: Vec<Arc<Inode>>,
    /// Length of the part of `trail` that leads to the served folder. Links of [`Symlinks::Within`] may not go above it.
    floor: usize,
}

/// State of one path resolution.
struct Walk<'a> {
    fs: &'a FileSystem,
    /// Inodes of the path so far, from the file system's root on.
    trail: Vec<Arc<Inode>>,
    floor: usize,
    /// Names that are left, the next one last.
    names: Vec<Box<[u8]>>,
    /// Number of links that have been followed.
    links: usize,
    symlinks: Symlinks,
    budget: &'a Budget,
}

impl Located {
    /// Finds a folder by its path from the root; `None` if it does not exist.
    pub(super) fn folder(fs: Arc<FileSystem>, path: &[u8]) -> Result<Option<Self>, Error> {
        let root = Arc::new(fs.inode(ROOT, Patience::Wait)?);
        let root = Self {
            fs,
            trail: vec![root],
            floor: 1,
        };
        // The operator named this path, so any link is followed.
        let found = root.walk(path, Symlinks::Any, &Budget::new(SEARCH_BYTES_MAX))?;
        let found = found.filter(|found| found.last().is_some_and(|inode| inode.is_folder()));
        Ok(found.map(|found| Self {
            floor: found.trail.len(),
            ..found
        }))
    }

    pub(super) fn last(&self) -> Option<&Arc<Inode>> {
        self.trail.last()
    }

    /// Resolves a path that starts in this folder; `None` if it leads nowhere or outside.
    pub(super) fn walk(
        &self,
        path: &[u8],
        symlinks: Symlinks,
        budget: &Budget,
    ) -> Result<Option<Self>, Error> {
        let mut walk = self.start(symlinks, budget);
        walk.push_names(path);
        Ok(self.located(walk.go()?))
    }

    /// Resolves an entry of this folder, given by its inode.
    pub(super) fn enter(
        &self,
        number: u32,
        symlinks: Symlinks,
        budget: &Budget,
    ) -> Result<Option<Self>, Error> {
        let mut walk = self.start(symlinks, budget);
        match walk.enter(number)? {
            true => Ok(self.located(walk.go()?)),
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

    fn located(&self, trail: Option<Vec<Arc<Inode>>>) -> Option<Self> {
        trail.map(|trail| Self {
            fs: Arc::clone(&self.fs),
            trail,
            floor: self.floor,
        })
    }
}

impl Walk<'_> {
    /// Resolves the names that are left; the last inode returned is the path's end. `None` if there is nothing, or if the
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

    /// Enters an inode, or queues the names of a link's target. Returns false if the link may not be followed.
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

    /// Goes to the parent folder; false if that is outside of the served folder. The root's parent is the root.
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
