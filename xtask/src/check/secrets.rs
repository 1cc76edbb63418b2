//! Secrets have no `Debug`, `Display`, `Clone`: neither the types that hold a key, nor what has one
//! of them as a field.

use std::collections::BTreeMap;

use super::repository::{Repository, Violation};
use crate::rust::{Source, Token};

/// The types that are secrets themselves.
const SECRETS: [&str; 5] = [
    "Locked",
    "Passphrase",
    "SecretBytes",
    "SectorCipher",
    "VolumeKey",
];
/// Traits that show a value.
const SHOWING: [&str; 3] = ["Debug", "Display", "Serialize"];
/// Traits that copy a value. What only points to a secret may be copied.
const COPYING: [&str; 2] = ["Clone", "Copy"];

/// The way in which a type holds a secret.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holds {
    /// The secret is part of the value itself.
    Value,
    /// The secret is behind `&`, `Arc` or `Rc`.
    Pointer,
}

pub(crate) fn check(repository: &Repository) -> Vec<Violation> {
    let mut by_crate: BTreeMap<&str, Vec<(&str, &Source)>> = BTreeMap::new();
    for (path, source) in repository.rust() {
        let package = path.split("/src/").next().unwrap_or(path);
        by_crate.entry(package).or_default().push((path, source));
    }
    by_crate
        .values()
        .flat_map(|files| check_crate(files))
        .collect()
}

/// Names of types are only unique within a crate.
fn check_crate(files: &[(&str, &Source)]) -> Vec<Violation> {
    let mut holders: BTreeMap<&str, Holds> = SECRETS.map(|name| (name, Holds::Value)).into();
    let mut found = Vec::new();
    let tokens: Vec<_> = files
        .iter()
        .map(|(path, source)| (*path, source.tokens()))
        .collect();
    for (path, tokens) in &tokens {
        for item in items(tokens) {
            let Some(holds) = item.holds() else { continue };
            holders.entry(item.name.text).or_insert(holds);
            let derived = item
                .derived
                .iter()
                .map(|derived| (*path, *derived, item.name.text));
            found.extend(derived);
        }
    }
    for (path, tokens) in &tokens {
        found.extend(impls(tokens).map(|(derived, name)| (*path, derived, name)));
    }
    let is_wrong = |name: &str, derived: &str| match holders.get(name) {
        Some(Holds::Value) => SHOWING.contains(&derived) || COPYING.contains(&derived),
        Some(Holds::Pointer) => SHOWING.contains(&derived),
        None => false,
    };
    found
        .into_iter()
        .filter(|(_, derived, name)| is_wrong(name, derived.text))
        .map(|(path, derived, name)| {
            let text = format!(
                "`{name}` is or has a secret and must not be {}; remove it, or keep the secret in \
                 a type of its own",
                derived.text
            );
            Violation::at(path, derived.line, text)
        })
        .collect()
}

/// A struct, enum or union.
struct Item<'a> {
    name: Token<'a>,
    is_enum: bool,
    derived: Vec<Token<'a>>,
    body: &'a [Token<'a>],
}

impl Item<'_> {
    fn holds(&self) -> Option<Holds> {
        if SECRETS.contains(&self.name.text) {
            return Some(Holds::Value);
        }
        let mut depth = 0usize;
        let mut holds = None;
        for (at, token) in self.body.iter().enumerate() {
            match token.text {
                "{" | "(" => depth += 1,
                "}" | ")" => depth = depth.saturating_sub(1),
                // An enum's variant may have the name of a secret's type.
                name if SECRETS.contains(&name) && !(self.is_enum && depth == 1) => {
                    let before = &self.body[at.saturating_sub(3)..at];
                    if !is_pointer(before) {
                        return Some(Holds::Value);
                    }
                    holds = Some(Holds::Pointer);
                }
                _ => {}
            }
        }
        holds
    }
}

