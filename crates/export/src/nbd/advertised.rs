//! Properties of an export as the handshake tells them.

use scrim_nbd::wire::flag;

use super::limits;
use crate::export::Export;

impl Export {
    /// Transmission flags of this export: what its volume can do.
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
