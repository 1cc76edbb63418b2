//! The input is what the kernel sends after the handshake: requests one after the other, each as long as its header says.
//! They are executed on the file of a volume, beside a model of its plaintext.

#![no_main]

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use scrim_backend::{Backend, MemoryBackend};
use scrim_export::fuse::{DirectoryEntry, Durability, FileTree, OpenFile, RawFile, SyncKind};
use scrim_fuse::directory::Listing;
use scrim_fuse::request::{AllocateMode, Header, Malformed, Operation, Read, Request};
use scrim_fuse::wire::{IN_HEADER, WRITE_IN};
use scrim_volume::{CryptTable, DataPath, Volume};

const SIZE: usize = 64 << 10;
const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const NAME: &[u8] = b"disk";
/// Node of the file.
const FILE: u64 = 2;

static VOLUME: LazyLock<Arc<Volume>> = LazyLock::new(|| {
    let table = format!("0 {} crypt aes-xts-plain64 {KEY} 0 memory 0", SIZE / 512);
    let table = CryptTable::parse(&table).expect("a table");
    let backend: Arc<dyn Backend> = Arc::new(MemoryBackend::new(vec![0; SIZE]));
    let open = |_: &str| Ok(Arc::clone(&backend));
    Arc::new(Volume::start(table, DataPath::Inline, open).expect("a volume"))
});

struct Session {
    tree: RawFile,
    model: Vec<u8>,
}

impl Session {
    fn new() -> Self {
        let tree = RawFile::new(Arc::clone(&VOLUME), "disk").expect("a name");
        let mut model = vec![0; SIZE];
        VOLUME.read(0, &mut model).expect("plaintext");
        Self { tree, model }
    }

    fn serve(&mut self, message: &mut [u8]) {
        let len = message.len();
        let start = message.as_ptr() as usize;
        let header = Header::parse(message);
        let request = match Request::parse(message) {
            Ok(request) => request,
            Err(Malformed::Body { opcode }) => {
                assert_eq!(header.map(|header| header.opcode), Ok(opcode));
                return;
            }
            Err(error) => {
                assert_eq!(header, Err(error));
                return;
            }
        };
        assert_eq!(header, Ok(request.header));
        let node = request.header.node;
        let at = |handle| OpenFile { node, handle };
        match request.operation {
            Operation::Lookup { name } => {
                assert!(!name.is_empty() && name.len() < len - IN_HEADER);
                assert!(!name.contains(&0) && !name.contains(&b'/'));
                let found = self.tree.lookup(node, name);
                let expected = node == 1 && [NAME, b".", b".."].contains(&name);
                assert_eq!(found.is_ok(), expected);
            }
            Operation::BatchForget(forgets) => assert!(forgets.iter().count() <= len / 16),
            Operation::GetAttributes => {
                let known = self.tree.attributes(node).is_ok();
                assert_eq!(known, node == 1 || node == FILE);
            }
            Operation::SetAttributes(changes) => {
                if let Ok(set) = self.tree.set_attributes(node, &changes) {
                    assert!(changes.size.is_none_or(|size| size == set.size));
                }
            }
            Operation::Write(write, data) => {
                assert_eq!(data.as_ptr() as usize, start + IN_HEADER + WRITE_IN);
                assert!(data.len() <= len - IN_HEADER - WRITE_IN);
                self.write(at(write.handle), write.offset, data);
            }
            Operation::Read(read) => self.read(at(read.handle), &read),
            Operation::ReadDirectory(read) => self.list(at(read.handle), &read, false),
            Operation::ReadDirectoryPlus(read) => self.list(at(read.handle), &read, true),
            Operation::Fsync { handle, .. } => {
                self.tree.fsync(at(handle), SyncKind::All).expect("a flush");
            }
            Operation::Allocate(range) => {
                let result = self.tree.allocate(node, &range, &|| false);
                if result.is_ok()
                    && let AllocateMode::ZeroRange { .. } = range.mode
                {
                    let offset = usize::try_from(range.offset).expect("within the volume");
                    let end = range.offset.saturating_add(range.len).min(SIZE as u64);
                    self.model[offset..usize::try_from(end).expect("the same")].fill(0);
                }
            }
            Operation::Seek(seek) => {
                if let Ok(found) = self.tree.seek(at(seek.handle), seek.offset, seek.whence) {
                    assert!(node == FILE && found >= seek.offset && found <= SIZE as u64);
                }
            }
            _ => {}
        }
    }

    fn write(&mut self, file: OpenFile, offset: u64, data: &mut [u8]) {
        let plaintext = data.to_vec();
        let written = self.tree.write(file, offset, data, Durability::Cached);
        let left = (SIZE as u64).saturating_sub(offset);
        match written {
            Ok(len) => {
                assert_eq!(len as u64, left.min(plaintext.len() as u64));
                let at = usize::try_from(offset).unwrap_or(SIZE).min(SIZE);
                self.model[at..at + len].copy_from_slice(&plaintext[..len]);
            }
            Err(_) => assert!(file.node != FILE || left == 0),
        }
    }

    fn read(&self, file: OpenFile, read: &Read) {
        let mut data = vec![0; (read.size as usize).min(SIZE)];
        match self.tree.read(file, read.offset, &mut data) {
            Ok(len) => {
                let at = usize::try_from(read.offset).unwrap_or(SIZE).min(SIZE);
                assert_eq!(len, data.len().min(SIZE - at));
                assert_eq!(data[..len], self.model[at..at + len]);
            }
            Err(_) => assert_ne!(file.node, FILE),
        }
    }

    fn list(&self, directory: OpenFile, read: &Read, with_attributes: bool) {
        let mut buffer = vec![0; (read.size as usize).min(SIZE)];
        let space = buffer.len();
        let mut listing = Listing::new(&mut buffer);
        let mut last = read.offset;
        let mut sink = |entry: &DirectoryEntry<'_>| {
            assert!(entry.next > last, "cursors grow");
            last = entry.next;
            let (inode, next) = (entry.inode, entry.next);
            match with_attributes {
                true => listing.push_with_attributes(None, (inode, next), entry.kind, entry.name),
                false => listing.push(inode, next, entry.kind, entry.name),
            }
        };
        let listed = self.tree.read_directory(directory, read.offset, &mut sink);
        assert_eq!(listed.is_ok(), directory.node == 1);
        assert!(listing.len() <= space && listing.len().is_multiple_of(8));
    }
}

fuzz_target!(|input: &[u8]| {
    let mut input = input.to_vec();
    let mut session = Session::new();
    let mut rest = input.as_mut_slice();
    while let Some(len) = rest.first_chunk().map(|len| u32::from_ne_bytes(*len)) {
        let len = (len as usize).clamp(1, rest.len());
        let (message, behind) = rest.split_at_mut(len);
        session.serve(message);
        rest = behind;
    }
    let mut plaintext = vec![0; SIZE];
    VOLUME.read(0, &mut plaintext).expect("plaintext");
    assert_eq!(plaintext, session.model);
});
