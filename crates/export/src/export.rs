//! A volume under a name.

use std::sync::Arc;

use scrim_volume::Volume;
use scrim_volume::queue::Engine;

/// A volume that clients can choose by its name.
#[derive(Clone)]
pub struct Export {
    /// The name, at most [`limits::NAME`](crate::limits::NAME) bytes, without NUL. A client that names none gets the
    /// server's first export.
    pub name: String,
    /// A sentence for people, shown by `nbdinfo --list`; may be empty, at most [`limits::NAME`](crate::limits::NAME)
    /// bytes.
    pub description: String,
    /// The volume that is served.
    pub volume: Arc<Volume>,
    /// The way in which requests reach the volume's storage.
    pub engine: Engine,
}

impl Export {
    pub(crate) fn size(&self) -> u64 {
        self.volume.size()
    }
}
