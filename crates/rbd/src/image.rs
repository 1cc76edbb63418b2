//! An image of a cluster that is open: its requests, its lock and its clients.

use std::ffi::{CStr, c_char, c_int};
use std::io;
use std::ptr::{null, null_mut};
use std::sync::Arc;

use crate::cluster::Pool;
use crate::foreign::{c_text, check, error_of, text};
use crate::library::{ImageHandle, ImageInfo, ImageSpec, ImageWatcher, Rbd, SnapshotSpec};

/// Features of an image, as `rbd/features.h` numbers them.
pub mod feature {
    /// At most one client at a time writes.
    pub const EXCLUSIVE_LOCK: u64 = 1 << 2;
}

/// Most bytes of one call: the library returns lengths as C integers.
const CALL_MAX: u64 = 1 << 30;
/// Most owners or watchers that are looked at.
const LIST_MAX: usize = 1024;
/// Mode of the lock: `RBD_LOCK_MODE_EXCLUSIVE` of librbd.
const EXCLUSIVE: c_int = 0;

/// Access for which an image is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Reading only. The image may change meanwhile, and its size is that of when it was opened.
    ReadOnly,
    /// Reading and writing, by which the lock can be taken.
    ReadWrite,
}

/// Size of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// Size of the whole image, in bytes.
    pub size: u64,
    /// Size of the objects that its data is cut into, in bytes.
    pub object_size: u64,
}

/// The snapshot that an image is a clone of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parent {
    pub pool: String,
    /// Namespace in the pool; empty for the pool's own images.
    pub namespace: String,
    pub image: String,
    /// Identity of the image, by which it is found in the trash.
    pub id: String,
    /// True if the image is in the trash.
    pub in_trash: bool,
    pub snapshot: String,
}

/// A client that has an image open and hears of its changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watcher {
    /// Address of the client, as in `10.0.0.7:0/3121`.
    pub address: String,
    /// Number of the client, as in `client.4123`.
    pub client: i64,
}

/// Image of a cluster that is open.
pub struct Image {
    handle: ImageHandle,
    pool: Arc<Pool>,
}

// SAFETY: librbd's images may be used by any thread, and by several at the same time.
unsafe impl Send for Image {}
// SAFETY: as above.
unsafe impl Sync for Image {}

/// Signature that librbd's functions for opening have in common.
type Open = unsafe extern "C" fn(
    crate::library::PoolHandle,
    *const c_char,
    *mut ImageHandle,
    *const c_char,
) -> c_int;

impl Image {
    /// Opens an image or one of its snapshots, which can only be read.
    ///
    /// # Errors
    /// `NotFound` if there is no such image or snapshot; as the cluster says otherwise.
    pub fn open(
        pool: &Arc<Pool>,
        name: &str,
        snapshot: Option<&str>,
        mode: Mode,
    ) -> io::Result<Self> {
        let rbd = &pool.libraries().rbd;
        let open = match mode {
            Mode::ReadOnly => rbd.rbd_open_read_only,
            Mode::ReadWrite => rbd.rbd_open,
        };
        Self::open_by(open, pool, name, snapshot)
    }

    /// Opens the snapshot that an image is a clone of.
    ///
    /// # Errors
    /// As for [`Image::open`].
    pub fn open_parent(pool: &Arc<Pool>, parent: &Parent) -> io::Result<Self> {
        let rbd = &pool.libraries().rbd;
        let (open, name) = match parent.in_trash {
            true => (rbd.rbd_open_by_id_read_only, &parent.id),
            false => (rbd.rbd_open_read_only, &parent.image),
        };
        Self::open_by(open, pool, name, Some(&parent.snapshot))
    }

    fn open_by(
        open: Open,
        pool: &Arc<Pool>,
        name: &str,
        snapshot: Option<&str>,
    ) -> io::Result<Self> {
        let name = c_text(name)?;
        let snapshot = snapshot.map(c_text).transpose()?;
        let snapshot = snapshot.as_deref().map_or(null(), CStr::as_ptr);
        let mut handle = null_mut();
        // SAFETY: the pool's handle is valid; the name, the snapshot, which is null or a string, and the place of the
        // result live until the call returns.
        check(unsafe { open(pool.handle(), name.as_ptr(), &raw mut handle, snapshot) })?;
        Ok(Self {
            handle,
            pool: Arc::clone(pool),
        })
    }

