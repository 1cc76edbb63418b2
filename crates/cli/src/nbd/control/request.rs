//! Requests to an open volume, and their spelling: a line `scrim 1 WORD…`, which for some requests a body follows.

use scrim_volume::{Change, CryptTable, DataPath, OpenFlags};

/// Longest request line, in bytes.
pub(super) const LINE_MAX: usize = 256;
/// Longest volume key, in bytes.
pub(super) const KEY_MAX: usize = 512;

/// Longest request to mount or to unmount, in bytes: paths of the kernel's longest length, each byte escaped.
pub(super) const JSON_MAX: usize = 32 << 10;

/// Most bytes of a header in one answer.
pub(crate) const READ_MAX: usize = 1 << 20;

/// Request to an open volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Request {
    Status,
    Statistics,
    Table,
    TableWithKeys,
    InactiveTable,
    InactiveTableWithKeys,
    Suspend,
    /// Suspend, and destroy the key.
    Forget,
    Resume,
    /// Resume with the volume key, whose `len` bytes follow the line.
    ResumeWithKey {
        len: usize,
    },
    /// Hold requests for a snapshot, at most this many seconds.
    Hold(u16),
    /// End what [`Hold`](Self::Hold) began.
    Release,
    Clear,
    Close,
    CloseForced,
    /// Close once nobody uses the volume.
    CloseDeferred,
    /// Keep the volume open after all.
    CancelDeferred,
    /// Resize to this many 512-byte sectors.
    Resize(u64),
    /// Load a table, whose `len` bytes follow the line.
    Reload {
        len: usize,
        change: Change,
    },
    /// New flags of the table, and the data path if it is to change.
    Refresh(OpenFlags, Option<DataPath>),
    /// Bytes of the device before its data, at most [`READ_MAX`].
    ReadHeader {
        offset: u64,
        len: usize,
    },
    /// Mount as the JSON of `len` bytes says that follows the line.
    Mount {
        len: usize,
    },
    /// Unmount as the JSON of `len` bytes says that follows the line.
    Umount {
        len: usize,
    },
}

/// Requests that are one word.
const REQUESTS: [(Request, &str); 15] = [
    (Request::Status, "status"),
    (Request::Statistics, "statistics"),
    (Request::Table, "table"),
    (Request::TableWithKeys, "table-showkeys"),
    (Request::InactiveTable, "inactive"),
    (Request::InactiveTableWithKeys, "inactive-showkeys"),
    (Request::Suspend, "suspend"),
    (Request::Forget, "forget"),
    (Request::Resume, "resume"),
    (Request::Release, "release"),
    (Request::Clear, "clear"),
    (Request::Close, "close"),
    (Request::CloseForced, "close-force"),
    (Request::CloseDeferred, "close-deferred"),
    (Request::CancelDeferred, "close-cancel"),
];

impl Request {
    /// Number of bytes that follow the request's line.
    pub(super) fn body_len(self) -> usize {
        match self {
            Self::Reload { len, .. }
            | Self::ResumeWithKey { len }
            | Self::Mount { len }
            | Self::Umount { len } => len,
            _ => 0,
        }
    }

    pub(super) fn to_line(self) -> String {
        let words = match self {
            Self::Hold(seconds) => format!("hold {seconds}"),
            Self::Resize(sectors) => format!("resize {sectors}"),
            Self::ResumeWithKey { len } => format!("resume-key {len}"),
            Self::Reload { len, change } => format!("{} {len}", reload_word(change)),
            Self::Refresh(flags, path) => refresh_words(flags, path),
            Self::ReadHeader { offset, len } => format!("header {offset} {len}"),
            Self::Mount { len } => format!("mount {len}"),
            Self::Umount { len } => format!("umount {len}"),
            _ => {
                let word = REQUESTS.iter().find(|(request, _)| *request == self);
                word.map_or("", |(_, word)| word).to_owned()
            }
        };
        format!("scrim 1 {words}\n")
    }

    /// Reads a whole line.
    pub(super) fn from_line(bytes: &[u8]) -> Option<Self> {
        let line = std::str::from_utf8(bytes).ok()?;
        let words = line.strip_suffix('\n')?.strip_prefix("scrim 1 ")?;
        let request = match words.split_once(' ') {
            Some(("hold", seconds)) => Self::Hold(seconds.parse().ok()?),
            Some(("resize", sectors)) => Self::Resize(sectors.parse().ok()?),
            Some(("resume-key", len)) => resume_with_key(len)?,
            Some(("reload", len)) => reload(Change::OfService, len)?,
            Some(("reload-force", len)) => reload(Change::OfMeaning, len)?,
            Some(("refresh", rest)) => refresh(rest)?,
            Some(("header", rest)) => read_header(rest)?,
            Some(("mount", len)) => Self::Mount {
                len: json_len(len)?,
            },
            Some(("umount", len)) => Self::Umount {
                len: json_len(len)?,
            },
            _ => REQUESTS.iter().find(|(_, name)| *name == words)?.0,
        };
        // Each has one spelling.
        (request.to_line() == line).then_some(request)
    }
}

