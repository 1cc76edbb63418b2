//! Recognition of text by the beginning of a file, for names without an extension.

use std::io::{self, IoSliceMut};

use http::HeaderValue;

use crate::files::{OpenFile, ReadMode};

/// Length in bytes of the part of a file that is examined.
const EXAMINED: usize = 512;

/// Content type of recognised text.
pub(super) const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// Reads the beginning of a file, and returns whether it is text. This waits for the disk.
///
/// # Errors
/// Those of the file.
pub(super) fn is_text_file(file: &OpenFile) -> io::Result<bool> {
    let mut beginning = [0; EXAMINED];
    let mut len = 0;
    while len < EXAMINED {
        let mut rest = [IoSliceMut::new(&mut beginning[len..])];
        match file.read_at(&mut rest, len as u64, ReadMode::Wait)? {
            0 => break,
            read => len += read,
        }
    }
    Ok(is_text(&beginning[..len], len == EXAMINED))
}

/// Returns whether bytes are UTF-8 without control characters. With `is_cut`, the last character may be incomplete.
fn is_text(bytes: &[u8], is_cut: bool) -> bool {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) if is_cut && error.error_len().is_none() => {
            std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(_) => return false,
    };
    // Tabs, ends of lines and form feeds are usual in text.
    !text
        .chars()
        .any(|char| char.is_control() && !matches!(char, '\t' | '\n' | '\x0c' | '\r'))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn text_is_utf_8_without_control_characters() {
        for (bytes, wanted) in [
            (&b""[..], true),
            (b"all:\n\tcc main.c\r\n\x0c", true),
            ("Gr\u{fc}\u{df}e".as_bytes(), true),
            (b"\x7fELF\x02\x01\x01\0", false),
            (b"a\0b", false),
            (b"\x1b[31mred", false),
            ("a\u{85}b".as_bytes(), false),
            (b"Gr\xfc\xdfe", false),
        ] {
            for is_cut in [false, true] {
                assert_eq!(is_text(bytes, is_cut), wanted, "{bytes:?}");
            }
        }
        assert!(is_text(b"\xe2\x82", true), "the rest was not read");
        assert!(!is_text(b"\xe2\x82", false), "there is no rest");
    }

    #[test]
    fn only_the_beginning_of_a_file_is_examined() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("LICENSE");
        let is_text = |content: &[u8]| {
            fs::write(&path, content).unwrap();
            let file = std::os::fd::OwnedFd::from(fs::File::open(&path).unwrap());
            let stat = rustix::fs::fstat(&file).unwrap();
            is_text_file(&OpenFile::new(file, stat)).unwrap()
        };
        let mut content = vec![b'a'; EXAMINED + 1];
        assert!(is_text(&content));
        content[EXAMINED] = 0;
        assert!(is_text(&content), "beyond the beginning");
        content[EXAMINED - 1] = 0;
        assert!(!is_text(&content));
        content[EXAMINED - 1] = 0xe2;
        assert!(
            is_text(&content),
            "a character that goes on beyond the beginning"
        );
        assert!(is_text(b""));
    }
}
