//! Choice of the threads that do the work of a request.
//!
//! | path | read | write |
//! |---|---|---|
//! | inline | the requester reads and decrypts | the requester encrypts and writes |
//! | queued | `kcryptd_io` reads, `kcryptd` decrypts | `kcryptd` encrypts, `dmcrypt_write` writes in the order of sectors |
//! | auto | inline; long requests are split over idle processors | the same |
//!
//! The queued path is dm-crypt's ([`crate::CryptOptions`] has its flags, by their names and with their
//! meaning), for comparison and for storage that profits from it.

use std::fmt;
use std::str::FromStr;

use crate::table::CryptOptions;

/// Way in which a volume carries out its requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DataPath {
    /// Inline, and split over processors where that is quicker. A flag of the table that names a way for
    /// a direction overrides it.
    #[default]
    Auto,
    /// On the requester's thread, whatever flags the table has.
    Inline,
    /// Through dm-crypt's queues, unless the table's flags leave none.
    Queued,
}

/// All data paths, by their names.
const NAMES: [(DataPath, &str); 3] = [
    (DataPath::Auto, "auto"),
    (DataPath::Inline, "inline"),
    (DataPath::Queued, "queued"),
];

impl fmt::Display for DataPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|(path, _)| path == self);
        f.write_str(name.map_or("", |(_, name)| name))
    }
}

impl FromStr for DataPath {
    type Err = UnknownDataPath;

    fn from_str(text: &str) -> Result<Self, UnknownDataPath> {
        let path = NAMES.iter().find(|(_, name)| *name == text);
        path.map(|(path, _)| *path).ok_or(UnknownDataPath)
    }
}

/// A text that names no data path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownDataPath;

impl fmt::Display for UnknownDataPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the data paths are auto, inline and queued")
    }
}

impl std::error::Error for UnknownDataPath {}

impl DataPath {
    /// Returns the path that results in one direction of a target with these options.
    #[must_use]
    pub fn of(self, options: &CryptOptions, direction: Direction) -> Self {
        match Route::of(self, options, direction) {
            Route::Inline => Self::Inline,
            Route::Queued => Self::Queued,
            Route::Auto => Self::Auto,
        }
    }
}

/// The direction of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the storage to the client.
    Read,
    /// From the client to the storage.
    Write,
}

/// Path that results from a data path and a target's flags, for one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    Inline,
    Queued,
    Auto,
}

impl Route {
    pub(crate) fn of(path: DataPath, options: &CryptOptions, direction: Direction) -> Self {
        let unqueued = match direction {
            Direction::Read => options.no_read_workqueue,
            Direction::Write => options.no_write_workqueue,
        };
        match path {
            DataPath::Inline => Self::Inline,
            _ if unqueued => Self::Inline,
            DataPath::Queued => Self::Queued,
            DataPath::Auto => Self::Auto,
        }
    }
}