    fn rbd(&self) -> &'static Rbd {
        &self.pool.libraries().rbd
    }

    /// The pool that has the image.
    #[must_use]
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Returns the image's size as of now.
    ///
    /// # Errors
    /// As the cluster says.
    pub fn stat(&self) -> io::Result<Stat> {
        let mut info = ImageInfo::EMPTY;
        // SAFETY: the handle is valid, and `info` is as long as the call is told.
        check(unsafe {
            (self.rbd().rbd_stat)(self.handle, &raw mut info, size_of::<ImageInfo>())
        })?;
        Ok(Stat {
            size: info.size,
            object_size: info.object_size,
        })
    }

    /// Returns the image's features, as in [`feature`].
    ///
    /// # Errors
    /// As the cluster says.
    pub fn features(&self) -> io::Result<u64> {
        let mut features = 0;
        // SAFETY: the handle is valid, and the place of the result lives until the call returns.
        check(unsafe { (self.rbd().rbd_get_features)(self.handle, &raw mut features) })?;
        Ok(features)
    }

    /// Returns the snapshot that the image is a clone of, if it is one.
    ///
    /// # Errors
    /// As the cluster says.
    pub fn parent(&self) -> io::Result<Option<Parent>> {
        let rbd = self.rbd();
        let (mut image, mut snapshot) = (ImageSpec::EMPTY, SnapshotSpec::EMPTY);
        // SAFETY: the handle is valid, and both places live until the call returns.
        let found = unsafe { (rbd.rbd_get_parent)(self.handle, &raw mut image, &raw mut snapshot) };
        match check(found) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            found => found?,
        }
        // SAFETY: the call has filled both with strings, or left null.
        let parent = unsafe {
            Parent {
                pool: text(image.pool_name),
                namespace: text(image.pool_namespace),
                image: text(image.image_name),
                id: text(image.image_id),
                in_trash: image.trash != 0,
                snapshot: text(snapshot.name),
            }
        };
        // SAFETY: the call has filled both, and nothing uses their strings any more.
        unsafe {
            (rbd.rbd_linked_image_spec_cleanup)(&raw mut image);
            (rbd.rbd_snap_spec_cleanup)(&raw mut snapshot);
        }
        Ok(Some(parent))
    }

    /// Fills `buffer` from `offset` (bytes).
    ///
    /// # Errors
    /// `UnexpectedEof` if the image ends before; as the cluster says otherwise.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        for (offset, range) in calls(offset, buffer.len()) {
            let piece = &mut buffer[range];
            // SAFETY: the handle is valid, and the buffer is writable for the length that the call is told.
            let read = unsafe {
                (self.rbd().rbd_read2)(
                    self.handle,
                    offset,
                    piece.len(),
                    piece.as_mut_ptr().cast(),
                    0,
                )
            };
            check_len(read, piece.len())?;
        }
        Ok(())
    }

    /// Writes all of `data` at `offset` (bytes).
    ///
    /// # Errors
    /// `UnexpectedEof` if the image ends before; as the cluster says otherwise.
    pub fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        for (offset, range) in calls(offset, data.len()) {
            let piece = &data[range];
            // SAFETY: the handle is valid, and the data is readable for the length that the call is told.
            let written = unsafe {
                (self.rbd().rbd_write2)(self.handle, offset, piece.len(), piece.as_ptr().cast(), 0)
            };
            check_len(written, piece.len())?;
        }
        Ok(())
    }

    /// Discards `len` bytes at `offset`, or the whole objects and blocks among them.
    ///
    /// # Errors
    /// As the cluster says.
    pub fn discard(&self, offset: u64, len: u64) -> io::Result<()> {
        for (offset, len) in long_calls(offset, len) {
            // SAFETY: the handle is valid.
            check(unsafe { (self.rbd().rbd_discard)(self.handle, offset, len) })?;
        }
        Ok(())
    }

    /// Makes `len` bytes at `offset` read as zeros.
    ///
    /// # Errors
    /// As the cluster says.
    pub fn write_zeroes(&self, offset: u64, len: u64) -> io::Result<()> {
        for (offset, len) in long_calls(offset, len) {
            let len = usize::try_from(len).map_err(io::Error::other)?;
            // SAFETY: the handle is valid.
            let zeroed = unsafe { (self.rbd().rbd_write_zeroes)(self.handle, offset, len, 0, 0) };
            check_len(zeroed, len)?;
        }
        Ok(())
    }

    /// Makes every write that has returned durable: all replicas have stored it.
    ///
    /// # Errors
    /// As the cluster says.
    pub fn flush(&self) -> io::Result<()> {
        // SAFETY: the handle is valid.
        check(unsafe { (self.rbd().rbd_flush)(self.handle) })
    }

    /// Takes the image's exclusive lock until the image is closed. The lock of a client that is dead is broken, and that
    /// client blocked. A client that is alive is asked for the lock, and waited for.
    ///
    /// # Errors
    /// When another client keeps the lock; as the cluster says otherwise.
    pub fn acquire_lock(&self) -> io::Result<()> {
        // SAFETY: the handle is valid.
        check(unsafe { (self.rbd().rbd_lock_acquire)(self.handle, EXCLUSIVE) })
    }

    /// Returns the addresses of the clients that hold the image's lock, alive or dead.
    ///
    /// # Errors
    /// As the cluster says.
    pub fn lock_owners(&self) -> io::Result<Vec<String>> {
        let rbd = self.rbd();
        let mut owners = [null_mut::<c_char>(); 8];
        let (mut count, mut mode) = (owners.len(), 0);
        // SAFETY: the handle is valid, and `owners` has `count` places.
        let found = unsafe {
            (rbd.rbd_lock_get_owners)(
                self.handle,
                &raw mut mode,
                owners.as_mut_ptr(),
                &raw mut count,
            )
        };
        match check(found) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            found => found?,
        }
        let found = owners.get(..count).ok_or_else(too_many)?;
        // SAFETY: the call has filled these places with strings.
        let texts = found.iter().map(|&owner| unsafe { text(owner) }).collect();
        // SAFETY: the call has filled `count` places, and nothing uses them any more.
        unsafe { (rbd.rbd_lock_get_owners_cleanup)(owners.as_mut_ptr(), count) };
        Ok(texts)
    }

    /// Returns the clients that have the image open for writing, and this one if it has.
    ///
    /// # Errors
    /// As the cluster says.
    pub fn watchers(&self) -> io::Result<Vec<Watcher>> {
        let rbd = self.rbd();
        let mut watchers = vec![ImageWatcher::EMPTY; LIST_MAX];
        let mut count = watchers.len();
        // SAFETY: the handle is valid, and `watchers` has `count` places.
        check(unsafe {
            (rbd.rbd_watchers_list)(self.handle, watchers.as_mut_ptr(), &raw mut count)
        })?;
        let found = watchers.get(..count).ok_or_else(too_many)?;
        let copied = |watcher: &ImageWatcher| Watcher {
            // SAFETY: the call has filled this place with a string.
            address: unsafe { text(watcher.address) },
            client: watcher.id,
        };
        let copies = found.iter().map(copied).collect();
        // SAFETY: the call has filled `count` places, and nothing uses them any more.
        unsafe { (rbd.rbd_watchers_list_cleanup)(watchers.as_mut_ptr(), count) };
        Ok(copies)
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        // SAFETY: the handle was made by one of librbd's functions for opening, and is not used any more.
        // An error cannot be reported here: who needs to know has flushed.
        let _ = unsafe { (self.rbd().rbd_close)(self.handle) };
    }
}

