//! Tables of cryptsetup's actions and options, as docs/compatibility.md shows them.

use std::fmt::Write;

use super::actions::{ACTIONS, Action, Becomes};
use super::has_option;
use super::options::{Known, Meaning, OPTIONS};

/// Both tables in Markdown; `scrim` is the definition of Scrim's own commands.
pub(crate) fn tables(scrim: &clap::Command) -> String {
    let mut text = "| action | here | difference |\n|---|---|---|\n".to_owned();
    for action in &ACTIONS {
        let names = as_code(action.names);
        let _ = writeln!(text, "| {names} | {} | {} |", here(action), action.differs);
    }
    text += "\n| option | with | here |\n|---|---|---|\n";
    for known in &OPTIONS {
        let letter = known
            .short
            .map(|letter| format!("`-{}`, ", char::from(letter)));
        let (letter, name) = (letter.unwrap_or_default(), known.long);
        let with = with(known, scrim);
        let meaning = meaning(known, if with.is_empty() { "" } else { "elsewhere " });
        let _ = writeln!(text, "| {letter}`--{name}` | {with} | {meaning} |");
    }
    text
}

/// Names as code, separated by commas.
fn as_code(names: &[&str]) -> String {
    let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

/// The command below `scrim` that an action becomes.
fn command(action: &Action) -> Option<&'static str> {
    match action.becomes {
        Becomes::Command(command) | Becomes::OnOpen(command) => Some(command),
        Becomes::Open(Some("plain")) | Becomes::Create => Some("plainOpen"),
        Becomes::Open(_) => Some("open"),
        Becomes::Refresh => Some("refresh"),
        Becomes::Token => Some("token"),
        Becomes::Missing(_) => None,
    }
}

fn here(action: &Action) -> String {
    match command(action) {
        Some(command) => format!("`scrim {command}`"),
        None => "refused".to_owned(),
    }
}

/// The actions that take an option.
fn with(known: &Known, scrim: &clap::Command) -> String {
    let name = match known.meaning {
        Meaning::Own(_) => return "all".to_owned(),
        Meaning::Renamed(name) => name,
        _ => known.long,
    };
    let takes = |action: &&Action| {
        let command = command(action).and_then(|command| scrim.find_subcommand(command));
        command.is_some_and(|command| {
            let mut below = command.get_subcommands();
            has_option(command, name) || below.any(|below| has_option(below, name))
        })
    };
    let names: Vec<&str> = ACTIONS
        .iter()
        .filter(takes)
        .map(|action| action.names[0])
        .collect();
    as_code(&names)
}

/// The meaning of an option with an action that does not take it: `place` is "elsewhere " if others do.
fn meaning(known: &Known, place: &str) -> String {
    match known.meaning {
        Meaning::Same => "the same".to_owned(),
        Meaning::Renamed(name) => format!("the same as `--{name}`"),
        Meaning::Own(words) => words.to_owned(),
        Meaning::Ignored(reason) => format!("{place}without effect: {reason}"),
        Meaning::Missing(reason) => format!("{place}refused: {reason}"),
    }
}
