//! Inodes that were read, up to a limit.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use scrim_files::{Error, File, Inode, Kind, Tree};

/// Most bytes of inodes that are kept in each of two generations.
const GENERATION: usize = 2 << 20;

/// Bytes that an inode takes besides its inline content: itself, its file, and its place in a map.
const NODE: usize = 640;

/// An inode, and for a file the means to read it.
pub(super) struct Node {
    pub(super) inode: Arc<Inode>,
    /// `None` for what is not a file, or cannot be read.
    file: Option<File>,
}

impl Node {
    fn read(tree: &Tree, number: u32) -> Result<Self, Error> {
        let inode = Arc::new(tree.inode(number)?);
        let file = match inode.kind() {
            Kind::File => tree.file(Arc::clone(&inode)).ok(),
            _ => None,
        };
        Ok(Self { inode, file })
    }

    /// The file, which must be one that can be read.
    pub(super) fn file(&self) -> Result<&File, Error> {
        match &self.file {
            Some(file) => Ok(file),
            None => {
                self.inode.check_readable()?;
                Err(Error::Corrupt {
                    what: "it is not a file",
                    inode: self.inode.number(),
                })
            }
        }
    }

    fn len(&self) -> usize {
        NODE + self.inode.inline().map_or(0, <[u8]>::len)
    }
}

/// Inodes by their numbers, in two generations: what is used moves to the younger one, and when that is full, the older
/// one is dropped. So no use looks at more than two places, and an inode that is used often stays.
#[derive(Default)]
pub(super) struct Nodes(Mutex<Generations>);

#[derive(Default)]
struct Generations {
    young: HashMap<u32, Arc<Node>>,
    old: HashMap<u32, Arc<Node>>,
    /// Bytes of the younger generation.
    bytes: usize,
}

impl Nodes {
    /// The inode of this number, read if it is not known.
    pub(super) fn get(&self, tree: &Tree, number: u32) -> Result<Arc<Node>, Error> {
        if let Some(node) = self.lock().get(number) {
            return Ok(node);
        }
        // Two threads may read the same one; the later takes its place.
        let node = Arc::new(Node::read(tree, number)?);
        self.lock().put(number, &node);
        Ok(node)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Generations> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Generations {
    fn get(&mut self, number: u32) -> Option<Arc<Node>> {
        if let Some(node) = self.young.get(&number) {
            return Some(Arc::clone(node));
        }
        let node = self.old.remove(&number)?;
        self.put(number, &node);
        Some(node)
    }

    fn put(&mut self, number: u32, node: &Arc<Node>) {
        if self.bytes + node.len() > GENERATION {
            self.old = std::mem::take(&mut self.young);
            self.bytes = 0;
        }
        self.bytes += node.len();
        if let Some(before) = self.young.insert(number, Arc::clone(node)) {
            self.bytes -= before.len();
        }
    }
}
