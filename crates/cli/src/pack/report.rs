//! The summary of a pack.

use std::path::Path;

use scrim_figures::Size;
use serde::Serialize;

use super::fill::Way;
use super::folder::Content;
use crate::error::CliError;
use crate::files::copy::counted;
use crate::terminal::{print, print_json};

/// Results of a pack; also the output of `--json`.
#[derive(Serialize)]
pub(super) struct Report<'a> {
    pub(super) uuid: &'a str,
    /// Size of the image in bytes.
    pub(super) size: u64,
    #[serde(flatten)]
    pub(super) content: &'a Content,
    pub(super) way: Way,
}

impl Report<'_> {
    pub(super) fn print(&self, folder: &Path, json: bool) -> Result<(), CliError> {
        match json {
            true => print_json(self),
            false => print(format!("{}: {}\n", folder.display(), self.summary()).as_bytes()),
        }
    }

    fn summary(&self) -> String {
        let content = self.content;
        let size = Size::of_bytes(content.bytes);
        let mut text = format!("packed {} ({size})", counted(content.files, "file"));
        for (count, what) in [
            (content.folders, "folder"),
            (content.symbolic_links, "symbolic link"),
            (content.hard_links, "hard link"),
            (content.special_files, "special file"),
        ] {
            if count > 0 {
                text.push_str(&format!(", {}", counted(count, what)));
            }
        }
        text
    }
}
