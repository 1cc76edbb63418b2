//! Standard output and standard error. Nothing else writes to them, so that control characters, which a terminal would
//! obey, are escaped in one place when they come from a file's name or a header.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;

use scrim_foreign::Visible;

use super::kept;
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
    done(written)
}

/// The content of a file on standard output: as it is, but at a terminal, where control characters are escaped.
pub(crate) struct Content {
    out: File,
    is_terminal: bool,
    /// The start of a character of which the rest is to come.
    part: Vec<u8>,
}

impl Content {
    pub(crate) fn begin() -> Result<Self, CliError> {
        let out = io::stdout().as_fd().try_clone_to_owned().map(File::from);
        Ok(Self {
            out: out.map_err(|error| CliError::io("write to standard output", &error))?,
            is_terminal: io::stdout().is_terminal(),
            part: Vec::new(),
        })
    }

    /// Writes more of the content; returns whether a reader is still there.
    pub(crate) fn print(&mut self, bytes: &[u8]) -> Result<bool, CliError> {
        if !self.is_terminal {
            return done(self.out.write_all(bytes));
        }
        let mut text = std::mem::take(&mut self.part);
        text.extend_from_slice(bytes);
        self.part = text.split_off(text.len() - unfinished(&text));
        done(write!(self.out, "{}", Visible::new(&text)))
    }

    /// Writes what is left.
    pub(crate) fn end(mut self) -> Result<(), CliError> {
        let part = std::mem::take(&mut self.part);
        done(write!(self.out, "{}", Visible::new(&part))).map(drop)
    }
}

/// Number of bytes at the end that may be the start of a character.
fn unfinished(text: &[u8]) -> usize {
    let last = text.utf8_chunks().last();
    let rest = last.map_or(&[][..], |chunk| chunk.invalid());
    match std::str::from_utf8(rest) {
        Err(error) if error.error_len().is_none() => rest.len(),
        _ => 0,
    }
}

fn done(written: io::Result<()>) -> Result<bool, CliError> {
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

/// Prints a message that is not the result on standard error. A process in the background keeps it if it is a warning.
pub(crate) fn note(text: impl Display) {
    let text = text.to_string();
    kept::keep(&text);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_that_is_cut_waits_for_its_rest() {
        for (text, len) in [
            (&b""[..], 0),
            (b"abc", 0),
            (b"a\xc3", 1),
            (b"a\xe6\x97", 2),
            (b"a\xf0\x9f\x98", 3),
            ("日".as_bytes(), 0),
            (b"a\xff", 0),
            (b"\x97", 0),
        ] {
            assert_eq!(unfinished(text), len, "{text:?}");
        }
    }
}
