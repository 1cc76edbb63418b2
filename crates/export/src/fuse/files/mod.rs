//! The tree of the files of an ext2, ext3 or ext4 file system in a volume, read by Scrim itself.

mod nodes;

use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use scrim_files::{Error, Inode, Kind, ROOT, ReadMode, Span, Tree};
use scrim_fuse::request::Whence;
use scrim_fuse::wire::ROOT_ID;
use scrim_fuse::{Attributes, FileKind, Statistics, Time, reply::Entry};
use scrim_volume::Volume;

use super::error::FileError;
use super::tree::{DirectoryEntry, FileTree, OpenFile};
use nodes::{Node, Nodes};

/// Time for which the kernel may keep names and attributes: nothing changes while the tree is mounted.
const CACHED: Duration = Duration::from_secs(24 * 60 * 60);

/// Most runs that a search for data or a hole looks at. A file of holes can have a run for each block.
const RUNS_MAX: usize = 64 << 10;

/// Size of requests that programs are advised to use, in bytes. Past the page cache each request is one to this process,
/// so the blocks of a file system would be small ones.
const REQUEST: u32 = 128 << 10;

/// Longest name of a file, in bytes (`EXT4_NAME_LEN`).
const NAME_MAX: u32 = 255;

/// Cursors behind the entries `.` and `..`. No entry of a folder ends as early: it takes 12 bytes at least.
const BEHIND_SELF: u64 = 1;
const BEHIND_PARENT: u64 = 2;

/// Files and folders of the file system in a volume, read-only.
///
/// A node is the number of an inode, with the root's and [`ROOT_ID`] exchanged, and stays valid. Nothing has to be
/// remembered for an open file, so handles are always 0; what is kept is a limited number of inodes.
pub struct VolumeFiles {
    tree: Tree,
    nodes: Nodes,
    access: Access,
}

/// Rule that decides who may open a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Everyone whom the mount lets in may read everything: for one user with an image of its own, who could as well read
    /// the image, whoever owns the files in it.
    All,
    /// Modes and owners of the files.
    ByModes,
}

impl VolumeFiles {
    /// Opens the file system in a volume. Nothing may write to it while the tree is used.
    ///
    /// # Errors
    /// If there is no file system that can be read, or it was not unmounted.
    pub fn open(volume: Arc<Volume>, access: Access) -> Result<Self, Error> {
        Ok(Self {
            tree: Tree::open(volume, false)?,
            nodes: Nodes::default(),
            access,
        })
    }

    /// Name of the kind of file system by its features: `ext2`, `ext3` or `ext4`.
    #[must_use]
    pub fn family(&self) -> &'static str {
        self.tree.file_system().family()
    }

    fn node(&self, node: u64) -> Result<Arc<Node>, FileError> {
        let number = u32::try_from(exchange(node)).map_err(|_| Errno::NOENT)?;
        self.inode(number)
    }

    fn inode(&self, number: u32) -> Result<Arc<Node>, FileError> {
        self.nodes.get(&self.tree, number).map_err(failure)
    }

    fn folder(&self, node: u64) -> Result<Arc<Node>, FileError> {
        let folder = self.node(node)?;
        match folder.inode.is_folder() {
            true => Ok(folder),
            false => Err(Errno::NOTDIR.into()),
        }
    }

    fn entry(&self, number: u32) -> Result<Entry, FileError> {
        let node = self.inode(number)?;
        Ok(Entry {
            node: exchange(number.into()),
            generation: node.inode.generation().into(),
            attributes: self.attributes_of(&node.inode)?,
        })
    }

    fn parent(&self, folder: &Inode) -> Result<u32, FileError> {
        match folder.number() {
            ROOT => Ok(ROOT),
            _ => self.tree.parent(folder).map_err(failure),
        }
    }

    fn attributes_of(&self, inode: &Inode) -> Result<Attributes, FileError> {
        let block_size = self.tree.file_system().block_size();
        let (uid, gid) = inode.owner();
        Ok(Attributes {
            inode: inode.number().into(),
            size: inode.size(),
            blocks: inode.sectors(block_size),
            accessed: time(inode.accessed()),
            modified: time(inode.modified()),
            changed: time(inode.changed()),
            kind: file_kind(inode.kind()).ok_or_else(|| {
                failure(Error::Corrupt {
                    what: "its type",
                    inode: inode.number(),
                })
            })?,
            permissions: inode.permissions(),
            links: inode.links().into(),
            uid,
            gid,
            device: inode.device().map_or(0, device),
            block_size: REQUEST,
        })
    }

    /// Type of what an entry of a folder leads to. An inode that cannot be read is reported when it is looked at.
    fn kind_of(&self, entry: &scrim_files::Entry<'_>) -> FileKind {
        let kind = entry.kind.or_else(|| {
            let node = self.inode(entry.inode).ok()?;
            Some(node.inode.kind())
        });
        kind.and_then(file_kind).unwrap_or(FileKind::Regular)
    }
}

