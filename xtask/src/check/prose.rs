//! Habits of writing that CONTRIBUTING.md rules out, counted by part of the tree. A file keeps the counts, and none may
//! rise; one that has fallen is to be written down, so that it cannot rise again.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::repository::{Repository, Violation};
use crate::rust::Source;

/// The stored counts: a line `PART HABIT COUNT` for each that is not zero.
pub(crate) const STORED: &str = "xtask/prose.txt";

/// Number of places that a violation names.
const SHOWN: usize = 3;

const OPENINGS: [&str; 5] = ["Who", "Whoever", "What", "Whether", "How"];
const PRONOUNS: [&str; 4] = ["he", "him", "his", "himself"];
/// Names for which the field has a term.
const RETIRED: [&str; 15] = [
    "CryptRunner",
    "Desk",
    "Home",
    "Lies",
    "Runner",
    "Stored",
    "Ticket",
    "bell",
    "bring",
    "conduct",
    "give_way",
    "ground",
    "hire",
    "patience",
    "showcase",
];

/// A habit that can be counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Habit {
    /// A doc comment that opens with a question word.
    Opening,
    /// A pronoun of persons for a thread, a process or a client.
    Pronoun,
    /// A doc comment of three words or fewer.
    Short,
    /// A name for which the field has a term.
    Retired,
}

impl Habit {
    const ALL: [Self; 4] = [Self::Opening, Self::Pronoun, Self::Short, Self::Retired];

    /// Name in the stored counts.
    fn name(self) -> &'static str {
        match self {
            Self::Opening => "openings",
            Self::Pronoun => "pronouns",
            Self::Short => "short",
            Self::Retired => "retired",
        }
    }

    fn rule(self) -> &'static str {
        match self {
            Self::Opening => "a doc comment starts with a noun or a verb, not with a question word",
            Self::Pronoun => "a thread, a process or a client is \"it\"",
            Self::Short => {
                "a doc comment of three words or fewer says what the name does; leave it out or say more"
            }
            Self::Retired => "the field has a term for this name",
        }
    }
}

/// Places by part of the tree and habit.
type Places<'a> = BTreeMap<(String, Habit), Vec<(&'a str, usize)>>;

pub(crate) fn check(repository: &Repository) -> Vec<Violation> {
    let stored = parse(repository.text(STORED).unwrap_or_default());
    let places = places(repository);
    let mut violations = Vec::new();
    for ((part, habit), found) in &places {
        let allowed = stored
            .get(&(part.clone(), habit.name().to_owned()))
            .copied();
        let allowed = allowed.unwrap_or_default();
        if found.len() > allowed {
            violations.extend(found.iter().rev().take(SHOWN).map(|(path, line)| {
                Violation::at(
                    path,
                    *line,
                    format!(
                        "{}; {} in {part}, where {allowed} are left from before: reword one of them",
                        habit.rule(),
                        found.len()
                    ),
                )
            }));
        }
    }
    let counts = counts(&places);
    for ((part, habit), allowed) in stored {
        let count = counts.get(&(part.clone(), habit.clone())).copied();
        if count.unwrap_or_default() < allowed {
            violations.push(Violation::at(
                STORED,
                0,
                format!(
                    "{part} has fewer {habit} than the {allowed} that are stored: run `cargo xtask check --lower`"
                ),
            ));
        }
    }
    violations
}

/// The counts to store: as they are now, and never more than those that are stored.
pub(crate) fn lowered(repository: &Repository) -> String {
    let stored = parse(repository.text(STORED).unwrap_or_default());
    let mut text = String::new();
    for (key, count) in counts(&places(repository)) {
        let count = count.min(stored.get(&key).copied().unwrap_or(0));
        if count > 0 {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{} {} {count}", key.0, key.1);
        }
    }
    text
}

fn counts(places: &Places<'_>) -> BTreeMap<(String, String), usize> {
    let counts = places.iter();
    counts
        .map(|((part, habit), found)| ((part.clone(), habit.name().to_owned()), found.len()))
        .collect()
}

fn parse(text: &str) -> BTreeMap<(String, String), usize> {
    let lines = text.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let (part, habit, count) = (words.next()?, words.next()?, words.next()?);
        Some(((part.to_owned(), habit.to_owned()), count.parse().ok()?))
    });
    lines.collect()
}

