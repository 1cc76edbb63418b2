//! Ways to measure, and how.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use super::super::plan::NAME;
use crate::web::Suite;

/// Source of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// A folder of files.
    Folder,
    /// An encrypted volume with a file system, by this data path.
    Volume(DataPath),
}

/// Data path of the decryption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataPath {
    /// The threads of dm-crypt's queues.
    Queued,
    /// The thread that answers.
    Inline,
    /// The thread that answers, with idle processors where a read is long.
    Auto,
}

impl DataPath {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Inline => "inline",
            Self::Auto => "auto",
        }
    }
}

impl Way {
    /// Name of the way, as a user writes and reads it.
    pub(super) fn words(self) -> String {
        match self {
            Self::Folder => "dir".to_owned(),
            Self::Volume(path) => format!("volume:{}", path.word()),
        }
    }

    /// Name of the way, as in names of series.
    pub(super) fn name(self) -> String {
        self.words().replace(':', "_")
    }
}

impl FromStr for Way {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let ways = [
            Self::Folder,
            Self::Volume(DataPath::Queued),
            Self::Volume(DataPath::Inline),
            Self::Volume(DataPath::Auto),
        ];
        let way = ways.into_iter().find(|way| way.words() == text);
        way.ok_or("give dir, volume:queued, volume:inline or volume:auto")
    }
}

/// Ways to measure, and how.
pub struct Plan {
    /// The program that serves, `scrim`.
    pub program: PathBuf,
    /// Ways to measure, each at most once.
    pub ways: Vec<Way>,
    /// Bytes of the file that is asked for.
    pub bytes: u64,
    /// The one suite of TLS 1.3.
    pub suite: Suite,
    /// Time for which each way is asked in a round.
    pub time: Duration,
}

/// Path under which the file is asked for.
pub(super) fn target() -> String {
    format!("/{NAME}")
}
