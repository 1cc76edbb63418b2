//! cryptsetup's command line, for scripts and habits: started as `cryptsetup`, by a link, or as `scrim cryptsetup`, this
//! program takes its grammar, and carries out Scrim's own commands.
//!
//! Scripts get the answers that they have from cryptsetup: without a terminal nothing is asked, and what would be asked
//! is done. docs/compatibility.md shows the [`tables`](mod@tables) of both.

mod actions;
mod grammar;
mod help;
mod options;
mod tables;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::Duration;

pub(super) use actions::refused_actions;
pub(crate) use tables::tables;

use actions::{Action, BITLOCKER, Becomes, FILEVAULT, LOOP_AES, TCRYPT};
use grammar::Words;
use options::Meaning;

/// The circumstances of a call.
#[derive(Clone, Copy)]
pub(super) struct Circumstances {
    /// True if a user can answer questions.
    pub(super) has_terminal: bool,
    /// Tells whether the kernel can run volumes for this user. Asking may have it load a module.
    pub(super) has_mapper: fn() -> bool,
}

/// The ways of cryptsetup in which a command is carried out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Manners {
    /// True if the result is to be printed, as `--verbose` does.
    pub(crate) states_result: bool,
    /// Limit of the time to enter a passphrase at the terminal.
    pub(crate) passphrase_timeout: Option<Duration>,
}

/// The meaning of a command line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Translated {
    /// A command of Scrim's.
    Command {
        arguments: Vec<OsString>,
        manners: Manners,
    },
    /// A text, which is all that was asked for.
    Answer(String),
}

/// Translates the words after the program's name; `scrim` is the definition of Scrim's own commands.
pub(super) fn translate(
    given: impl Iterator<Item = OsString>,
    scrim: &clap::Command,
    circumstances: Circumstances,
) -> Result<Translated, String> {
    let words = Words::read(given)?;
    if words.has("help") {
        return Ok(Translated::Answer(help::help(scrim)));
    }
    if words.has("usage") {
        return Ok(Translated::Answer(help::usage()));
    }
    if words.has("version") {
        return Ok(Translated::Answer(help::version()));
    }
    let [name, arguments @ ..] = words.arguments.as_slice() else {
        return Err("Argument <action> missing.".to_owned());
    };
    let known = name
        .to_str()
        .and_then(|name| Some((name, actions::by_name(name)?)));
    let (name, action) = known.ok_or("Unknown action.")?;
    let key_files = words
        .options
        .iter()
        .filter(|(option, _)| option.long == "key-file");
    if key_files.count() > 1 {
        return Err("Only one --key-file argument is allowed.".to_owned());
    }
    let timeout = words.value("timeout").map(seconds).transpose()?;
    let call = Call::of(name, action, arguments, &words, circumstances)?;
    let arguments = call.arguments(scrim, &words, circumstances)?;
    if words.has("test-args") {
        return Ok(Translated::Answer(String::new()));
    }
    Ok(Translated::Command {
        arguments,
        manners: Manners {
            states_result: words.has("verbose"),
            passphrase_timeout: timeout,
        },
    })
}

fn seconds(value: &OsStr) -> Result<Duration, String> {
    let seconds = value.to_str().and_then(|text| text.parse().ok());
    seconds
        .map(Duration::from_secs)
        .ok_or_else(|| "--timeout: give a number of seconds".to_owned())
}

/// A command of Scrim's that is to be called.
struct Call<'a> {
    /// Name of the action, for messages.
    action: &'a str,
    /// The command, and a command below it if it has some.
    command: Vec<&'a str>,
    arguments: Vec<OsString>,
    /// Options that follow from the action and from the circumstances.
    options: Vec<OsString>,
}

