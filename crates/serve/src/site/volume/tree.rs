//! The way from a path to a file of a file system, and what it may not leave.

use std::ops::ControlFlow;
use std::sync::Arc;

use http::StatusCode;
use scrim_ext4::{Error, Inode, Kind, Patience, ROOT};

use super::{VolumeFile, VolumeFiles};
use crate::site::settings::Symlinks;
use crate::site::tree::{Folder, Looked, Name, Node};
use crate::site::{OpenFile, SiteError};

/// Most symbolic links on a way, as in the kernel.
const LINKS_MAX: usize = 40;
/// Most names on a way, links' included.
const NAMES_MAX: usize = 4096;

/// A folder of a volume's file system that is served.
#[derive(Debug)]
pub(in crate::site) struct VolumeTree {
    files: Arc<VolumeFiles>,
    /// The folders from the file system's root to this one.
    trail: Vec<Inode>,
    symlinks: Symlinks,
}

/// A way that is being gone.
struct Walk<'a> {
    files: &'a VolumeFiles,
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
        let below = path.strip_prefix(b"/").unwrap_or(path);
        let shown = || format!("{}#/{}", files.name, below.escape_ascii());
        let failed = |source| SiteError::VolumeRoot {
            path: shown(),
            source,
        };
        let root = files.fs.inode(ROOT, Patience::Wait);
        let walk = Walk {
            files,
            trail: vec![root.map_err(|error| failed(Some(error)))?],
            floor: 1,
            names: Vec::new(),
            // Its owner has named it.
            symlinks: Symlinks::Any,
        };
        let trail = walk.go(path).map_err(|error| failed(Some(error)))?;
        match trail {
            Some(trail) if trail.last().is_some_and(Inode::is_folder) => Ok(Self {
                files: Arc::clone(files),
                trail,
                symlinks,
            }),
            _ => Err(failed(None)),
        }
    }

    /// Finds a file or a folder.
    pub(in crate::site) fn find(&self, path: &[u8]) -> Result<Node, StatusCode> {
        let found = self.files.check().and_then(|()| self.walk(path));
        let found = found.map_err(|error| self.files.status(&error))?;
        let Some(inode) = found else {
            return Err(StatusCode::NOT_FOUND);
        };
        match inode.kind() {
            Kind::Folder => Ok(Node::Folder(Folder::InVolume(Box::new(inode)))),
            Kind::File => {
                let readable = inode.check_readable();
                readable.map_err(|error| self.files.status(&error))?;
                let file = VolumeFile::new(&self.files, inode);
                Ok(Node::File(OpenFile::of_volume(file)))
            }
            Kind::Link | Kind::Other => Err(StatusCode::NOT_FOUND),
        }
    }

    /// Calls `each` for the names in a folder, until it has had enough.
    pub(in crate::site) fn names(
        &self,
        folder: &Inode,
        path: &[u8],
        each: &mut dyn FnMut(Name<'_>) -> ControlFlow<()>,
    ) -> Result<(), StatusCode> {
        let read = self.files.fs.entries(folder, |entry| {
            let look = || self.look(path, entry.name, entry.inode);
            each(Name {
                bytes: entry.name,
                look: &look,
            })
        });
        read.map_err(|error| self.files.status(&error))
    }

    /// What the folder itself is.
    pub(in crate::site) fn look_at_root(&self) -> Looked {
        let modified = self.trail.last().map(Inode::modified);
        Looked {
            is_folder: true,
            size: 0,
            modified: modified.map_or(0, |(seconds, _)| seconds),
        }
    }

    fn look(&self, path: &[u8], name: &[u8], inode: u32) -> Option<Looked> {
        let mut inode = self.files.fs.inode(inode, Patience::Wait).ok()?;
        if inode.kind() == Kind::Link {
            if self.symlinks == Symlinks::None {
                return None;
            }
            let mut whole = path.to_vec();
            whole.push(b'/');
            whole.extend_from_slice(name);
            inode = self.walk(&whole).ok()??;
        }
        let is_folder = match inode.kind() {
            Kind::Folder => true,
            Kind::File => false,
            Kind::Link | Kind::Other => return None,
        };
        Some(Looked {
            is_folder,
            size: inode.size(),
            modified: inode.modified().0,
        })
    }

    fn walk(&self, path: &[u8]) -> Result<Option<Inode>, Error> {
        let walk = Walk {
            files: &self.files,
            trail: self.trail.clone(),
            floor: self.trail.len(),
            names: Vec::new(),
            symlinks: self.symlinks,
        };
        let trail = walk.go(path)?;
        Ok(trail.and_then(|mut trail| trail.pop()))
    }
}

impl Walk<'_> {
    /// Goes a way to its end: what it leads to is the last of what is returned. Nothing where nothing is, or where
    /// the way may not lead.
    fn go(mut self, path: &[u8]) -> Result<Option<Vec<Inode>>, Error> {
        let mut links = 0;
        self.push_names(path);
        while let Some(name) = self.names.pop() {
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
            let Some(number) = self.files.fs.lookup(folder, &name)? else {
                return Ok(None);
            };
            let inode = self.files.fs.inode(number, Patience::Wait)?;
            if inode.kind() != Kind::Link {
                self.trail.push(inode);
                continue;
            }
            links += 1;
            let target = self.files.fs.target(&inode)?;
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
        self.names.len() <= NAMES_MAX
    }

    fn push_names(&mut self, path: &[u8]) {
        let names = path.split(|&byte| byte == b'/').rev();
        self.names.extend(names.map(Box::from));
    }
}
