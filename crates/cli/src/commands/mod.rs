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
pub(crate) mod resume;
pub(crate) mod serve;
pub(crate) mod stats;
pub(crate) mod status;
pub(crate) mod table;
pub(crate) mod test_passphrase;
pub(crate) mod token;

use crate::self_tests;
pub(crate) use crate::terminal::note;
use crate::terminal::{print, print_json};

/// Says what a user has to hear about code that computes wrongly.
pub(crate) fn warn_of_failed_self_tests() {
    for failure in self_tests::failures() {
        note(format_args!("scrim: warning: {failure}"));
    }
}