fn too_many() -> io::Error {
    io::Error::other("librbd counts more clients than it had places for")
}

/// Checks that a call has moved `len` bytes.
fn check_len(result: isize, len: usize) -> io::Result<()> {
    match usize::try_from(result) {
        Err(_) => Err(error_of(i64::try_from(result).unwrap_or(i64::MIN))),
        Ok(moved) if moved == len => Ok(()),
        Ok(_) => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Cuts a range of bytes into the ranges of calls: offset and length of each.
fn long_calls(offset: u64, len: u64) -> impl Iterator<Item = (u64, u64)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let piece = (len - done).min(CALL_MAX);
        let at = offset.checked_add(done)?;
        done += piece;
        (piece > 0).then_some((at, piece))
    })
}

/// Cuts a buffer for `offset` into the parts of calls: offset, and place in the buffer, of each.
fn calls(offset: u64, len: usize) -> impl Iterator<Item = (u64, std::ops::Range<usize>)> {
    let mut start = 0;
    long_calls(offset, len as u64).map(move |(at, piece)| {
        let end = usize::try_from(piece).map_or(len, |piece| len.min(start + piece));
        let range = start..end;
        start = end;
        (at, range)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_range_is_cut() {
        let cut = |offset, len| long_calls(offset, len).collect::<Vec<_>>();
        assert_eq!(cut(5, 0), []);
        assert_eq!(cut(5, 7), [(5, 7)]);
        let most = CALL_MAX;
        assert_eq!(
            cut(1, 2 * most + 3),
            [(1, most), (1 + most, most), (1 + 2 * most, 3)]
        );
        assert_eq!(calls(9, 4).collect::<Vec<_>>(), [(9, 0..4)]);
    }

    #[test]
    fn a_short_answer_is_an_error() {
        assert!(check_len(4, 4).is_ok());
        assert_eq!(
            check_len(3, 4).unwrap_err().kind(),
            io::ErrorKind::UnexpectedEof
        );
        assert_eq!(
            check_len(-28, 4).unwrap_err().kind(),
            io::ErrorKind::StorageFull
        );
    }
}
