//! Names that are not copied.

use super::target::UNFINISHED;

/// Reason for which no file is given this name, which comes from the file system in the volume.
pub(super) fn refused(name: &[u8]) -> Option<&'static str> {
    let mut characters = name.utf8_chunks().flat_map(|chunk| chunk.valid().chars());
    if matches!(name, b"" | b"." | b"..") || name.contains(&b'/') {
        Some("its name would lead to another folder")
    } else if characters.any(char::is_control) {
        Some("its name has control characters; name it and a DEST to copy it alone")
    } else if name == UNFINISHED {
        Some("its name is the one of unfinished copies; name it and a DEST to copy it alone")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_mislead_are_refused() {
        for name in [
            &b""[..],
            b".",
            b"..",
            b"a/b",
            b"/",
            b"a\nb",
            b"\x1b[2J",
            b"a\x7f",
            b"a\xc2\x9b",
            b"\xff\x01",
            b"a\0",
            UNFINISHED,
        ] {
            assert!(refused(name).is_some(), "{name:?}");
        }
        for name in [
            &b"a"[..],
            b"...",
            b".a",
            b" ",
            b"\xff\xfe",
            "日本".as_bytes(),
            b"a\\b",
        ] {
            assert_eq!(refused(name), None, "{name:?}");
        }
    }
}
