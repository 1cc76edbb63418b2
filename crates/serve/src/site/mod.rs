//! What is served: folders of files, and what belongs to them.

mod answering;
mod cache;
mod error;
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

pub use answering::{Found, Site};
pub use cache::{Cache, CacheLimits};
pub use error::SiteError;
pub use listing::Form;
pub use open_file::{OpenFile, Patience};
pub use page::error_page;
pub use path::{BadPath, FilePath};
pub use resource::Resource;
pub use settings::{CacheRule, Hsts, Settings, Symlinks};
