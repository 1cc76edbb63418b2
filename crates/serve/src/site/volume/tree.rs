//! The way from a path to a file of a file system, and what it may not leave.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use http::StatusCode;
use scrim_ext4::{Error, FileSystem, Inode, Kind, Patience, ROOT};

use super::{VolumeFile, VolumeFiles};
use crate::site::settings::Symlinks;
use crate::site::tree::{Folder, Looked, Name, Node};
use crate::site::{OpenFile, SiteError};

/// Most symbolic links on a way, as in the kernel.
const LINKS_MAX: usize = 40;
/// Most names on a way, links' included, and most folders that one may lead down.
const NAMES_MAX: usize = 4096;
const DEPTH_MAX: usize = 512;

/// A folder of a volume's file system that is served.
#[derive(Debug)]
pub(in crate::site) struct VolumeTree {
    files: Arc<VolumeFiles>,
    path: Box<[u8]>,
    symlinks: Symlinks,
    found: Mutex<Found>,
}

/// Where the folder was found last.
#[derive(Debug, Clone)]
struct Found {
    fs: Arc<FileSystem>,
    /// The folders from the file system's root to this one.
    trail: Vec<Inode>,
}

/// A way that is being gone.
struct Walk<'a> {
    fs: &'a FileSystem,
    /// What has been passed, from the file system's root on.
    trail: Vec<Inode>,
    /// How much of that may not be left, where links must stay within.
    floor: usize,
    /// What is still to come; the next name is the last.
    names: Vec<Box<[u8]>>,
    symlinks: Symlinks,
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
                files.name,
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
        let fs = Arc::clone(&here.fs);
        let found = here.walk(path, self.symlinks).map_err(failed)?;
        let inode = found.ok_or(StatusCode::NOT_FOUND)?;
        match inode.kind() {
            Kind::Folder => Ok(Node::Folder(Folder::InVolume(fs, Box::new(inode)))),
            Kind::File => {
                inode.check_readable().map_err(failed)?;
                let file = VolumeFile::new(&self.files, fs, inode);
                Ok(Node::File(OpenFile::of_volume(file)))
            }
            Kind::Link | Kind::Other => Err(StatusCode::NOT_FOUND),
        }
    }

    /// Calls `each` for the names in a folder, until it has had enough.
    pub(in crate::site) fn names(
        &self,
        fs: &Arc<FileSystem>,
        folder: &Inode,
        path: &[u8],
        each: &mut dyn FnMut(Name<'_>) -> ControlFlow<()>,
    ) -> Result<(), StatusCode> {
        let read = fs.entries(folder, |entry| {
            let looked = || self.look(fs, path, entry.name, entry.inode);
            let look = || looked().map_err(|error| self.files.status(&error));
            each(Name {
                bytes: entry.name,
                look: &look,
            })
        });
        read.map_err(|error| self.files.status(&error))
    }

    /// What the folder itself was when it was found.
    pub(in crate::site) fn look_at_root(&self) -> Looked {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let modified = found.trail.last().map(Inode::modified);
        Looked {
            is_folder: true,
            size: 0,
            modified: modified.map_or(0, |(seconds, _)| seconds),
        }
    }

    fn look(
        &self,
        fs: &Arc<FileSystem>,
        path: &[u8],
        name: &[u8],
        inode: u32,
    ) -> Result<Option<Looked>, Error> {
        let mut inode = fs.inode(inode, Patience::Wait)?;
        if inode.kind() == Kind::Link {
            if self.symlinks == Symlinks::None {
                return Ok(None);
            }
            let mut whole = path.to_vec();
            whole.push(b'/');
            whole.extend_from_slice(name);
            let Some(here) = self.now()? else {
                return Ok(None);
            };
            match here.walk(&whole, self.symlinks)? {
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
    /// A folder by the way from the root; nothing where there is none.
    fn look(fs: Arc<FileSystem>, path: &[u8]) -> Result<Option<Self>, Error> {
        let walk = Walk {
            fs: &fs,
            trail: vec![fs.inode(ROOT, Patience::Wait)?],
            floor: 1,
            names: Vec::new(),
            // Its owner has named it.
            symlinks: Symlinks::Any,
        };
        let trail = walk.go(path)?;
        let trail = trail.filter(|trail| trail.last().is_some_and(Inode::is_folder));
        Ok(trail.map(|trail| Self { fs, trail }))
    }

    /// What a way from here leads to.
    fn walk(self, path: &[u8], symlinks: Symlinks) -> Result<Option<Inode>, Error> {
        let walk = Walk {
            fs: &self.fs,
            floor: self.trail.len(),
            trail: self.trail,
            names: Vec::new(),
            symlinks,
        };
        let trail = walk.go(path)?;
        Ok(trail.and_then(|mut trail| trail.pop()))
    }
}

impl Walk<'_> {
    /// Goes a way to its end: what it leads to is the last of what is returned. Nothing where nothing is, or where
    /// the way may not lead.
    fn go(mut self, path: &[u8]) -> Result<Option<Vec<Inode>>, Error> {
        let (mut links, mut passed) = (0, 0);
        self.push_names(path);
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
            let Some(number) = self.fs.lookup(folder, &name)? else {
                return Ok(None);
            };
            let inode = self.fs.inode(number, Patience::Wait)?;
            if inode.kind() != Kind::Link {
                self.trail.push(inode);
                continue;
            }
            links += 1;
            let target = self.fs.target(&inode)?;
            if links > LINKS_MAX || !self.follow(&target) {
                return Ok(None);
            }
        }
        Ok(Some(self.trail))
    }

    /// Whether there is a folder above that may be entered. The root's is the root.
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
