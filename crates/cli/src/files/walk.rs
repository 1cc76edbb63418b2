//! A walk through all folders below one, in bounded memory, however large and however hostile the file system is.

use std::collections::{HashMap, VecDeque};
use std::ops::ControlFlow;

use scrim_files::{Error, Inode, Tree};

/// Limit on the names that are held at a time. A folder with more comes in parts, and in the order of the disk.
const NAMES_MAX: usize = 65_536;
/// Names of a folder that are read at a time while the folders above it hold as many as that.
const NAMES_MIN: usize = 16;
/// Limit on the depth of folders: each may keep a file descriptor open.
const DEPTH_MAX: usize = 512;

/// A name in a folder, and the inode that it leads to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) name: Vec<u8>,
    pub(crate) inode: u32,
}

/// The names of a folder, which are read in parts.
pub(crate) struct Names {
    folder: Inode,
    /// Place of the next entry; `None` behind the last one.
    next: Option<u64>,
}

impl Names {
    pub(crate) fn of(folder: Inode) -> Self {
        Self {
            folder,
            next: Some(0),
        }
    }

    pub(crate) fn folder(&self) -> &Inode {
        &self.folder
    }

    /// Reads more names while `held` are in memory; none behind the last one. They are sorted if they are all names of
    /// the folder.
    pub(crate) fn read(&mut self, tree: &Tree, held: usize) -> Result<VecDeque<Name>, Error> {
        let most = NAMES_MAX.saturating_sub(held).max(NAMES_MIN);
        let Some(from) = self.next.take() else {
            return Ok(VecDeque::new());
        };
        let mut names = Vec::new();
        let mut after = None;
        tree.list(&self.folder, from, |entry| {
            names.push(Name {
                name: entry.name.to_vec(),
                inode: entry.inode,
            });
            if names.len() == most {
                after = Some(entry.next);
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })?;
        self.next = after;
        if from == 0 && after.is_none() {
            names.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        }
        Ok(names.into())
    }
}

/// A folder that the walk is in, with what the user of the walk keeps for it.
pub(crate) struct Folder<T> {
    names: Names,
    read: VecDeque<Name>,
    /// Path from the folder where the walk began; empty for that one.
    pub(crate) path: Vec<u8>,
    pub(crate) kept: T,
}

impl<T> Folder<T> {
    pub(crate) fn inode(&self) -> &Inode {
        self.names.folder()
    }

    /// Path of an entry.
    pub(crate) fn below(&self, name: &[u8]) -> Vec<u8> {
        below(&self.path, name)
    }
}

/// The path of a name in the folder at `path`.
pub(crate) fn below(path: &[u8], name: &[u8]) -> Vec<u8> {
    match path.is_empty() {
        true => name.to_vec(),
        false => [path, b"/".as_slice(), name].concat(),
    }
}

/// A step of the walk.
pub(crate) enum Step<T> {
    /// An entry of the folder that the walk is in.
    Entry(Name),
    /// The walk has left a folder.
    Left(Box<Folder<T>>),
}

/// Reason for which a folder is not entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The walk was in it: it has two names, which no sound file system gives a folder.
    Again,
    Depth,
}

impl Refused {
    pub(crate) fn reason(self) -> String {
        match self {
            Self::Again => {
                "the folder was met before under another name, so the file system is damaged; check it with \
                 e2fsck -f"
                    .to_owned()
            }
            Self::Depth => format!(
                "it is more than {DEPTH_MAX} folders deep; name a folder further down and begin there"
            ),
        }
    }
}

/// The folders from the one where the walk began to the one that it is in.
pub(crate) struct Walk<'a, T> {
    tree: &'a Tree,
    folders: Vec<Folder<T>>,
    met: Met,
}

impl<'a, T> Walk<'a, T> {
    pub(crate) fn new(tree: &'a Tree) -> Self {
        Self {
            tree,
            folders: Vec::new(),
            met: Met::default(),
        }
    }

    /// Enters a folder: its entries are the next steps.
    pub(crate) fn enter(&mut self, folder: Inode, path: Vec<u8>, kept: T) {
        self.folders.push(Folder {
            names: Names::of(folder),
            read: VecDeque::new(),
            path,
            kept,
        });
    }

    /// Checks that a folder may be entered, once.
    pub(crate) fn meet(&mut self, folder: u32) -> Result<(), Refused> {
        if self.folders.len() >= DEPTH_MAX {
            return Err(Refused::Depth);
        }
        match self.met.insert(folder) {
            true => Ok(()),
            false => Err(Refused::Again),
        }
    }

    /// The folder that the walk is in.
    pub(crate) fn here(&self) -> Option<&Folder<T>> {
        self.folders.last()
    }

    /// The folder where it began.
    pub(crate) fn start(&self) -> Option<&Folder<T>> {
        self.folders.first()
    }

    /// Takes the next step; `None` when the first folder was left. After an error the walk goes on behind the folder.
    pub(crate) fn step(&mut self) -> Option<Result<Step<T>, Error>> {
        let held = self.folders.iter().map(|folder| folder.read.len()).sum();
        let here = self.folders.last_mut()?;
        if here.read.is_empty() {
            match here.names.read(self.tree, held) {
                Ok(names) => here.read = names,
                Err(error) => return Some(Err(error)),
            }
        }
        match here.read.pop_front() {
            Some(name) => Some(Ok(Step::Entry(name))),
            None => self.folders.pop().map(|left| Ok(Step::Left(left.into()))),
        }
    }
}

/// Numbers of the folders that were met: a bit for each inode, in pieces. Sound folders are met once; a hostile file
/// system could send a walk through the same ones again and again.
#[derive(Default)]
struct Met(HashMap<u32, Box<[u64; PIECE_WORDS]>>);

const PIECE_WORDS: usize = 128;
const PIECE_BITS: u32 = 8192;

impl Met {
    /// Notes a number; returns whether it is new.
    fn insert(&mut self, number: u32) -> bool {
        let piece = self.0.entry(number / PIECE_BITS);
        let piece = piece.or_insert_with(|| Box::new([0; PIECE_WORDS]));
        let bit = number % PIECE_BITS;
        let word = &mut piece[bit as usize / 64];
        let mask = 1 << (bit % 64);
        let is_new = *word & mask == 0;
        *word |= mask;
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_new_once() {
        let mut met = Met::default();
        for number in [0, 1, 63, 64, PIECE_BITS - 1, PIECE_BITS, u32::MAX] {
            assert!(met.insert(number), "{number}");
            assert!(!met.insert(number), "{number}");
        }
        assert!(met.insert(2));
    }
}
