//! Changes of nothing but comments, which no stage but the usual ones can notice.

use std::fs;

use super::git;
use crate::cargo::workspace_root;
use crate::error::{Doing, Error};
use crate::rust::Source;

/// Crate whose comments are the help of its commands.
const HELP: &str = "crates/cli/";

/// Returns whether a file is a Rust file that has changed since `commit` only in lines that are comments.
pub(super) fn alone_changed(commit: &str, path: &str) -> Result<bool, Error> {
    if !path.ends_with(".rs") || path.starts_with(HELP) {
        return Ok(false);
    }
    let now = workspace_root().join(path);
    let (Some(before), true) = (git::file(commit, path)?, now.exists()) else {
        return Ok(false);
    };
    let now = fs::read_to_string(now).doing(|| format!("read {path}"))?;
    // `git::file` trims the end of the text.
    Ok(without_comments(&before) == without_comments(now.trim_end()))
}

/// The lines that are not comments from their beginning to their end.
fn without_comments(text: &str) -> Vec<&str> {
    let source = Source::parse(text);
    let lines = source.code.iter().zip(&source.comments);
    let is_comment = lines.map(|(code, comment)| code.trim().is_empty() && !comment.is_empty());
    text.lines()
        .zip(is_comment)
        .filter_map(|(line, is_comment)| (!is_comment).then_some(line))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_left_out_and_nothing_else() {
        let text = "\
//! A file.

/// A function.
fn f() -> &'static str {
    // Why.
    let x = 1; // How much.
    /* Long,
       longer. */
    \"
    // A line of a text.
    \"
}";
        let left = "
fn f() -> &'static str {
    let x = 1; // How much.
    \"
    // A line of a text.
    \"
}";
        assert_eq!(without_comments(text).join("\n"), left);
    }
}