impl<'a> Call<'a> {
    fn of(
        name: &'a str,
        action: &Action,
        arguments: &[OsString],
        words: &'a Words,
        circumstances: Circumstances,
    ) -> Result<Self, String> {
        let demand = || format!("{name}: requires {} as arguments", action.arguments);
        if let Becomes::Missing(reason) = action.becomes {
            return Err(format!("{name}: {reason}"));
        }
        if arguments.len() < action.needed {
            return Err(demand());
        }
        let most = action.arguments.matches('<').count();
        let arguments = &arguments[..arguments.len().min(most)];
        let mut call = Self {
            action: name,
            command: Vec::new(),
            arguments: arguments.to_vec(),
            options: Vec::new(),
        };
        let asked = words.value("type");
        match action.becomes {
            Becomes::Missing(_) => {}
            Becomes::Command(command) => {
                call.command = vec![command];
                call.options.extend(luks_type(asked)?);
            }
            Becomes::OnOpen(command) => {
                call.command = vec![command];
                call.arguments = vec![open_name(&arguments[0])];
            }
            Becomes::Refresh => call.refresh(),
            Becomes::Open(_) if words.has("refresh") => call.refresh(),
            Becomes::Open(implied) => {
                let asked = asked.or(implied.map(OsStr::new));
                call.open(asked, words, circumstances)?;
                if call.arguments.len() < 2 && !words.has("test-passphrase") {
                    return Err(format!("{name}: requires <device> <name> as arguments"));
                }
            }
            Becomes::Create => {
                call.arguments.reverse();
                call.open(asked.or(Some("plain".as_ref())), words, circumstances)?;
            }
            Becomes::Token => {
                let below = ["add", "remove", "import", "export", "unassign"];
                let below = below.into_iter().find(|below| arguments[0] == *below);
                call.command = vec!["token", below.ok_or_else(demand)?];
                call.arguments.remove(0);
            }
        }
        Ok(call)
    }

    fn refresh(&mut self) {
        self.command = vec!["refresh"];
        let name = self.arguments.pop();
        self.arguments = name.iter().map(|name| open_name(name)).collect();
    }

    /// A volume of the type that was `asked` for.
    fn open(
        &mut self,
        asked: Option<&OsStr>,
        words: &Words,
        circumstances: Circumstances,
    ) -> Result<(), String> {
        if asked == Some(OsStr::new("plain")) {
            self.command = vec!["plainOpen"];
        } else {
            self.command = vec!["open"];
            self.options.extend(luks_type(asked)?);
        }
        if words.has("test-passphrase") {
            self.arguments.truncate(1);
            return Ok(());
        }
        if let Some(name) = self.arguments.get_mut(1) {
            *name = open_name(name);
        }
        if (circumstances.has_mapper)() {
            self.options.push("--engine=kernel".into());
        }
        Ok(())
    }

    /// The command line of Scrim's.
    fn arguments(
        self,
        scrim: &clap::Command,
        words: &Words,
        circumstances: Circumstances,
    ) -> Result<Vec<OsString>, String> {
        let mut command = scrim;
        for name in &self.command {
            let found = command.find_subcommand(name);
            command = found.ok_or_else(|| format!("{name}: no such command"))?;
        }
        let has = |long: &str| has_option(command, long);
        let mut options: Vec<OsString> = Vec::new();
        for option in self.options {
            let name = option.as_bytes().split(|&byte| byte == b'=').next();
            let name = name.and_then(|name| name.strip_prefix(b"--"));
            if name.is_some_and(|name| str::from_utf8(name).is_ok_and(has)) {
                options.push(option);
            }
        }
        if (words.has("batch-mode") || !circumstances.has_terminal) && has("batch-mode") {
            options.push("--batch-mode".into());
        }
        let in_kernel = options.iter().any(|option| option == "--engine=kernel");
        for (at, (known, value)) in words.options.iter().enumerate() {
            let again = words.options[at + 1..].iter();
            // Of several values the last one counts.
            if again.clone().any(|(later, _)| later.long == known.long) {
                continue;
            }
            let name = match known.meaning {
                Meaning::Own(_) => continue,
                Meaning::Renamed(name) => name,
                _ => known.long,
            };
            let is_of_kernel = name == "disable-keyring" && !in_kernel;
            match known.meaning {
                _ if has(name) && !is_of_kernel => options.push(spelt(name, value.as_deref())),
                Meaning::Ignored(_) => {}
                Meaning::Missing(reason) => return Err(format!("--{}: {reason}", known.long)),
                _ => {
                    let (option, action) = (known.long, self.action);
                    return Err(format!(
                        "Option --{option} is not allowed with {action} action."
                    ));
                }
            }
        }
        let program = ["scrim"].into_iter().chain(self.command);
        let program = program.map(OsString::from);
        let arguments = ["--".into()].into_iter().chain(self.arguments);
        Ok(program.chain(options).chain(arguments).collect())
    }
}

