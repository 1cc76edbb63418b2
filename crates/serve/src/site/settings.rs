//! Settings of a site.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

pub use scrim_files::Symlinks;

use crate::access::AccessSettings;
use crate::files::VolumeFiles;
use crate::http::{Coding, Field};

/// A rule that says how long browsers may keep some files.
#[derive(Debug, Clone)]
pub struct CacheRule {
    /// Pattern of the files that it is for: `*.js` by name, `assets/**` by path, from the site's folder on. `*` and `?`
    /// stand for anything but a slash, `**` for anything.
    pub pattern: String,
    /// The value of `Cache-Control`.
    pub value: String,
}

/// `Strict-Transport-Security`: browsers come back by HTTPS only.
#[derive(Debug, Clone, Copy)]
pub struct Hsts {
    /// Time for which browsers remember it, in seconds.
    pub seconds: u64,
    /// True if it holds for hosts below this one, too.
    pub subdomains: bool,
    /// True if browsers may know it before their first visit.
    pub preload: bool,
}

/// A folder that is served.
#[derive(Debug, Clone)]
pub enum Root {
    Folder(PathBuf),
    /// A folder of the file system in a volume.
    Volume {
        files: Arc<VolumeFiles>,
        /// The folder, from the file system's root on.
        path: Vec<u8>,
    },
}

/// Another root below a path of a site.
#[derive(Debug, Clone)]
pub struct Mount {
    /// The path, such as `/backup`.
    pub at: String,
    /// The folder that is served there.
    pub root: Root,
}

/// Settings of a site: its files, and the manner in which they are served.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The folder that is served at `/`.
    pub root: Root,
    /// Folders at other paths; they hide what the root has there.
    pub mounts: Vec<Mount>,
    /// Names of files that stand for their folder, the first one that is there.
    pub index: Vec<String>,
    /// Path of the file that is answered in place of 404, except for files that a page loads.
    pub fallback: Option<String>,
    /// True if a folder without such a file is listed.
    pub listings: bool,
    /// True if a folder can be downloaded as an archive.
    pub archives: bool,
    /// Choice of the symbolic links that are followed.
    pub symlinks: Symlinks,
    /// True if names that begin with a dot are served; `/.well-known` always is.
    pub dot_files: bool,
    /// Codings of which there may be a file beside each file.
    pub precompressed: Vec<Coding>,
    /// Codings in which files are compressed when they are requested, in the order of preference.
    pub compress: Vec<Coding>,
    /// Length in bytes of the longest file that is compressed.
    pub compress_max_bytes: u64,
    /// Caching rules; the first that matches a file counts.
    pub cache_rules: Vec<CacheRule>,
    /// Fields of every answer.
    pub fields: Vec<Field>,
    /// Value of `Strict-Transport-Security`; `None` to leave the field out.
    pub hsts: Option<Hsts>,
    /// Pages for statuses, HTML files of at most 1 MiB each, which are read when the site starts.
    pub error_pages: BTreeMap<u16, PathBuf>,
    /// True if a file whose name has no extension is text where its beginning is.
    pub detect_text: bool,
    /// Content types by extension, without its dot and in lower case, besides the usual ones.
    pub types: BTreeMap<String, String>,
    /// Restrictions on its clients.
    pub access: AccessSettings,
}

impl Settings {
    /// The usual settings for a folder.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            root: Root::Folder(root.into()),
            mounts: Vec::new(),
            index: vec!["index.html".into()],
            fallback: None,
            listings: false,
            archives: false,
            symlinks: Symlinks::Within,
            dot_files: false,
            precompressed: Coding::ALL.to_vec(),
            compress: Vec::new(),
            compress_max_bytes: 8 << 20,
            cache_rules: Vec::new(),
            fields: Vec::new(),
            hsts: None,
            error_pages: BTreeMap::new(),
            detect_text: false,
            types: BTreeMap::new(),
            access: AccessSettings::default(),
        }
    }
}
