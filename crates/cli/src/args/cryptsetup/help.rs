//! Answers of the front end about itself.

use std::fmt::Write;

use super::actions::{ACTIONS, Becomes};
use super::options::{Meaning, OPTIONS};

/// The version of cryptsetup against which the tests compare.
const VERSION: &str = "2.6.1";

pub(super) fn version() -> String {
    let own = env!("CARGO_PKG_VERSION");
    format!("cryptsetup {VERSION} (the command line of it, by scrim {own})\n")
}

pub(super) fn usage() -> String {
    "Usage: cryptsetup [OPTION...] <action> <action-specific>\n".to_owned()
}

/// All actions and options that do something.
pub(super) fn help() -> String {
    let mut text = version() + &usage() + "\n";
    let mut option = |letter: Option<u8>, long: &str, takes_value: bool, words: &str| {
        let letter = letter.map_or_else(
            || "    ".to_owned(),
            |letter| format!("-{}, ", char::from(letter)),
        );
        let value = if takes_value { "=VALUE" } else { "" };
        let _ = writeln!(text, "  {:<36}{words}", format!("{letter}--{long}{value}"));
    };
    for known in &OPTIONS {
        let words = match known.meaning {
            Meaning::Same | Meaning::Renamed(_) => "",
            Meaning::Own(words) => words,
            Meaning::Ignored(_) => "accepted, without effect",
            Meaning::Missing(_) => continue,
        };
        option(known.short, known.long, known.takes_value, words);
    }
    text += "\n<action> is one of:\n";
    for action in ACTIONS
        .iter()
        .filter(|action| !matches!(action.becomes, Becomes::Missing(_)))
    {
        let _ = writeln!(text, "  {} {}", action.names.join("|"), action.arguments);
    }
    text + "\n`scrim COMMAND --help` explains each option; Scrim's own commands ask before they overwrite.\n\
            Exit codes: 0 done, 1 wrong parameters, 2 wrong passphrase or key, 3 out of memory, 4 wrong device or file,\n\
            5 exists already or is in use.\n"
}