/// Returns whether a command of Scrim's has an option of this name.
pub(super) fn has_option(command: &clap::Command, long: &str) -> bool {
    let names = |arg: &clap::Arg| {
        let own = arg.get_long().is_some_and(|own| own == long);
        let aliases = arg.get_all_aliases().unwrap_or_default();
        own || aliases.contains(&long)
    };
    command.get_arguments().any(names)
}

fn spelt(name: &str, value: Option<&OsStr>) -> OsString {
    let mut spelt = format!("--{name}").into_bytes();
    if let Some(value) = value {
        spelt.push(b'=');
        spelt.extend_from_slice(value.as_bytes());
    }
    OsString::from_vec(spelt)
}

/// The option for a version of LUKS that was asked for; other formats are refused by their names.
fn luks_type(asked: Option<&OsStr>) -> Result<Option<OsString>, String> {
    let Some(asked) = asked else {
        return Ok(None);
    };
    let refused = match asked.to_str() {
        Some("luks" | "luks1" | "luks2") => return Ok(Some(spelt("type", Some(asked)))),
        Some("plain") => "this action is not for plain volumes, which have no header",
        Some("loopaes") => LOOP_AES,
        Some("tcrypt") => TCRYPT,
        Some("bitlk") => BITLOCKER,
        Some("fvault2") => FILEVAULT,
        _ => "no such type: give luks, luks1, luks2 or plain",
    };
    Err(format!("--type {}: {refused}", asked.display()))
}

