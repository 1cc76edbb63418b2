//! Rule: a public type, trait or function has a doc comment. A field, a variant, a constant, a constructor `new`, and a
//! method without parameters may go without one, where name and type say everything.

use super::repository::{Repository, Violation};
use crate::rust::{Source, Token};

const ITEMS: [&str; 6] = ["struct", "enum", "trait", "type", "union", "fn"];
/// Words that may stand between `pub` and the word for the item.
const QUALIFIERS: [&str; 4] = ["async", "unsafe", "extern", "const"];

pub(crate) fn check(repository: &Repository) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (path, source) in repository.rust() {
        if !path.starts_with("crates/") || !path.contains("/src/") {
            continue;
        }
        let tokens = source.tokens();
        for (index, token) in tokens.iter().enumerate() {
            if token.text != "pub" {
                continue;
            }
            let Some((item, name)) = item(&tokens[index + 1..]) else {
                continue;
            };
            let is_plain = item == "fn" && (name == "new" || is_getter(&tokens[index..]));
            if !is_plain && !is_documented(source, token.line) {
                violations.push(Violation::at(
                    path,
                    token.line,
                    format!("`{item} {name}` is public; say in a doc comment what it is or does"),
                ));
            }
        }
    }
    violations
}

/// The word for the item that a `pub` before `tokens` makes public, and its name.
fn item<'a>(tokens: &[Token<'a>]) -> Option<(&'a str, &'a str)> {
    let mut words = tokens
        .iter()
        .map(|token| token.text)
        .filter(|text| *text != "\"");
    let mut word = words.next()?;
    let mut name = words.next()?;
    while QUALIFIERS.contains(&word) && (ITEMS.contains(&name) || QUALIFIERS.contains(&name)) {
        word = name;
        name = words.next()?;
    }
    ITEMS.contains(&word).then_some((word, name))
}

/// Returns whether a function takes nothing but `self`.
fn is_getter(tokens: &[Token<'_>]) -> bool {
    let parameters = tokens.iter().skip_while(|token| token.text != "(").skip(1);
    let parameters: Vec<_> = parameters
        .take_while(|token| token.text != ")")
        .map(|token| token.text)
        .collect();
    parameters.contains(&"self") && !parameters.contains(&",")
}

/// Returns whether a doc comment stands above `line`, with only attributes between.
fn is_documented(source: &Source, line: usize) -> bool {
    let mut is_in_attribute = false;
    for line in (0..line).rev() {
        let (code, comment) = (source.code[line].trim(), &source.comments[line]);
        if comment.starts_with("///") || comment.starts_with("/**") || code.contains("doc = ") {
            return true;
        }
        let starts = code.starts_with("#[");
        is_in_attribute = !starts && (is_in_attribute || code == ")]");
        let is_comment = code.is_empty() && !comment.is_empty();
        if !starts && !is_in_attribute && !is_comment {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::super::repository::testing::*;
    use super::*;

    fn said(text: &str) -> Vec<String> {
        printed(&check(&tree(&[("crates/a/src/lib.rs", text)])))
    }

    #[test]
    fn a_public_item_without_a_doc_comment_is_found() {
        for text in [
            "pub struct A;",
            "#[derive(Debug)]\npub enum A {}",
            "// A note.\npub fn f(x: u8) {}",
            "pub const fn f(x: u8) {}",
            "impl A {\n    pub fn g(&self, x: u8) {}\n}",
        ] {
            assert_eq!(said(text).len(), 1, "{text}");
        }
    }

    #[test]
    fn fields_getters_and_private_items_may_go_without() {
        for text in [
            "/// A thing.\n#[allow(\n    unused,\n    reason = \"so\"\n)]\npub struct A;",
            "/// A thing.\n#[derive(Debug)]\npub struct A {\n    pub len: u64,\n}",
            "impl A {\n    pub fn new(x: u8) -> Self {}\n}",
            "impl A {\n    pub fn len(&self) -> u64 {}\n}",
            "pub(crate) struct A;",
            "pub const LIMIT: u8 = 1;",
            "pub use a::B;\npub mod c;",
        ] {
            assert_eq!(said(text), [""; 0], "{text}");
        }
    }
}
