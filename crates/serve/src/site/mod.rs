//! Sites: local folders and folders in volumes, with the answers to requests for their files.

mod answering;
mod archive;
mod cache;
mod content;
mod error;
mod fallback;
mod folder;
mod folder_names;
mod listing;
mod natural;
mod node;
mod page;
mod path;
mod pattern;
mod percent;
mod reply;
mod resource;
mod settings;
mod setup;
mod text;
mod tree;
mod types;
mod volume;

pub use answering::{Found, Site};
pub use cache::{Cache, CacheLimits};
pub use error::SiteError;
pub use folder_names::FolderNames;
pub use listing::Form;
pub use page::error_page;
pub(crate) use page::{Misdirection, content_type, html_type, json_type, misdirected, no_sniffing};
pub use path::{BadPath, FilePath};
pub use reply::{CompressedReply, Reply};
pub use resource::Resource;
pub use settings::{CacheRule, Hsts, Mount, Root, Settings, Symlinks};