fn reload_word(change: Change) -> &'static str {
    match change {
        Change::OfService => "reload",
        Change::OfMeaning => "reload-force",
    }
}

fn resume_with_key(len: &str) -> Option<Request> {
    let len = len.parse().ok()?;
    (len <= KEY_MAX).then_some(Request::ResumeWithKey { len })
}

fn read_header(words: &str) -> Option<Request> {
    let (offset, len) = words.split_once(' ')?;
    let (offset, len) = (offset.parse().ok()?, len.parse().ok()?);
    (len <= READ_MAX).then_some(Request::ReadHeader { offset, len })
}

fn json_len(word: &str) -> Option<usize> {
    word.parse().ok().filter(|&len| len <= JSON_MAX)
}

fn reload(change: Change, len: &str) -> Option<Request> {
    let len = len.parse().ok()?;
    (len <= CryptTable::TEXT_MAX).then_some(Request::Reload { len, change })
}

/// `refresh PATH FLAGS`: the data path or `as-it-is`, and each flag as a 0 or a 1.
fn refresh_words(flags: OpenFlags, path: Option<DataPath>) -> String {
    let path = path.map_or_else(|| KEPT.to_owned(), |path| path.to_string());
    let digits = in_order(flags).map(|set| if set { '1' } else { '0' });
    format!("refresh {path} {}", digits.iter().collect::<String>())
}

const KEPT: &str = "as-it-is";

fn refresh(words: &str) -> Option<Request> {
    let (path, digits) = words.split_once(' ')?;
    let path = match path {
        KEPT => None,
        name => Some(name.parse().ok()?),
    };
    let mut set = [false; 6];
    if digits.len() != set.len() {
        return None;
    }
    for (set, digit) in set.iter_mut().zip(digits.bytes()) {
        *set = digit == b'1';
    }
    let [
        allow_discards,
        same_cpu_crypt,
        submit_from_crypt_cpus,
        no_read_workqueue,
        no_write_workqueue,
        high_priority,
    ] = set;
    let flags = OpenFlags {
        allow_discards,
        same_cpu_crypt,
        submit_from_crypt_cpus,
        no_read_workqueue,
        no_write_workqueue,
        high_priority,
    };
    Some(Request::Refresh(flags, path))
}

fn in_order(flags: OpenFlags) -> [bool; 6] {
    [
        flags.allow_discards,
        flags.same_cpu_crypt,
        flags.submit_from_crypt_cpus,
        flags.no_read_workqueue,
        flags.no_write_workqueue,
        flags.high_priority,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_as_they_are_written() {
        let flags = OpenFlags {
            same_cpu_crypt: true,
            high_priority: true,
            ..OpenFlags::default()
        };
        let more = [
            Request::Hold(0),
            Request::Hold(u16::MAX),
            Request::Resize(0),
            Request::Resize(u64::MAX),
            Request::Reload {
                len: CryptTable::TEXT_MAX,
                change: Change::OfMeaning,
            },
            Request::Reload {
                len: 0,
                change: Change::OfService,
            },
            Request::ResumeWithKey { len: 64 },
            Request::ReadHeader {
                offset: u64::MAX,
                len: READ_MAX,
            },
            Request::Mount { len: JSON_MAX },
            Request::Umount { len: 0 },
            Request::Refresh(flags, None),
            Request::Refresh(OpenFlags::default(), Some(DataPath::Queued)),
        ];
        let words = REQUESTS.into_iter().map(|(request, _)| request);
        for request in words.chain(more) {
            let line = request.to_line();
            assert_eq!(Request::from_line(line.as_bytes()), Some(request));
            assert!(line.len() <= LINE_MAX);
        }
        for line in [
            &b""[..],
            b"\n",
            b"scrim 1 status",
            b"scrim 2 status\n",
            b"scrim 1 \n",
            b"scrim 1 hold\n",
            b"scrim 1 hold 65536\n",
            b"scrim 1 resize\n",
            b"scrim 1 resize -1\n",
            b"scrim 1 resize +1\n",
            b"scrim 1 resize 01\n",
            b"scrim 1 status\xff\n",
            b"scrim 1 reload\n",
            b"scrim 1 reload 1048577\n",
            b"scrim 1 reload 99999999999999999999\n",
            b"scrim 1 resume-key\n",
            b"scrim 1 resume-key 513\n",
            b"scrim 1 resume-key 064\n",
            b"scrim 1 refresh\n",
            b"scrim 1 header 0\n",
            b"scrim 1 header 0 1048577\n",
            b"scrim 1 header -1 1\n",
            b"scrim 1 mount\n",
            b"scrim 1 mount 32769\n",
            b"scrim 1 umount -1\n",
            b"scrim 1 refresh fast 000000\n",
            b"scrim 1 refresh auto 00000\n",
            b"scrim 1 refresh auto 000002\n",
        ] {
            assert_eq!(Request::from_line(line), None);
        }
    }
}
