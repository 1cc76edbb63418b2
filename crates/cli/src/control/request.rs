//! What can be asked of an open volume, and how it is spelt: `scrim 1 WORD`, ended by a newline.

/// Longest request line, in bytes.
pub(super) const REQUEST_MAX: usize = 64;

/// What can be asked of an open volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Request {
    Status,
    Table,
    TableWithKeys,
    Close,
    CloseForced,
    /// In 512-byte sectors.
    Resize(u64),
}

/// Those that are one word.
const REQUESTS: [(Request, &str); 5] = [
    (Request::Status, "status"),
    (Request::Table, "table"),
    (Request::TableWithKeys, "table-showkeys"),
    (Request::Close, "close"),
    (Request::CloseForced, "close-force"),
];

impl Request {
    pub(super) fn to_line(self) -> String {
        if let Self::Resize(sectors) = self {
            return format!("scrim 1 resize {sectors}\n");
        }
        let word = REQUESTS.iter().find(|(request, _)| *request == self);
        format!("scrim 1 {}\n", word.map_or("", |(_, word)| word))
    }

    /// Reads what came in one piece.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let line = std::str::from_utf8(bytes).ok()?;
        let word = line.strip_suffix('\n')?.strip_prefix("scrim 1 ")?;
        if let Some(sectors) = word.strip_prefix("resize ") {
            let request = sectors.parse().ok().map(Self::Resize);
            // A number has one spelling.
            return request.filter(|request| request.to_line() == line);
        }
        let found = REQUESTS.iter().find(|(_, name)| *name == word);
        found.map(|(request, _)| *request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_as_they_are_written() {
        let words = REQUESTS.into_iter().map(|(request, _)| request);
        for request in words.chain([Request::Resize(0), Request::Resize(u64::MAX)]) {
            let line = request.to_line();
            assert_eq!(Request::from_bytes(line.as_bytes()), Some(request));
            assert!(line.len() <= REQUEST_MAX);
        }
        for line in [
            &b""[..],
            b"\n",
            b"scrim 1 status",
            b"scrim 2 status\n",
            b"scrim 1 \n",
            b"scrim 1 resize\n",
            b"scrim 1 resize -1\n",
            b"scrim 1 resize +1\n",
            b"scrim 1 resize 01\n",
            b"scrim 1 status\xff\n",
        ] {
            assert_eq!(Request::from_bytes(line), None);
        }
    }
}
