//! Results of a copy: counts, notes on what was left out or failed, and the summary.

use scrim_figures::Size;
use serde::Serialize;

use crate::error::{CliError, Exit};
use crate::terminal::{note, print, print_json};

/// Notes of one kind that are printed; the rest is counted.
const NOTES_MAX: u64 = 20;

/// Kinds of messages, each of which is printed a limited number of times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Failure,
    /// A device node, a pipe or a socket, which is left out.
    Special,
    /// A file whose extended attributes are left out.
    Attributes,
    /// A name of a file that was copied once more, since the names of too many files had to be remembered.
    SecondCopy,
}

/// Counts of a copy.
#[derive(Debug, Default, Serialize)]
pub(super) struct Counts {
    pub(super) files: u64,
    /// Bytes of data that were written; holes are left out.
    pub(super) bytes: u64,
    pub(super) folders: u64,
    pub(super) symbolic_links: u64,
    pub(super) hard_links: u64,
    /// Files and symbolic links that were there, with the same size and time, or the same target.
    pub(super) unchanged: u64,
    special_files_left_out: u64,
    files_with_attributes_left_out: u64,
    second_copies: u64,
    failures: u64,
}

/// Results of the copy so far.
#[derive(Default)]
pub(super) struct Report {
    pub(super) counts: Counts,
    /// Exit code for the failures.
    exit: Option<Exit>,
}

impl Report {
    /// Counts something and prints a note about it, unless there were many of its kind.
    pub(super) fn tell(&mut self, kind: Kind, text: &str) {
        let counts = &mut self.counts;
        let count = match kind {
            Kind::Failure => &mut counts.failures,
            Kind::Special => &mut counts.special_files_left_out,
            Kind::Attributes => &mut counts.files_with_attributes_left_out,
            Kind::SecondCopy => &mut counts.second_copies,
        };
        *count += 1;
        if *count <= NOTES_MAX {
            note(format_args!("scrim: {text}"));
        } else if *count == NOTES_MAX + 1 {
            note("scrim: further messages of this kind are only counted");
        }
    }

    /// Counts a file that was not copied.
    pub(super) fn fail(&mut self, error: &CliError) {
        self.tell(Kind::Failure, &error.to_string());
        // One that exists already is the mildest failure.
        self.exit = match self.exit {
            None | Some(Exit::Busy) => Some(error.exit),
            other => other,
        };
    }

    /// Prints the summary. An error if something was not copied.
    pub(super) fn finish(&self, source: &str, json: bool) -> Result<(), CliError> {
        match json {
            true => print_json(&self.counts)?,
            false => print(format!("{source}: {}\n", self.counts.summary()).as_bytes())?,
        }
        let Some(exit) = self.exit else {
            return Ok(());
        };
        let failures = self.counts.failures;
        let entries = if failures == 1 {
            "entry was"
        } else {
            "entries were"
        };
        Err(CliError::new(
            exit,
            format!("{source}: {failures} {entries} not copied; see above for the reasons"),
        ))
    }
}

impl Counts {
    fn summary(&self) -> String {
        let size = Size::of_bytes(self.bytes);
        let mut parts = vec![format!("copied {} ({size})", counted(self.files, "file"))];
        for (count, what) in [
            (self.folders, "folder"),
            (self.symbolic_links, "symbolic link"),
            (self.hard_links, "hard link"),
        ] {
            if count > 0 {
                parts.push(counted(count, what));
            }
        }
        let mut text = parts.join(", ");
        for (count, what) in [
            (self.unchanged, "unchanged"),
            (
                self.special_files_left_out,
                "left out as devices, pipes or sockets",
            ),
            (
                self.files_with_attributes_left_out,
                "copied without extended attributes",
            ),
            (self.second_copies, "copied again for another name"),
        ] {
            if count > 0 {
                text.push_str(&format!("; {count} {what}"));
            }
        }
        text
    }
}

pub(crate) fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_names_what_there_is() {
        let mut counts = Counts {
            files: 1,
            bytes: 2048,
            ..Counts::default()
        };
        assert_eq!(counts.summary(), "copied 1 file (2.0 KiB)");
        (counts.folders, counts.hard_links, counts.unchanged) = (2, 1, 3);
        counts.special_files_left_out = 4;
        assert_eq!(
            counts.summary(),
            "copied 1 file (2.0 KiB), 2 folders, 1 hard link; 3 unchanged; 4 left out as devices, pipes or sockets"
        );
    }
}
