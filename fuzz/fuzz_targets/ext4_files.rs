//! The input is a file system: offsets and the bytes there, in an image of zeros. A site serves all of its files from a
//! volume, and a tree for FUSE shows them. Besides, each name is looked up, by its folder's index if there is one: the
//! result must be an entry that the folder, read from its start, has under that name.

#![no_main]

#[path = "../../crates/export/tests/common/walk.rs"]
mod walk;

use std::collections::BTreeSet;
use std::io::{self, IoSliceMut};
use std::ops::ControlFlow;
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use scrim_backend::{Backend, MemoryBackend};
use scrim_ext4::{Budget, Device, FileSystem, ROOT};
use scrim_fuzz::site::{content, get};
use scrim_serve::files::{ReadMode, VolumeFiles, VolumeIdentity};
use scrim_serve::http::{Answer, Fields, Piece};
use scrim_serve::site::{Cache, CacheLimits, Root, Settings, Site, Symlinks};
use scrim_volume::{CryptTable, DataPath, Volume};
use walk::{SIZE, image};

/// Largest number of names to ask for: a damaged file system may have more names than it has space for.
const NAMES: usize = 64;
/// Bytes that are read at each end of a file, which may consist of holes of any length.
const READ: u64 = 64 << 10;

/// The image, without a volume around it.
struct Bare(Vec<u8>);

impl Device for Bare {
    fn read(&self, offset: u64, into: &mut [u8], _: ReadMode) -> io::Result<()> {
        let from = usize::try_from(offset).map_err(io::Error::other)?;
        let bytes = self.0.get(from..).and_then(|rest| rest.get(..into.len()));
        into.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// Looks for names, those that are there and others, in all folders below the root. One that is longer than the image
/// has some of its blocks again and again.
fn look_for_names(image: Vec<u8>) {
    let Ok(fs) = FileSystem::open(Box::new(Bare(image))) else {
        return;
    };
    let (mut folders, mut next, mut looked) = (vec![ROOT], 0, 0);
    while let Some(&number) = folders.get(next) {
        next += 1;
        let folder = fs.inode(number, ReadMode::Wait);
        let Some(folder) = folder.ok().filter(|folder| folder.size() <= SIZE as u64) else {
            continue;
        };
        let budget = || Budget::new(2 * SIZE as u64);
        let mut entries = BTreeSet::new();
        let read = fs.entries(&folder, &budget(), |entry| {
            entries.insert((entry.name.to_vec(), entry.inode));
            ControlFlow::Continue(())
        });
        for (name, inode) in &entries {
            if folders.len() < NAMES && !folders.contains(inode) {
                folders.push(*inode);
            }
            for name in [name.clone(), [name, b"~".as_slice()].concat()] {
                looked += 1;
                if looked > 4 * NAMES {
                    return;
                }
                if let Ok(Some(found)) = fs.lookup(&folder, &name, &budget()) {
                    // A damaged folder may have further entries behind the damage.
                    assert!(read.is_err() || entries.contains(&(name, found)));
                }
            }
        }
    }
}

/// The names of a folder, as its listing has them.
fn names(answer: &mut Answer) -> Vec<String> {
    let listing: serde_json::Value = serde_json::from_slice(&content(answer)).expect("a listing");
    let entries = listing["entries"].as_array().expect("entries").clone();
    let href = |entry: serde_json::Value| entry["href"].as_str().expect("a link").to_owned();
    entries.into_iter().map(href).collect()
}

/// Reads the start and the end of a file. The content has the announced length, or there is an error where it ends.
fn read(answer: &Answer) {
    let Some(Piece::File(file, range)) = answer.body.front() else {
        return;
    };
    for from in [range.start, range.end.saturating_sub(READ).max(range.start)] {
        let wanted = (range.end - from).min(READ);
        let mut bytes = vec![0x55; usize::try_from(wanted).expect("it is short")];
        let pieces = &mut [IoSliceMut::new(&mut bytes)];
        if let Ok(read) = file.read_at(pieces, from, ReadMode::Wait)
            && (read as u64) < wanted
        {
            assert!(read > 0, "the end comes before the announced one");
            let rest = &mut [IoSliceMut::new(&mut bytes[read..])];
            let next = file.read_at(rest, from + read as u64, ReadMode::Wait);
            assert!(next.is_err(), "{read} bytes of {wanted}");
        }
    }
}

fuzz_target!(|input: &[u8]| {
    let image = image(input);
    look_for_names(image.clone());
    if let Some(tree) = walk::tree(image.clone()) {
        walk::walk(&tree);
    }
    let backend: Arc<dyn Backend> = Arc::new(MemoryBackend::new(image));
    let table = format!("0 {} linear image 0", SIZE / 512);
    let table = CryptTable::parse(&table).expect("a table");
    let volume = Volume::start(table, DataPath::Inline, |_| Ok(Arc::clone(&backend)));
    let volume = volume.expect("a volume");
    let tell = Box::new(|_: &str| ());
    let identity = VolumeIdentity {
        name: "image".into(),
        uuid: String::new(),
        is_shared: true,
    };
    let Ok(files) = VolumeFiles::open(volume, identity, tell) else {
        return;
    };
    let files = Arc::new(files);
    for symlinks in [Symlinks::Within, Symlinks::Any] {
        let mut settings = Settings::new("");
        settings.root = Root::Volume {
            files: Arc::clone(&files),
            path: b"/".to_vec(),
        };
        (settings.listings, settings.symlinks) = (true, symlinks);
        let Ok(site) = Site::open(&settings) else {
            return;
        };
        let mut cache = Cache::new(CacheLimits::default());
        let (mut targets, mut next) = (vec!["/".to_owned()], 0);
        while let Some(target) = targets.get(next).cloned() {
            next += 1;
            let fields = Fields {
                accept: Some(b"application/json".as_slice().into()),
                ..Fields::default()
            };
            let mut answer = site.answer(&get(&target, fields), &mut cache);
            match answer.status.as_u16() {
                200 if matches!(answer.body.front(), Some(Piece::Bytes(_))) => {
                    let names = names(&mut answer).into_iter();
                    let room = NAMES.saturating_sub(targets.len());
                    targets.extend(names.take(room).map(|name| format!("{target}{name}")));
                }
                200 => read(&answer),
                301 | 400 | 403 | 404 | 500 | 503 => {}
                status => panic!("{status}"),
            }
        }
    }
});
