//! A volume under a name.

use std::sync::Arc;

use scrim_volume::Volume;
use scrim_volume::queue::Engine;

use super::limits;
use scrim_nbd::wire::flag;

/// A volume that clients can choose by its name.
#[derive(Clone)]
pub struct Export {
    /// The name, at most [`limits::NAME`] bytes, without NUL. A client that names none gets the
    /// server's first export.
    pub name: String,
    /// A sentence for people, shown by `nbdinfo --list`; may be empty, at most [`limits::NAME`]
    /// bytes.
    pub description: String,
    /// The volume that is served.
    pub volume: Arc<Volume>,
    /// The way in which requests reach the volume's storage.
    pub engine: Engine,
}

impl Export {
    pub(super) fn size(&self) -> u64 {
        self.volume.size()
    }

    /// The transmission flags.
    pub(super) fn flags(&self, structured: bool) -> u16 {
        // Several connections see one volume, whose flush covers the writes of all of them.
        let mut flags = flag::HAS_FLAGS
            | flag::SEND_FLUSH
            | flag::SEND_FUA
            | flag::CAN_MULTI_CONN
            | flag::SEND_CACHE;
        if structured {
            flags |= flag::SEND_DF;
        }
        if self.volume.is_read_only() {
            return flags | flag::READ_ONLY;
        }
        // Fast zeroing is answered at once, with "not supported": zeros must be encrypted.
        flags |= flag::SEND_WRITE_ZEROES | flag::SEND_FAST_ZERO;
        if self.volume.allows_discard() {
            flags |= flag::SEND_TRIM;
        }
        flags
    }

    /// Minimum, preferred and maximum block size, bytes.
    ///
    /// The minimum is the encryption sector: smaller requests are served, but each costs a
    /// read-modify-write, which clients that ask for block sizes do better themselves, in their
    /// caches. It must divide the export's size. The preferred size is at least a page.
    pub(super) fn block_sizes(&self) -> [u32; 3] {
        let mut minimum = self.volume.block_size();
        while minimum > 1 && !self.size().is_multiple_of(minimum.into()) {
            minimum /= 2;
        }
        [minimum, minimum.max(4096), limits::PAYLOAD]
    }
}
