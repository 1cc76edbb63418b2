//! Sites: folders of files, mounted or in a volume, and what belongs to them.

mod answering;
mod cache;
mod content;
mod error;
mod folder;
mod listing;
mod natural;
mod open_file;
mod page;
mod path;
mod pattern;
mod percent;
mod resource;
mod settings;
mod setup;
mod time;
mod tree;
mod types;
mod volume;

pub use answering::{Found, Site};
pub use cache::{Cache, CacheLimits};
pub use error::SiteError;
pub use listing::Form;
pub(crate) use open_file::Change;
pub use open_file::OpenFile;
pub use page::error_page;
pub(crate) use page::{Misdirection, misdirected};
pub use path::{BadPath, FilePath};
pub use resource::Resource;
pub use scrim_ext4::{Error as Ext4Error, Patience};
pub use settings::{CacheRule, Hsts, Mount, Root, Settings, Symlinks};
pub(crate) use volume::{Lies, VolumeFile};
pub use volume::{Tell, VolumeFiles, VolumeIdentity};