/// Returns whether what follows these tokens is behind `&`, `&'a`, `Arc<` or `Rc<`.
fn is_pointer(before: &[Token<'_>]) -> bool {
    let mut texts = before.iter().rev().map(|token| token.text);
    match texts.next() {
        Some("&") => true,
        Some("<") => matches!(texts.next(), Some("Arc" | "Rc")),
        Some(_) => texts.next() == Some("'") && texts.next() == Some("&"),
        None => false,
    }
}

fn items<'a>(tokens: &'a [Token<'a>]) -> impl Iterator<Item = Item<'a>> {
    let mut derived = Vec::new();
    (0..tokens.len()).filter_map(move |at| match tokens[at].text {
        "derive" => {
            let names = tokens[at..]
                .iter()
                .skip(1)
                .take_while(|token| token.text != ")");
            derived.extend(names.copied());
            None
        }
        // The end of what the attributes so far belonged to.
        ";" | "{" | "}" => {
            derived.clear();
            None
        }
        kind @ ("struct" | "enum" | "union") => {
            let name = *tokens.get(at + 1).filter(|name| name.text != "!")?;
            Some(Item {
                name,
                is_enum: kind == "enum",
                derived: std::mem::take(&mut derived),
                body: body(&tokens[at + 2..]),
            })
        }
        _ => None,
    })
}

/// Tokens after a type's name, up to its `;` or its closing brace.
fn body<'a>(tokens: &'a [Token<'a>]) -> &'a [Token<'a>] {
    let mut depth = 0usize;
    for (at, token) in tokens.iter().enumerate() {
        match token.text {
            "{" => depth += 1,
            "}" if depth <= 1 => return &tokens[..=at],
            "}" => depth -= 1,
            ";" if depth == 0 => return &tokens[..at],
            _ => {}
        }
    }
    tokens
}

/// The trait and the type of every `impl Trait for Type`.
fn impls<'a>(tokens: &'a [Token<'a>]) -> impl Iterator<Item = (Token<'a>, &'a str)> {
    let starts = (0..tokens.len()).filter(|at| tokens[*at].text == "impl");
    starts.filter_map(|start| {
        let head = &tokens[start + 1..];
        let end = head
            .iter()
            .position(|token| matches!(token.text, "{" | ";"))?;
        let head = &head[..end];
        let middle = head.iter().position(|token| token.text == "for")?;
        let implemented = last_of_path(&head[..middle])?;
        let name = last_of_path(&head[middle + 1..])?;
        Some((implemented, name.text))
    })
}

/// The last word of the path in these tokens, generic arguments and bounds left out.
fn last_of_path<'a>(tokens: &[Token<'a>]) -> Option<Token<'a>> {
    let mut depth = 0usize;
    let mut last = None;
    for token in tokens {
        match token.text {
            "<" => depth += 1,
            ">" => depth = depth.saturating_sub(1),
            "where" => break,
            text if depth == 0 && text.starts_with(char::is_alphabetic) => last = Some(*token),
            _ => {}
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::super::repository::testing::*;
    use super::*;

    fn check_text(text: &str) -> Vec<String> {
        printed(&check(&tree(&[("crates/x/src/lib.rs", text)])))
    }

    #[test]
    fn secrets_that_keep_to_themselves_are_fine() {
        for text in [
            "pub struct Passphrase(SecretBytes);",
            "#[derive(Debug)]\npub struct Slot { number: u8 }",
            "#[derive(Debug)]\npub struct Slot { number: u8 }\nstruct Key { key: SecretBytes }",
            "#[derive(Debug)]\npub enum Error { Passphrase, Locked { path: PathBuf } }",
            "#[derive(Clone)]\npub struct Handle { key: Arc<VolumeKey>, name: &'a Passphrase }",
            "#[derive(Clone, Copy)]\npub struct View<'a>(&'a SecretBytes);",
            "impl fmt::Debug for Slot {}\nimpl Drop for VolumeKey {}",
            "// #[derive(Debug)]\nstruct VolumeKey;",
        ] {
            assert_eq!(check_text(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn secrets_that_show_or_copy_themselves_are_not() {
        for text in [
            "#[derive(Clone)]\npub(crate) struct VolumeKey(Vec<u8>);",
            "#[derive(PartialEq, Debug)]\nstruct Open { key: Option<SecretBytes> }",
            "#[cfg_attr(test, derive(Debug))]\n#[must_use]\nstruct Open { key: Locked<Keys> }",
            "#[derive(Debug)]\nenum Source { File(PathBuf), Typed(Passphrase) }",
            "#[derive(Debug)]\nstruct Handle { key: Arc<VolumeKey> }",
            "impl std::fmt::Display for Passphrase {}",
            "impl<T> Clone for Locked<T> {}",
            "struct Open { key: SecretBytes }\nimpl<'a> fmt::Debug for Open where u8: Copy {}",
        ] {
            assert_eq!(check_text(text).len(), 1, "{text}");
        }
        let violations = check_text("\n\n#[derive(Debug)]\nstruct VolumeKey;");
        assert!(
            violations[0].starts_with("crates/x/src/lib.rs:3: `VolumeKey` is or has a secret"),
            "{violations:?}"
        );
    }

    #[test]
    fn a_crates_files_are_seen_together() {
        let repository = tree(&[
            ("crates/x/src/a.rs", "struct Open { key: SecretBytes }"),
            ("crates/x/src/b.rs", "impl Debug for Open {}"),
            ("crates/y/src/b.rs", "impl Debug for Open {}"),
        ]);
        let violations = printed(&check(&repository));
        assert_eq!(violations.len(), 1);
        assert!(violations[0].starts_with("crates/x/src/b.rs:1"));
    }
}
