//! Content of short files that are requested repeatedly, in memory while they are cached: reading one would be a fifth of
//! the system calls of a request.

use std::io::IoSliceMut;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;

use crate::files::{OpenFile, Patience};

/// Longest file whose content is kept, in bytes: for longer files, reading is not the main cost.
const LONGEST: u64 = 16 << 10;

/// Memory budget for content. Evicted content counts until the last answer that sends it has ended.
#[derive(Debug)]
pub(super) struct Memory(Arc<AtomicUsize>);

/// Content, with the budget that it is counted in.
struct CountedBytes {
    bytes: Vec<u8>,
    left: Arc<AtomicUsize>,
}

impl Memory {
    /// Makes a budget of this number of bytes.
    pub(super) fn new(bytes: usize) -> Self {
        Self(Arc::new(AtomicUsize::new(bytes)))
    }

    /// Reads all of a short file, if it is in the page cache and the budget allows it. `None` for a file in a volume, whose
    /// plaintext is not kept. The file's metadata are compared before and after, so that they describe the content.
    pub(super) fn read(&self, file: &OpenFile) -> Option<Bytes> {
        file.descriptor()?;
        let size = file.size();
        if size == 0 || size > LONGEST {
            return None;
        }
        let size = usize::try_from(size).ok()?;
        let taken = |left: usize| left.checked_sub(size);
        let order = Ordering::Relaxed;
        self.0.fetch_update(order, order, taken).ok()?;
        let mut kept = CountedBytes {
            bytes: vec![0; size],
            left: Arc::clone(&self.0),
        };
        let mut place = [IoSliceMut::new(&mut kept.bytes)];
        let read = file.read_at(&mut place, 0, Patience::Now).ok()?;
        (read == size && !file.has_changed().ok()?).then(|| Bytes::from_owner(kept))
    }
}

impl AsRef<[u8]> for CountedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for CountedBytes {
    fn drop(&mut self) {
        self.left.fetch_add(self.bytes.len(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn open(path: &std::path::Path) -> OpenFile {
        let file = std::os::fd::OwnedFd::from(fs::File::open(path).unwrap());
        let stat = rustix::fs::fstat(&file).unwrap();
        OpenFile::new(file, stat)
    }

    #[test]
    fn short_content_is_kept_within_its_memory_until_nobody_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, [7; 600]).unwrap();
        let (file, memory) = (open(&path), Memory::new(1000));
        let first = memory.read(&file).unwrap();
        assert_eq!(first, [7; 600].as_slice());
        assert!(memory.read(&file).is_none(), "600 bytes where 400 are left");
        drop(first);
        assert!(memory.read(&file).is_some());
    }

    #[test]
    fn nothing_is_kept_of_long_empty_and_changed_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let memory = Memory::new(1 << 20);
        fs::write(&path, vec![7; (16 << 10) + 1]).unwrap();
        assert!(memory.read(&open(&path)).is_none());
        fs::write(&path, "").unwrap();
        assert!(memory.read(&open(&path)).is_none());
        fs::write(&path, "before").unwrap();
        let file = open(&path);
        fs::write(&path, "thereafter").unwrap();
        assert!(memory.read(&file).is_none());
    }
}
