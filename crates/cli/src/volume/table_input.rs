//! A device-mapper table that a user gives: as a line, in a file, or on standard input.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use scrim_sys::memory::SecretBytes;
use scrim_volume::CryptTable;

use crate::error::CliError;
use crate::luks::key_source::{read_up_to, standard_input};

/// Returns the table that was given: as a line, if it begins as one, or else in a file, "-" being standard input.
pub(crate) fn table_text(given: &OsStr) -> Result<SecretBytes, CliError> {
    let bytes = given.as_bytes();
    if is_line(bytes) {
        return Ok(SecretBytes::copied_from(bytes));
    }
    read_table(Path::new(given))
}

/// A table in a file; "-" is standard input.
pub(crate) fn read_table(file: &Path) -> Result<SecretBytes, CliError> {
    // A line that was given where a file's name belongs may have a key in it.
    let shown = match has_white_space(file) {
        true => "the file of that name (a line goes behind --table)".into(),
        false => file.to_string_lossy(),
    };
    let fail = |error: io::Error| CliError::io(format_args!("read the table from {shown}"), &error);
    let mut from: Box<dyn Read> = if file == Path::new("-") {
        Box::new(standard_input()?)
    } else {
        Box::new(File::open(file).map_err(fail)?)
    };
    // One byte more is read, so that a longer table is refused and not cut.
    let text = read_up_to(&mut from, CryptTable::TEXT_MAX + 1).map_err(fail)?;
    if text.len() > CryptTable::TEXT_MAX {
        return Err(CliError::usage(format!(
            "the table from {shown} is longer than {} bytes; give a table only",
            CryptTable::TEXT_MAX
        )));
    }
    Ok(text)
}

/// A line begins with a number and has more than one word.
fn is_line(text: &[u8]) -> bool {
    let text = text.trim_ascii_start();
    text.first().is_some_and(u8::is_ascii_digit) && text.iter().any(u8::is_ascii_whitespace)
}

fn has_white_space(file: &Path) -> bool {
    file.as_os_str()
        .as_bytes()
        .iter()
        .any(u8::is_ascii_whitespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_in_the_place_of_a_file_is_not_repeated() {
        let key = "ab12".repeat(32);
        let line = format!("0 8 crypt aes-xts-plain64 {key} 0 /a 0");
        let error = read_table(Path::new(&line)).err().unwrap().to_string();
        assert!(!error.contains(&key), "{error}");
    }

    #[test]
    fn lines_are_told_from_names_of_files() {
        for line in ["0 8 zero", " 0 8 zero\n8 8 error\n", "0\t8 error"] {
            assert!(is_line(line.as_bytes()), "{line}");
        }
        for name in ["-", "table", "0", "/0 8 zero", "./0 8 zero", ""] {
            assert!(!is_line(name.as_bytes()), "{name}");
        }
    }
}
