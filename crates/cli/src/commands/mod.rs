//! One module per command.

pub(crate) mod add_key;
pub(crate) mod bench;
pub(crate) mod bench_paths;
pub(crate) mod bench_serve;
pub(crate) mod change_key;
pub(crate) mod ciphers;
pub(crate) mod close;
pub(crate) mod config;
pub(crate) mod convert;
pub(crate) mod doctor;
pub(crate) mod dump;
pub(crate) mod encrypt;
pub(crate) mod export;
pub(crate) mod format;
pub(crate) mod generate;
pub(crate) mod header_backup;
pub(crate) mod header_restore;
pub(crate) mod import;
pub(crate) mod is_luks;
pub(crate) mod list;
pub(crate) mod luks_uuid;
pub(crate) mod open;
pub(crate) mod refresh;
pub(crate) mod reload;
pub(crate) mod remove_key;
pub(crate) mod repair;
pub(crate) mod resize;
pub(crate) mod serve;
pub(crate) mod stats;
pub(crate) mod status;
pub(crate) mod table;
pub(crate) mod test_passphrase;
pub(crate) mod token;

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;

use crate::error::CliError;
use crate::self_tests;

/// Writes to standard output, past the standard library's buffer, which would keep a key that is
/// printed on the heap. A reader that has gone away is not an error.
fn print(text: &[u8]) -> Result<(), CliError> {
    print_to_reader(text).map(drop)
}

/// The same; says whether somebody still reads.
fn print_to_reader(text: &[u8]) -> Result<bool, CliError> {
    let out = io::stdout().as_fd().try_clone_to_owned().map(File::from);
    match out.and_then(|mut out| out.write_all(text)) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(CliError::io("write to standard output", &error)),
    }
}

/// Prints a value as indented JSON.
fn print_json(value: &impl serde::Serialize) -> Result<(), CliError> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| CliError::io("write JSON", &error.into()))?;
    print(format!("{text}\n").as_bytes())
}

/// Says something that is not the result on standard error.
pub(crate) fn note(text: impl std::fmt::Display) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Says what a user has to hear about code that computes wrongly.
pub(crate) fn warn_of_failed_self_tests() {
    for failure in self_tests::failures() {
        note(format_args!("scrim: warning: {failure}"));
    }
}
