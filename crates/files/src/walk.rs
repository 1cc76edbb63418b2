//! Path resolution in a volume's file system: follows names and symbolic links, and does not leave the folder where a
//! path starts.

use std::fmt;
use std::sync::Arc;

use scrim_ext4::{Budget, Error, FileSystem, Inode, Kind, ROOT, ReadMode};
use scrim_foreign::Foreign;

/// Limit on the symbolic links of a path, as in the kernel.
const LINKS_MAX: usize = 40;
/// Limit on the names of a path, including those of links, and on the depth of folders.
const NAMES_MAX: usize = 4096;
const DEPTH_MAX: usize = 512;
/// Bytes of folders that may be searched for one path: about four million names.
pub const SEARCH_BYTES_MAX: u64 = 256 << 20;
/// Bytes of that budget that each step of a path counts for, and each name of a link.
const STEP_COST: u64 = 128;

/// Choice of the symbolic links that are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Symlinks {
    None,
    /// Relative ones that stay below the folder where the path starts.
    Within,
    /// Any, wherever they lead. A user who can make one below the folder decides what is read.
    Any,
}

/// Treatment of a symbolic link that a path ends with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastLink {
    /// The path leads to what the link leads to.
    Follow,
    /// The path leads to the link itself, unless a slash follows its name.
    Keep,
}

/// Reason why a path leads to no file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Missing {
    /// A folder on the way has no entry of this name.
    Name(Box<[u8]>),
    /// The name before this one is not that of a folder. It is empty behind a slash at the end.
    NotInFolder(Box<[u8]>),
    /// More symbolic links than the kernel would follow.
    Links,
    /// A link that may not be followed, or that leads above the folder where the path starts.
    Outside,
    /// More names, or a deeper folder, than is allowed.
    TooLong,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(
                f,
                "there is no {}; `scrim ls` shows the names of its folder",
                Foreign::new(name)
            ),
            Self::NotInFolder(name) if name.is_empty() => f.write_str(
                "a slash follows the name of something that is not a folder; leave it out",
            ),
            Self::NotInFolder(name) => write!(
                f,
                "{} cannot be looked for, since the name before it is not that of a folder",
                Foreign::new(name)
            ),
            Self::Links => write!(
                f,
                "more than {LINKS_MAX} symbolic links have to be followed; name the file by another path"
            ),
            Self::Outside => f.write_str("a symbolic link leads outside, or may not be followed"),
            Self::TooLong => write!(
                f,
                "the path has more than {NAMES_MAX} names, or is deeper than {DEPTH_MAX} folders"
            ),
        }
    }
}

/// A file or folder, with the inodes on the path to it.
#[derive(Debug, Clone)]
pub struct Located {
    fs: Arc<FileSystem>,
    /// Inodes from the file system's root to the file or folder.
    trail: Vec<Arc<Inode>>,
    /// Length of the part of `trail` that leads to the folder where paths start. Links of [`Symlinks::Within`] may not go
    /// above it.
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
    last: LastLink,
    budget: &'a Budget,
}

impl Located {
    /// The root of a file system.
    ///
    /// # Errors
    /// If the device fails, or the root is damaged.
    pub fn root(fs: Arc<FileSystem>) -> Result<Self, Error> {
        let root = Arc::new(fs.inode(ROOT, ReadMode::Wait)?);
        Ok(Self {
            fs,
            trail: vec![root],
            floor: 1,
        })
    }

    /// Finds a folder by its path from the root; `None` if it does not exist. Paths start in it.
    ///
    /// # Errors
    /// If the device fails, or the file system is damaged.
    pub fn folder(fs: Arc<FileSystem>, path: &[u8]) -> Result<Option<Self>, Error> {
        // The operator named this path, so any link is followed.
        let budget = Budget::new(SEARCH_BYTES_MAX);
        let found = Self::root(fs)?.walk(path, Symlinks::Any, LastLink::Follow, &budget)?;
        let found = found.ok().filter(|found| found.last().is_folder());
        Ok(found.map(|found| Self {
            floor: found.trail.len(),
            ..found
        }))
    }

    /// The file system that it is in.
    #[must_use]
    pub fn file_system(&self) -> &Arc<FileSystem> {
        &self.fs
    }