/// The name of an open volume, which may be given by its device node.
fn open_name(given: &OsStr) -> OsString {
    let name = given.as_bytes().strip_prefix(b"/dev/mapper/");
    name.map_or_else(
        || given.to_owned(),
        |name| OsString::from_vec(name.to_vec()),
    )
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::actions::ACTIONS;
    use super::options::OPTIONS;
    use super::*;
    use crate::args::Cli;

    const SCRIPT: Circumstances = Circumstances {
        has_terminal: false,
        has_mapper: || false,
    };

    fn translated(line: &str, circumstances: Circumstances) -> Result<String, String> {
        let words = line.split(' ').map(OsString::from);
        match translate(words, &Cli::command(), circumstances)? {
            Translated::Answer(text) => Ok(text),
            Translated::Command { arguments, .. } => {
                let words = arguments.iter().map(|word| word.display().to_string());
                Ok(words.collect::<Vec<_>>().join(" "))
            }
        }
    }

    #[test]
    fn scripts_get_the_commands_that_they_ask_for() {
        for (line, expected) in [
            (
                "-q luksFormat --type luks1 -s 256 -q disk key",
                "scrim format --type=luks1 --batch-mode --key-size=256 -- disk key",
            ),
            (
                "luksOpen -d key disk name",
                "scrim open --type=luks --key-file=key -- disk name",
            ),
            (
                "open --type luks2 disk name",
                "scrim open --type=luks2 -- disk name",
            ),
            (
                "open --type plain -c a -s 8 -h b disk name",
                "scrim plainOpen --cipher=a --key-size=8 --hash=b -- disk name",
            ),
            ("create name disk", "scrim plainOpen -- disk name"),
            (
                "open --test-passphrase disk",
                "scrim open --test-passphrase -- disk",
            ),
            ("open --refresh disk name", "scrim refresh -- name"),
            (
                "refresh --allow-discards name",
                "scrim refresh --allow-discards -- name",
            ),
            ("remove /dev/mapper/name", "scrim close -- name"),
            ("luksClose -v --debug name", "scrim close -- name"),
            (
                "luksDump --dump-master-key disk",
                "scrim dump --batch-mode --dump-volume-key -- disk",
            ),
            (
                "luksDelKey disk 3",
                "scrim kill-slot --batch-mode -- disk 3",
            ),
            (
                "token import --json-file - disk",
                "scrim token import --batch-mode --json-file=- -- disk",
            ),
            ("isLuks -v disk", "scrim isLuks -- disk"),
            (
                "luksUUID disk --sector-size 512 --test-args",
                "Option --sector-size is not allowed with luksUUID action.",
            ),
            (
                "luksFormat --key-slot 1 --key-slot 2 disk",
                "scrim format --batch-mode --key-slot=2 -- disk",
            ),
        ] {
            let got = translated(line, SCRIPT).unwrap_or_else(|error| error);
            assert_eq!(got, expected, "{line}");
        }
        let terminal = Circumstances {
            has_terminal: true,
            has_mapper: || true,
        };
        for (line, expected) in [
            ("luksFormat disk", "scrim format -- disk"),
            ("-q luksFormat disk", "scrim format --batch-mode -- disk"),
            (
                "luksOpen disk name",
                "scrim open --type=luks --engine=kernel -- disk name",
            ),
            (
                "open --test-passphrase disk",
                "scrim open --test-passphrase -- disk",
            ),
            (
                "luksOpen --disable-keyring disk name",
                "scrim open --type=luks --engine=kernel --disable-keyring -- disk name",
            ),
        ] {
            assert_eq!(
                translated(line, terminal).as_deref(),
                Ok(expected),
                "{line}"
            );
        }
    }

    #[test]
    fn what_is_not_built_is_refused_by_name() {
        for (line, expected) in [
            ("tcryptOpen disk name", "TrueCrypt"),
            ("open --type bitlk disk name", "BitLocker"),
            ("reencrypt disk", "reencryption"),
            ("luksFormat --integrity hmac-sha256 disk", "dm-integrity"),
            ("loopaesOpen disk name", "loop-AES"),
            ("luksFormat --type plain disk", "plain volumes"),
            ("luksOpen disk", "requires"),
            ("close", "requires"),
            ("foo", "Unknown action"),
            ("-q", "missing"),
            ("token create disk", "requires"),
            ("luksOpen -d one -d other disk name", "Only one --key-file"),
        ] {
            let refused = translated(line, SCRIPT).unwrap_err();
            assert!(refused.contains(expected), "{line}: {refused}");
        }
    }

    /// Every option is one that Scrim's own parser takes in the same way.
    #[test]
    fn options_take_values_where_scrims_do() {
        let scrim = Cli::command();
        let commands = scrim.get_subcommands();
        let commands =
            commands.flat_map(|command| std::iter::once(command).chain(command.get_subcommands()));
        let arguments: Vec<&clap::Arg> = commands.flat_map(clap::Command::get_arguments).collect();
        for known in OPTIONS
            .iter()
            .filter(|known| !matches!(known.meaning, Meaning::Own(_)))
        {
            let named = arguments
                .iter()
                .filter(|arg| arg.get_long() == Some(known.long));
            let mut count = 0;
            for arg in named {
                count += 1;
                assert_eq!(
                    arg.get_action().takes_values(),
                    known.takes_value,
                    "{}",
                    known.long
                );
            }
            let is_same = matches!(known.meaning, Meaning::Same);
            assert!(
                count > 0 || !is_same,
                "{}: Scrim has no such option",
                known.long
            );
        }
        for action in &ACTIONS {
            let name = match action.becomes {
                Becomes::Command(name) | Becomes::OnOpen(name) => name,
                _ => continue,
            };
            assert!(scrim.find_subcommand(name).is_some(), "{name}");
        }
        for line in [
            "luksDump a",
            "luksOpen a b",
            "create b a",
            "token remove --token-id 1 a",
            "refresh b",
        ] {
            let words = translated(line, SCRIPT).unwrap();
            let parsed = Cli::try_parse_from(words.split(' '));
            // A plain volume needs more; all else is whole.
            assert!(parsed.is_ok() || line.starts_with("create"), "{line}");
        }
    }
}
