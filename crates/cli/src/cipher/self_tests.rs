//! Warnings to the user about code that computes wrongly.

use scrim_crypt::{State, implementations};

use crate::terminal::note;

/// One sentence for each driver that gave wrong bytes in its self-test, whichever cipher is used: a machine that
/// computes one cipher wrongly may compute others wrongly too.
pub(crate) fn failures() -> Vec<String> {
    let rows = implementations().iter();
    let failed = rows.filter(|row| row.state == State::SelfTestFailed);
    failed.map(|row| describe(row.driver)).collect()
}

fn describe(driver: &str) -> String {
    format!(
        "the driver {driver} gave wrong bytes in its self-test and is not used: check this machine, \
         and report it with the output of `scrim ciphers --json`"
    )
}

/// Warns of each driver that gave wrong bytes in its self-test.
pub(crate) fn warn_of_failed_self_tests() {
    for failure in failures() {
        note(format_args!("scrim: warning: {failure}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sound_code_is_not_talked_about() {
        assert_eq!(failures(), [""; 0]);
        assert!(describe("xts-aes-x").starts_with("the driver xts-aes-x gave wrong bytes"));
    }
}