    /// The inode at the end of the path.
    #[must_use]
    pub fn last(&self) -> &Arc<Inode> {
        &self.trail[self.trail.len() - 1]
    }

    /// The inode of the folder that it was found in; the root's is the root.
    #[must_use]
    pub fn parent(&self) -> &Arc<Inode> {
        &self.trail[self.trail.len().saturating_sub(2)]
    }

    /// Resolves a path that starts in this folder.
    ///
    /// # Errors
    /// If the device fails, the file system is damaged, or the budget is used up.
    pub fn walk(
        &self,
        path: &[u8],
        symlinks: Symlinks,
        last: LastLink,
        budget: &Budget,
    ) -> Result<Result<Self, Missing>, Error> {
        let mut walk = self.start(symlinks, last, budget);
        walk.push_names(path);
        Ok(walk.go()?.map(|trail| self.located(trail)))
    }

    /// Resolves an entry of this folder, given by its inode.
    ///
    /// # Errors
    /// As for [`Located::walk`].
    pub fn enter(
        &self,
        number: u32,
        symlinks: Symlinks,
        budget: &Budget,
    ) -> Result<Result<Self, Missing>, Error> {
        let mut walk = self.start(symlinks, LastLink::Follow, budget);
        match walk.enter(number)? {
            Ok(()) => Ok(walk.go()?.map(|trail| self.located(trail))),
            Err(missing) => Ok(Err(missing)),
        }
    }

    fn start<'a>(&'a self, symlinks: Symlinks, last: LastLink, budget: &'a Budget) -> Walk<'a> {
        Walk {
            fs: &self.fs,
            trail: self.trail.clone(),
            floor: self.floor,
            names: Vec::new(),
            links: 0,
            symlinks,
            last,
            budget,
        }
    }

    fn located(&self, trail: Vec<Arc<Inode>>) -> Self {
        Self {
            fs: Arc::clone(&self.fs),
            trail,
            floor: self.floor,
        }
    }
}

impl Walk<'_> {
    /// Resolves the names that are left; the last inode returned is the path's end. The trail has the root at least.
    fn go(mut self) -> Result<Result<Vec<Arc<Inode>>, Missing>, Error> {
        let mut passed = 0;
        while let Some(name) = self.names.pop() {
            passed += 1;
            if passed > NAMES_MAX || self.trail.len() > DEPTH_MAX {
                return Ok(Err(Missing::TooLong));
            }
            let folder = self.trail.last().filter(|inode| inode.is_folder());
            let Some(folder) = folder else {
                return Ok(Err(Missing::NotInFolder(name)));
            };
            match &*name {
                b"" | b"." => continue,
                b".." => {
                    if !self.go_up() {
                        return Ok(Err(Missing::Outside));
                    }
                    continue;
                }
                _ => {}
            }
            let Some(number) = self.fs.lookup(folder, &name, self.budget)? else {
                return Ok(Err(Missing::Name(name)));
            };
            if let Err(missing) = self.enter(number)? {
                return Ok(Err(missing));
            }
        }
        Ok(Ok(self.trail))
    }

    /// Enters an inode, or queues the names of a link's target.
    fn enter(&mut self, number: u32) -> Result<Result<(), Missing>, Error> {
        let cost = STEP_COST + u64::from(self.fs.inode_size());
        self.budget.take(cost, number)?;
        let inode = self.fs.inode(number, ReadMode::Wait)?;
        let is_kept = self.last == LastLink::Keep && self.names.is_empty();
        if inode.kind() != Kind::Link || is_kept {
            self.trail.push(Arc::new(inode));
            return Ok(Ok(()));
        }
        self.links += 1;
        if self.links > LINKS_MAX {
            return Ok(Err(Missing::Links));
        }
        if self.symlinks == Symlinks::None {
            return Ok(Err(Missing::Outside));
        }
        let target = self.fs.target(&inode)?;
        let names = target.split(|&byte| byte == b'/').count();
        self.budget.take(names as u64 * STEP_COST, number)?;
        match self.follow(&target) {
            true => Ok(Ok(())),
            false => Ok(Err(Missing::Outside)),
        }
    }

    /// Goes to the parent folder; false if that is above the folder where the path starts. The root's parent is the root.
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