fn places(repository: &Repository) -> Places<'_> {
    let mut places = Places::new();
    for (path, source) in repository.rust() {
        for habit in Habit::ALL {
            let found = found(source, habit);
            if !found.is_empty() {
                let all = places.entry((part_of(path), habit)).or_default();
                all.extend(found.into_iter().map(|line| (path, line)));
            }
        }
    }
    places
}

/// The crate, or the folder at the root, that a file belongs to.
fn part_of(path: &str) -> String {
    let depth = if path.starts_with("crates/") { 2 } else { 1 };
    path.split('/').take(depth).collect::<Vec<_>>().join("/")
}

/// Lines, from 0, on which a file has a habit.
fn found(source: &Source, habit: Habit) -> Vec<usize> {
    let comments = source.comments.iter().enumerate();
    match habit {
        Habit::Opening => docs(source)
            .filter(|(_, text)| {
                let first = text.split(|sign: char| !sign.is_alphanumeric()).next();
                first.is_some_and(|first| OPENINGS.contains(&first))
            })
            .map(|(line, _)| line)
            .collect(),
        Habit::Short => docs(source)
            .filter(|(line, text)| {
                let is_alone = doc_text(source, line + 1).is_none();
                is_alone && (1..=3).contains(&text.split_whitespace().count())
            })
            .map(|(line, _)| line)
            .collect(),
        Habit::Pronoun => comments
            .filter(|(_, text)| {
                let mut words = text.split(|sign: char| !sign.is_alphanumeric());
                words.any(|word| PRONOUNS.contains(&word.to_lowercase().as_str()))
            })
            .map(|(line, _)| line)
            .collect(),
        Habit::Retired => {
            let tokens = source.tokens();
            let retired = tokens.iter().filter(|token| RETIRED.contains(&token.text));
            retired.map(|token| token.line).collect()
        }
    }
}

/// The first line of each doc comment, without its signs.
fn docs(source: &Source) -> impl Iterator<Item = (usize, &str)> {
    let lines = 0..source.comments.len();
    lines.filter_map(|line| {
        let before = line.checked_sub(1).and_then(|line| doc_text(source, line));
        let text = doc_text(source, line)?;
        before.is_none().then_some((line, text))
    })
}

/// The words of a line of a doc comment.
fn doc_text(source: &Source, line: usize) -> Option<&str> {
    let comment = source.comments.get(line)?;
    let text = comment
        .strip_prefix("///")
        .or(comment.strip_prefix("//!"))?;
    Some(text.trim())
}

#[cfg(test)]
mod tests {
    use super::super::repository::testing::*;
    use super::*;

    fn said(text: &str, stored: &str) -> Vec<String> {
        printed(&check(&tree(&[
            ("crates/a/src/lib.rs", text),
            (STORED, stored),
        ])))
    }

    #[test]
    fn each_habit_is_found() {
        for (text, line) in [
            ("/// Whether a client may have more.\nfn f() {}", 1),
            ("//! How connections end, one by one.", 1),
            ("\n// Once he has closed it.", 2),
            ("/// In bytes.\nlen: u64,", 1),
            ("fn f() {\n    hire(thread);\n}", 2),
        ] {
            let found = said(text, "");
            assert_eq!(found.len(), 1, "{text}: {found:?}");
            let place = format!("crates/a/src/lib.rs:{line}: ");
            assert!(found[0].starts_with(&place), "{found:?}");
        }
        for text in [
            "/// Checks whether a client may have more.\nfn f() {}",
            "/// Number of clients.\n/// What they do is counted elsewhere.",
            "// What is behind it was here before.",
            "let text = \"/// Who\"; // the helper",
        ] {
            assert_eq!(said(text, ""), [""; 0], "{text}");
        }
    }

    #[test]
    fn counts_may_only_fall() {
        let two = "/// What it is, in words.\nfn f() {}\n/// How it is done.\nfn g() {}";
        assert_eq!(said(two, "crates/a openings 2\n"), [""; 0]);
        assert_eq!(said(two, "crates/a openings 1\n").len(), 2);
        let fewer = said(two, "crates/a openings 3\n");
        assert!(fewer[0].contains("--lower"), "{fewer:?}");
        let lowered = |stored| lowered(&tree(&[("crates/a/src/lib.rs", two), (STORED, stored)]));
        assert_eq!(lowered("crates/a openings 3\n"), "crates/a openings 2\n");
        assert_eq!(lowered("crates/a openings 1\n"), "crates/a openings 1\n");
        assert_eq!(lowered(""), "");
    }
}