impl FileTree for VolumeFiles {
    fn lookup(&self, parent: u64, name: &[u8]) -> Result<Entry, FileError> {
        let folder = self.folder(parent)?;
        let number = match name {
            b"." => folder.inode.number(),
            b".." => self.parent(&folder.inode)?,
            _ => {
                let found = self.tree.lookup(&folder.inode, name).map_err(failure)?;
                found.ok_or(Errno::NOENT)?
            }
        };
        self.entry(number)
    }

    fn attributes(&self, node: u64) -> Result<Attributes, FileError> {
        self.attributes_of(&self.node(node)?.inode)
    }

    fn read_link(&self, node: u64, buffer: &mut [u8]) -> Result<usize, FileError> {
        let link = self.node(node)?;
        if link.inode.kind() != Kind::Link {
            return Err(Errno::INVAL.into());
        }
        let target = self.tree.target(&link.inode).map_err(failure)?;
        let place = buffer.get_mut(..target.len()).ok_or(Errno::NAMETOOLONG)?;
        place.copy_from_slice(&target);
        Ok(target.len())
    }

    fn open(&self, node: u64, writes: bool) -> Result<u64, FileError> {
        if writes {
            return Err(Errno::ROFS.into());
        }
        let node = self.node(node)?;
        match node.inode.kind() {
            Kind::Folder => Err(Errno::ISDIR.into()),
            _ => node.file().map(|_| 0).map_err(failure),
        }
    }

    fn read(&self, file: OpenFile, offset: u64, buffer: &mut [u8]) -> Result<usize, FileError> {
        let node = self.node(file.node)?;
        let file = node.file().map_err(failure)?;
        let left = node.inode.size().saturating_sub(offset);
        let wanted = usize::try_from(left).map_or(buffer.len(), |left| left.min(buffer.len()));
        let mut done = 0;
        while done < wanted {
            // A file that ended early would seem to be shorter than it is, so an error in the middle fails all of it.
            let read = file.read_at(
                &mut buffer[done..wanted],
                offset + done as u64,
                ReadMode::Wait,
            );
            match read.map_err(io_failure)? {
                0 => return Err(Errno::IO.into()),
                read => done += read,
            }
        }
        Ok(done)
    }

    fn seek(&self, file: OpenFile, offset: u64, whence: Whence) -> Result<u64, FileError> {
        let node = self.node(file.node)?;
        let file = node.file().map_err(failure)?;
        let size = node.inode.size();
        let wants_data = match whence {
            Whence::Data => true,
            Whence::Hole => false,
            Whence::Other(_) => return Err(Errno::INVAL.into()),
        };
        let mut at = offset;
        for _ in 0..RUNS_MAX {
            match file.span(at, ReadMode::Wait).map_err(io_failure)? {
                _ if at >= size && (wants_data || offset >= size) => return Err(Errno::NXIO.into()),
                // Every file ends with a hole.
                _ if at >= size => return Ok(size),
                Span::Data(_) if wants_data => return Ok(at),
                Span::Hole(_) if !wants_data => return Ok(at),
                Span::Data(len) | Span::Hole(len) => at = at.saturating_add(len.max(1)),
            }
        }
        // Data is found where there may be a hole, which every program understands.
        Ok(if wants_data { at } else { size })
    }

    fn open_directory(&self, node: u64) -> Result<u64, FileError> {
        let folder = self.folder(node)?;
        folder.inode.check_readable().map_err(failure)?;
        Ok(0)
    }

