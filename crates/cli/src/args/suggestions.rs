//! Tips for a command that does not exist.
//!
//! A user who mistypes a command and follows the tip must not lose data.

use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::cryptsetup;

/// Commands that change nothing on any device: only these are suggested.
const HARMLESS: [&str; 35] = [
    "open",
    "luksOpen",
    "plainOpen",
    "plain-open",
    "close",
    "luksClose",
    "status",
    "table",
    "snapshot",
    "suspend",
    "luksSuspend",
    "luks-suspend",
    "resume",
    "luksResume",
    "luks-resume",
    "stats",
    "list",
    "mount",
    "umount",
    "ls",
    "cat",
    "serve",
    "dump",
    "luksDump",
    "test-passphrase",
    "isLuks",
    "is-luks",
    "luksUUID",
    "luks-uuid",
    "doctor",
    "ciphers",
    "bench",
    "benchmark",
    "paths",
    "help",
];

/// Names of dmsetup, and of old versions of cryptsetup, for commands that Scrim has under another one.
const OTHER_NAMES: [(&str, &str); 3] = [
    (
        "create",
        "a table is opened with `scrim open --table FILE NAME`, a LUKS volume with `scrim open IMAGE NAME`",
    ),
    ("remove", "an open volume is closed with `scrim close NAME`"),
    (
        "plainClose",
        "an open volume is closed with `scrim close NAME`",
    ),
];

/// The error without suggestions that could cost data.
pub(crate) fn without_danger(mut error: clap::Error) -> clap::Error {
    if let Some(ContextValue::String(argument)) = error.get(ContextKind::SuggestedArg)
        && ["force", "batch"]
            .iter()
            .any(|word| argument.contains(word))
    {
        error.remove(ContextKind::SuggestedArg);
    }
    let tip = tip(&error);
    if let Some(suggested) = error.remove(ContextKind::SuggestedSubcommand) {
        let harmless = harmless(suggested);
        if let Some(harmless) = harmless.filter(|_| tip.is_none()) {
            error.insert(ContextKind::SuggestedSubcommand, harmless);
        }
    }
    if let Some(tip) = tip {
        let tips = ContextValue::StyledStrs(vec![tip.into()]);
        error.insert(ContextKind::Suggested, tips);
    }
    error
}

/// The tip for a command, not for one of `token` or `bench`, that another program has.
fn tip(error: &clap::Error) -> Option<&'static str> {
    let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    let usage = match error.get(ContextKind::Usage) {
        Some(ContextValue::StyledStr(usage)) => usage.to_string(),
        _ => String::new(),
    };
    if error.kind() != ErrorKind::InvalidSubcommand || !usage.contains("scrim <COMMAND>") {
        return None;
    }
    if cryptsetup::refused_actions().any(|refused| refused == name) {
        return Some(
            "this is a command of cryptsetup that Scrim does not have; use cryptsetup for it",
        );
    }
    let other = OTHER_NAMES.iter().find(|(other, _)| other == name);
    other.map(|(_, tip)| *tip)
}

fn harmless(suggested: ContextValue) -> Option<ContextValue> {
    let is_harmless = |name: &String| HARMLESS.contains(&name.as_str());
    match suggested {
        ContextValue::String(name) if is_harmless(&name) => Some(ContextValue::String(name)),
        ContextValue::Strings(mut names) => {
            names.retain(is_harmless);
            (!names.is_empty()).then_some(ContextValue::Strings(names))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::args::Cli;

    fn answer(words: &[&str]) -> String {
        let error = Cli::try_parse_from(words).err().unwrap();
        without_danger(error).to_string()
    }

    fn tip(words: &[&str]) -> String {
        let answer = answer(words);
        let tips = answer.lines().filter(|line| line.contains("tip:"));
        tips.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn commands_of_cryptsetup_are_not_taken_for_others() {
        for name in cryptsetup::refused_actions() {
            let tip = tip(&["scrim", name, "x"]);
            assert!(tip.contains("a command of cryptsetup"), "{name}: {tip}");
        }
        for (name, expected) in OTHER_NAMES {
            let tip = tip(&["scrim", name, "x"]);
            assert!(
                tip.contains(expected) && !tip.contains("use cryptsetup"),
                "{tip}"
            );
        }
        // Only at the top: Scrim has tokens, and they are made with `token add`.
        for words in [
            ["token", "create"],
            ["token", "reencrypt"],
            ["bench", "remove"],
        ] {
            let tip = tip(&["scrim", words[0], words[1]]);
            assert!(
                !tip.contains("cryptsetup") && !tip.contains("scrim "),
                "{words:?}: {tip}"
            );
        }
    }

    /// Every way to drop, double or change one letter of a command.
    #[test]
    fn no_slip_is_answered_with_a_command_that_overwrites() {
        let command = Cli::command();
        let names: Vec<String> = command
            .get_subcommands()
            .flat_map(|verb| std::iter::once(verb.get_name()).chain(verb.get_all_aliases()))
            .map(str::to_owned)
            .collect();
        let mut harmless = 0;
        for name in names.iter().filter(|name| name.is_ascii()) {
            for at in 0..name.len() {
                let (before, after) = name.split_at(at);
                for slip in [
                    format!("{before}{}", &after[1..]),
                    format!("{before}{}{after}", &after[..1]),
                    format!("{before}#{}", &after[1..]),
                ] {
                    if names.contains(&slip) || slip.is_empty() {
                        continue;
                    }
                    let tip = tip(&["scrim", &slip]);
                    let suggested: Vec<&str> = tip.split('\'').skip(1).step_by(2).collect();
                    harmless += suggested.len();
                    for name in suggested {
                        assert!(HARMLESS.contains(&name), "{slip}: {tip}");
                    }
                }
            }
        }
        assert!(harmless > 100, "{harmless}");
        assert!(tip(&["scrim", "opne"]).contains("'open'"));
        assert_eq!(tip(&["scrim", "close", "x", "--forc"]), "");
    }

    #[test]
    fn what_is_suggested_exists() {
        let mut command = Cli::command();
        command.build();
        let bench = command.find_subcommand("bench").unwrap();
        for name in HARMLESS {
            let exists = command.find_subcommand(name).is_some();
            assert!(exists || bench.find_subcommand(name).is_some(), "{name}");
        }
    }
}
