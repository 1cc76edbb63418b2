//! Values that cross the border to the library: error numbers and strings.

use std::ffi::{CStr, CString, c_char, c_int};
use std::io;

/// Longest string that is taken from the library, in bytes.
const TEXT_MAX: usize = 4096;

/// Turns a negative error number into an error.
pub(crate) fn check(result: c_int) -> io::Result<()> {
    match result {
        0.. => Ok(()),
        error => Err(error_of(i64::from(error))),
    }
}

/// Returns the error of a negative error number.
pub(crate) fn error_of(result: i64) -> io::Error {
    match i32::try_from(result.unsigned_abs()) {
        // The library numbers errors as the kernel does, up to 4095.
        Ok(number @ 1..=4095) => io::Error::from_raw_os_error(number),
        _ => io::Error::other(format!("librbd returned {result}")),
    }
}

/// Copies text for the library.
///
/// # Errors
/// `InvalidInput` if the text has a zero byte.
pub(crate) fn c_text(text: impl Into<Vec<u8>>) -> io::Result<CString> {
    CString::new(text).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
}

/// Copies text of the library; null is empty text. Bytes that are not UTF-8 are replaced.
///
/// # Safety
/// `text` is null, or a string that ends with a zero byte and that no thread changes meanwhile.
pub(crate) unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller's promise.
    let bytes = unsafe { CStr::from_ptr(text) }.to_bytes();
    String::from_utf8_lossy(&bytes[..bytes.len().min(TEXT_MAX)]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_keeps_its_number() {
        assert!(check(0).is_ok() && check(7).is_ok());
        assert_eq!(check(-2).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(check(-108).unwrap_err().raw_os_error(), Some(108));
        assert_eq!(error_of(-5000).raw_os_error(), None);
        assert_eq!(error_of(i64::MIN).raw_os_error(), None);
    }

    #[test]
    fn text_is_copied_with_a_limit() {
        // SAFETY: null and literals.
        unsafe {
            assert_eq!(text(std::ptr::null()), "");
            assert_eq!(text(c"a\xff".as_ptr()), "a\u{fffd}");
        }
        let long = CString::new(vec![b'x'; TEXT_MAX + 1]).unwrap();
        // SAFETY: the string lives until the end of the test.
        assert_eq!(unsafe { text(long.as_ptr()) }.len(), TEXT_MAX);
        assert!(c_text("a\0b").is_err());
    }
}
