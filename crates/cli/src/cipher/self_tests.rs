//! Warnings to the user about code that computes wrongly.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use scrim_crypt::{Implementation, State, implementations};

use crate::terminal::note;

/// One sentence for each driver that gave wrong bytes in a self-test of this process. A driver is tested before its
/// first use.
pub(crate) fn failures() -> Vec<String> {
    failed().map(|row| describe(row.driver)).collect()
}

/// One sentence for each driver that gives wrong bytes in its self-test, whichever cipher is used: a machine that
/// computes one cipher wrongly may compute others wrongly too. Tests every driver.
pub(crate) fn all_failures() -> Vec<String> {
    let rows = implementations().iter();
    let failed = rows.filter(|row| row.state() == State::SelfTestFailed);
    failed.map(|row| describe(row.driver)).collect()
}

fn failed() -> impl Iterator<Item = &'static Implementation> {
    implementations().iter().filter(|row| row.has_failed())
}

fn describe(driver: &str) -> String {
    format!(
        "the driver {driver} gave wrong bytes in its self-test and is not used: check this machine, \
         and report it with the output of `scrim ciphers --json`"
    )
}

/// Warns of each driver that gave wrong bytes in a self-test of this process, once.
pub(crate) fn warn_of_failed_self_tests() {
    static TOLD: Mutex<BTreeSet<&str>> = Mutex::new(BTreeSet::new());
    let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
    for row in failed() {
        if told.insert(row.driver) {
            note(format_args!("scrim: warning: {}", describe(row.driver)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sound_code_is_not_talked_about() {
        assert_eq!(all_failures(), [""; 0]);
        assert_eq!(failures(), [""; 0]);
        assert!(describe("xts-aes-x").starts_with("the driver xts-aes-x gave wrong bytes"));
    }
}
