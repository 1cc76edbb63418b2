//! A look at everything in a tree of files, as a program in a mount would take it, and at the answers' form. The files may
//! come from a file system that an attacker has made.

use std::collections::BTreeSet;
use std::sync::Arc;

use scrim_backend::{Backend, MemoryBackend};
use scrim_export::fuse::{
    Access, DirectoryEntry, FileKind, FileTree, OpenFile, ROOT_ID, VolumeFiles, Whence,
};
use scrim_volume::{CryptTable, DataPath, Volume};

/// Bytes of an image: 256 blocks of 1 KiB.
pub(crate) const SIZE: usize = 256 << 10;
/// Most nodes that are looked at: a damaged file system may have more names than it has space for.
const NODES: usize = 64;
/// Most names of a folder that are looked at.
const NAMES: usize = 512;
/// Bytes of one read.
const READ: usize = 64 << 10;

/// The image that an input describes: offsets of three bytes, lengths of one, and the bytes there.
pub(crate) fn image(mut input: &[u8]) -> Vec<u8> {
    let mut image = vec![0; SIZE];
    while let [a, b, c, len, rest @ ..] = input {
        let at = u32::from_le_bytes([*a, *b, *c, 0]) as usize % SIZE;
        let (bytes, after) = rest.split_at(rest.len().min((*len).into()));
        let here = bytes.len().min(SIZE - at);
        image[at..at + here].copy_from_slice(&bytes[..here]);
        input = after;
    }
    image
}

/// The tree of the files in an image; `None` if it has no file system that can be read.
pub(crate) fn tree(image: Vec<u8>) -> Option<VolumeFiles> {
    let table = CryptTable::parse(&format!("0 {} linear image 0", image.len() / 512)).ok()?;
    let backend: Arc<dyn Backend> = Arc::new(MemoryBackend::new(image));
    let volume = Volume::start(table, DataPath::Inline, |_| Ok(Arc::clone(&backend))).ok()?;
    VolumeFiles::open(Arc::new(volume), Access::All).ok()
}

/// Looks at all nodes below the root, up to a limit. Returns the number of those that could be read.
pub(crate) fn walk(tree: &dyn FileTree) -> usize {
    let (mut nodes, mut next, mut read) = (vec![ROOT_ID], 0, 0);
    assert!(tree.statistics().is_ok_and(|all| all.block_size >= 1024));
    for impossible in [0, u64::from(u32::MAX), u64::MAX] {
        assert!(tree.attributes(impossible).is_err());
        assert!(tree.open(impossible, false).is_err());
    }
    while let Some(&node) = nodes.get(next) {
        next += 1;
        let Ok(attributes) = tree.attributes(node) else {
            continue;
        };
        assert!(i64::try_from(attributes.size).is_ok());
        assert!(attributes.accessed.nanoseconds < 1_000_000_000);
        let is_readable = match attributes.kind {
            FileKind::Directory => folder(tree, node, &mut nodes),
            FileKind::Regular => file(tree, node, attributes.size),
            FileKind::SymbolicLink => {
                let mut target = [0; 4096];
                let len = tree.read_link(node, &mut target).unwrap_or(0);
                assert!(len <= target.len());
                len > 0
            }
            _ => true,
        };
        read += usize::from(is_readable);
        assert!(attributes.kind == FileKind::Regular || tree.open(node, false).is_err());
        assert!(tree.open(node, true).is_err(), "it is read-only");
    }
    read
}

/// Lists a folder in parts and looks names up.
fn folder(tree: &dyn FileTree, node: u64, nodes: &mut Vec<u64>) -> bool {
    let directory = OpenFile { node, handle: 0 };
    let mut entries = Vec::new();
    let mut cursor = 0;
    let listed = loop {
        let before = cursor;
        // Three entries at a time: the third finds no space, and comes again.
        let mut space = 2;
        let listed = tree.read_directory(directory, cursor, &mut |entry| {
            if space == 0 {
                return false;
            }
            assert!(entry.next > cursor, "cursors grow");
            assert!(!entry.name.is_empty() && entry.name.len() <= 255);
            assert!(!entry.name.iter().any(|byte| matches!(byte, 0 | b'/')));
            (space, cursor) = (space - 1, entry.next);
            let found = tree.lookup_entry(node, entry);
            entries.push((entry.name.to_vec(), entry.inode, found.ok()));
            true
        });
        if listed.is_err() || cursor == before || entries.len() > NAMES {
            break listed.is_ok();
        }
    };
    let dots = [entries.first(), entries.get(1)].map(|entry| entry.map(|(name, ..)| &**name));
    assert_eq!(dots, [Some(&b"."[..]), Some(b"..")]);
    // A cursor within an entry counts for the next one.
    for cursor in [3, 13, 1025, u64::MAX] {
        let _ = tree.read_directory(directory, cursor, &mut |entry: &DirectoryEntry<'_>| {
            assert!(entry.next > cursor);
            false
        });
    }
    let names: BTreeSet<_> = entries
        .iter()
        .map(|(name, inode, _)| (&**name, *inode))
        .collect();
    for (name, _, found) in entries.iter().skip(2).take(NODES) {
        if let Ok(again) = tree.lookup(node, name) {
            let known = names.contains(&(&**name, again.attributes.inode));
            assert!(known || !listed || entries.len() > NAMES);
        }
        let Some(found) = found else { continue };
        assert_ne!(found.node, 0);
        if nodes.len() < NODES && !nodes.contains(&found.node) {
            nodes.push(found.node);
        }
    }
    assert!(tree.lookup(node, b".").is_ok_and(|own| own.node == node));
    let _ = tree.lookup(node, b"..");
    assert!(tree.lookup(node, &[b'~'; 255]).is_err());
    listed
}

/// Reads the start and the end of a file, and finds its holes.
fn file(tree: &dyn FileTree, node: u64, size: u64) -> bool {
    let file = OpenFile { node, handle: 7 };
    let mut data = vec![0x55; READ];
    let mut is_read = true;
    for offset in [0, size / 2 + 1, size.saturating_sub(READ as u64), size] {
        match tree.read(file, offset, &mut data) {
            Ok(len) => assert_eq!(len as u64, size.saturating_sub(offset).min(READ as u64)),
            Err(_) => is_read = false,
        }
    }
    for whence in [Whence::Data, Whence::Hole] {
        if let Ok(found) = tree.seek(file, 0, whence) {
            assert!(found <= size);
        }
        assert!(tree.seek(file, size, whence).is_err());
    }
    is_read
}
