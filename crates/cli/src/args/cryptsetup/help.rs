//! Answers of the front end about itself.

use std::fmt::Write;
use std::iter;

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

/// All actions and options that do something; `scrim` is the definition of Scrim's own commands.
pub(super) fn help(scrim: &clap::Command) -> String {
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
            Meaning::Same => &explained(scrim, known.long),
            Meaning::Renamed(name) => &format!("the same as --{name}"),
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

/// The words by which one of Scrim's own commands explains an option.
fn explained(scrim: &clap::Command, long: &str) -> String {
    let commands = scrim.get_subcommands();
    let all = commands.flat_map(|command| iter::once(command).chain(command.get_subcommands()));
    let mut options = all.flat_map(clap::Command::get_arguments);
    let option = options.find(|option| option.get_long() == Some(long));
    let help = option.and_then(clap::Arg::get_help);
    help.map(ToString::to_string).unwrap_or_default()
}
