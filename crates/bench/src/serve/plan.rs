//! Servers to measure, and the files that they serve.

use std::path::PathBuf;

use crate::web::{Suite, Trust, Url};

/// Name of the file.
pub(super) const NAME: &str = "file";

/// Servers to download from.
pub enum Plan {
    /// A server of ours, plain and over TLS.
    Ours(Ours),
    /// Servers of the user's, at most [`Plan::MOST`].
    Theirs {
        /// URLs of the files, of which each is downloaded.
        urls: Vec<Url>,
        /// Certificates that the client believes.
        trust: Trust,
    },
}

/// A server of ours.
pub struct Ours {
    /// The program that serves, `scrim`.
    pub program: PathBuf,
    /// File that is served.
    pub content: Content,
    /// The one suite of TLS 1.3.
    pub suite: Suite,
}

/// A file that is served: made for the measurement, or the user's.
pub enum Content {
    /// A file that is made in memory.
    Made {
        /// Length of the file in bytes.
        bytes: u64,
    },
    /// A file of the user's, by its absolute path. Nothing else of its folder is served.
    Users(PathBuf),
}

impl Plan {
    /// Most URLs that are compared.
    pub const MOST: usize = 2;
}
