//! Standard output and standard error. Nothing else writes to them, so that control characters, which a terminal would
//! obey, are escaped in one place when they come from a file's name or a header.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;

use scrim_foreign::Visible;

use crate::error::CliError;

/// Moves a terminal's cursor: an escape sequence of this program's own.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Cursor {
    /// Stays where it is.
    Stay,
    /// Moves to the start of the line and erases it.
    EraseLine,
    /// Moves up by this many lines and erases everything below.
    EraseLines(usize),
}

impl Cursor {
    fn sequence(self) -> String {
        match self {
            Self::Stay | Self::EraseLines(0) => String::new(),
            Self::EraseLine => "\r\x1b[K".to_owned(),
            Self::EraseLines(lines) => format!("\x1b[{lines}A\x1b[J"),
        }
    }
}

/// Writes to standard output, past the standard library's buffer, which would keep a key that is
/// printed on the heap. A reader that has gone away is not an error.
pub(crate) fn print(text: &[u8]) -> Result<(), CliError> {
    print_over(Cursor::Stay, text).map(drop)
}

/// Moves the cursor and writes to standard output; returns whether a reader is still there.
pub(crate) fn print_over(cursor: Cursor, text: &[u8]) -> Result<bool, CliError> {
    let out = io::stdout().as_fd().try_clone_to_owned().map(File::from);
    let written = out.and_then(|mut out| {
        out.write_all(cursor.sequence().as_bytes())?;
        write!(out, "{}", Visible::new(text))
    });
    match written {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(CliError::io("write to standard output", &error)),
    }
}

/// Prints a value as indented JSON.
pub(crate) fn print_json(value: &impl serde::Serialize) -> Result<(), CliError> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| CliError::io("write JSON", &error.into()))?;
    print_json_text(&text)
}

/// Prints a line or several of JSON.
pub(crate) fn print_json_text(text: &str) -> Result<(), CliError> {
    print(format!("{}\n", scrim_foreign::json(text)).as_bytes())
}

/// Prints a message that is not the result on standard error.
pub(crate) fn note(text: impl Display) {
    let text = text.to_string();
    let _ = writeln!(io::stderr(), "{}", Visible::new(&text));
}

/// Writes to standard error without ending the line.
pub(crate) fn show(cursor: Cursor, text: &str) -> io::Result<()> {
    let mut error = io::stderr().lock();
    write!(error, "{}{}", cursor.sequence(), Visible::new(text))?;
    error.flush()
}

/// Writes out what was printed.
pub(crate) fn flush() -> io::Result<()> {
    io::stdout().flush()
}