    fn read_directory(
        &self,
        directory: OpenFile,
        cursor: u64,
        sink: &mut dyn FnMut(&DirectoryEntry<'_>) -> bool,
    ) -> Result<(), FileError> {
        let folder = self.folder(directory.node)?;
        let inode = &folder.inode;
        if cursor < BEHIND_PARENT {
            let own = (inode.number(), &b"."[..], BEHIND_SELF);
            // A folder can be listed without the number of its parent.
            let parent = self.parent(inode).unwrap_or(inode.number());
            for (number, name, next) in [own, (parent, b"..", BEHIND_PARENT)] {
                let entry = DirectoryEntry {
                    inode: number.into(),
                    kind: FileKind::Directory,
                    name,
                    next,
                };
                if next > cursor && !sink(&entry) {
                    return Ok(());
                }
            }
        }
        let from = if cursor <= BEHIND_PARENT { 0 } else { cursor };
        let listed = self.tree.list(inode, from, |entry| {
            let listed = sink(&DirectoryEntry {
                inode: entry.inode.into(),
                kind: self.kind_of(&entry),
                name: entry.name,
                next: entry.next,
            });
            match listed {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        });
        listed.map_err(failure)
    }

    fn lookup_entry(&self, _parent: u64, entry: &DirectoryEntry<'_>) -> Result<Entry, FileError> {
        let number = u32::try_from(entry.inode).map_err(|_| Errno::NOENT)?;
        self.entry(number)
    }

    fn statistics(&self) -> Result<Statistics, FileError> {
        let fs = self.tree.file_system();
        let space = fs.space();
        Ok(Statistics {
            block_size: fs.block_size(),
            blocks: space.blocks,
            free_blocks: space.free_blocks,
            available_blocks: space.free_blocks.saturating_sub(space.reserved_blocks),
            files: space.inodes.into(),
            free_files: space.free_inodes.into(),
            name_max: NAME_MAX,
        })
    }

    fn has_handles(&self) -> bool {
        // What opening would refuse is refused by the first read.
        false
    }

    fn cache_time(&self) -> Duration {
        CACHED
    }

    fn has_permissions(&self) -> bool {
        self.access == Access::ByModes
    }
}

/// Exchanges the number of the root's inode and [`ROOT_ID`], by which the kernel calls the root. So every inode is a
/// node, and every node an inode.
fn exchange(number: u64) -> u64 {
    const ROOT_INODE: u64 = ROOT as u64;
    match number {
        ROOT_INODE => ROOT_ID,
        ROOT_ID => ROOT_INODE,
        other => other,
    }
}

fn file_kind(kind: Kind) -> Option<FileKind> {
    Some(match kind {
        Kind::File => FileKind::Regular,
        Kind::Folder => FileKind::Directory,
        Kind::Link => FileKind::SymbolicLink,
        Kind::CharacterDevice => FileKind::CharacterDevice,
        Kind::BlockDevice => FileKind::BlockDevice,
        Kind::Pipe => FileKind::Fifo,
        Kind::Socket => FileKind::Socket,
        Kind::Unknown => return None,
    })
}

/// The number of a device as the kernel has it in 32 bits.
fn device((major, minor): (u32, u32)) -> u32 {
    (minor & 0xff) | (major & 0xfff) << 8 | (minor & !0xff) << 12
}

fn time((seconds, nanoseconds): (i64, u32)) -> Time {
    Time {
        seconds,
        nanoseconds,
    }
}

/// The error for the program, with the numbers that the kernel's ext4 gives.
fn failure(error: Error) -> FileError {
    let errno = match &error {
        Error::Encrypted { .. } => Errno::NOKEY,
        Error::Features { .. } => Errno::OPNOTSUPP,
        Error::SearchTooLong { .. } => Errno::FBIG,
        Error::Device { .. } => Errno::IO,
        _ => Errno::UCLEAN,
    };
    FileError::new(errno, error)
}

/// As [`failure`], where reading a file has failed.
fn io_failure(error: io::Error) -> FileError {
    let errno = match error.kind() {
        io::ErrorKind::InvalidData => Errno::UCLEAN,
        io::ErrorKind::Unsupported => Errno::OPNOTSUPP,
        _ => Errno::IO,
    };
    FileError::new(errno, error)
}
