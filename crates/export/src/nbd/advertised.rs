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
    /// Requests of any length at any offset are served, so the minimum is 1: libnbd refuses a smaller request before it
    /// sends it, and programs on top of it (nbdfuse) do not put a sector together by themselves. The preferred size is
    /// the encryption sector, and at least a page; a write of less costs a read-modify-write here.
    pub(super) fn block_sizes(&self) -> [u32; 3] {
        [1, self.volume.block_size().max(4096), limits::PAYLOAD]
    }
}
