//! Text in lines that fit a terminal.

use std::fmt::Write as _;

/// Longest line in columns, except for a command that must not be broken.
pub(crate) const WIDTH: usize = 90;

/// Writes `text` behind `label`, its further lines below its first.
pub(crate) fn write_wrapped(page: &mut String, label: &str, text: &str) {
    let indent = label.chars().count();
    let mut column = indent;
    page.push_str(label);
    for (at, piece) in pieces(text).into_iter().enumerate() {
        let length = piece.chars().count();
        if at > 0 {
            if column + 1 + length > WIDTH {
                let _ = write!(page, "\n{:indent$}", "");
                column = indent;
            } else {
                page.push(' ');
                column += 1;
            }
        }
        page.push_str(piece);
        column += length;
    }
    page.push('\n');
}

/// Words; what stands between backticks, a command, is one of them.
fn pieces(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut start = 0;
    let mut quoted = false;
    for (at, char) in text.char_indices() {
        if char == '`' {
            quoted = !quoted;
        } else if char == ' ' && !quoted {
            pieces.push(&text[start..at]);
            start = at + 1;
        }
    }
    pieces.push(&text[start..]);
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_not_broken() {
        assert_eq!(
            pieces("do `a b c`, then d"),
            ["do", "`a b c`,", "then", "d"]
        );
        assert_eq!(pieces(""), [""]);
        assert_eq!(pieces("an `open end"), ["an", "`open end"]);
    }
}
