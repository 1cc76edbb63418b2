//! Files that are open for reading, in a mounted file system or in a volume. Nothing here knows HTTP or paths of a site.

mod open_file;
mod storage_error;
mod volume;

pub(crate) use open_file::Change;
pub use open_file::OpenFile;
pub use scrim_files::{Error as Ext4Error, ReadMode};
pub(crate) use storage_error::StorageError;
pub(crate) use volume::{Extent, VolumeFile};
pub use volume::{OnVolumeFault, VolumeFiles, VolumeIdentity};
