//! The ways in which this program is started: by its own name, by `mount(8)`, and in place of cryptsetup.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, IsTerminal};
use std::path::Path;

use super::cryptsetup::{Circumstances, Manners, Translated, translate};
use super::fstab;

/// Name by which this program takes cryptsetup's command line.
const CRYPTSETUP: &str = "cryptsetup";

/// Node by which root asks the kernel for devices of its device mapper.
const MAPPER: &str = "/dev/mapper/control";

/// The meaning of the words by which this program was started.
pub(crate) enum Invocation {
    /// A command line of Scrim's own.
    Command {
        arguments: Vec<OsString>,
        manners: Manners,
    },
    /// Versions of this program and of what it runs on are to be printed.
    Versions,
    /// Only this text is to be printed.
    Answer(String),
    /// The command line is wrong, for this reason.
    Refused(String),
}

impl Invocation {
    /// Interprets the words of a command line, the program's name first; `scrim` defines Scrim's own commands.
    pub(crate) fn of(
        given: impl Iterator<Item = OsString>,
        scrim: impl FnOnce() -> clap::Command,
    ) -> Self {
        let given: Vec<OsString> = given.collect();
        let name = given.first().and_then(|name| Path::new(name).file_name());
        let is_cryptsetup = name == Some(OsStr::new(CRYPTSETUP));
        if is_cryptsetup || given.get(1).is_some_and(|word| word == CRYPTSETUP) {
            let skipped = if is_cryptsetup { 1 } else { 2 };
            return Self::in_place_of_cryptsetup(given.into_iter().skip(skipped), &scrim());
        }
        if is_verbose_version(&given) {
            return Self::Versions;
        }
        match fstab::arguments(given) {
            Some(arguments) => Self::Command {
                arguments,
                manners: Manners::default(),
            },
            None => Self::Answer(String::new()),
        }
    }

    fn in_place_of_cryptsetup(
        given: impl Iterator<Item = OsString>,
        scrim: &clap::Command,
    ) -> Self {
        let circumstances = Circumstances {
            has_terminal: io::stdin().is_terminal(),
            // The node may be there without the kernel's module.
            has_mapper: || File::options().read(true).write(true).open(MAPPER).is_ok(),
        };
        match translate(given, scrim, circumstances) {
            Ok(Translated::Answer(text)) => Self::Answer(text),
            Ok(Translated::Command { arguments, manners }) => Self::Command { arguments, manners },
            Err(reason) => Self::Refused(reason),
        }
    }
}

/// Returns whether a command line is `scrim --version --verbose`.
fn is_verbose_version(given: &[OsString]) -> bool {
    let mut words: Vec<&OsStr> = given.iter().skip(1).map(OsString::as_os_str).collect();
    words.sort();
    words == ["--verbose", "--version"] || words == ["--verbose", "-V"]
}
