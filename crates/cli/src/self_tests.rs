//! Warnings to the user about code that computes wrongly.

use scrim_crypt::{State, implementations};

/// One sentence for each driver that gave wrong bytes in its self-test, whichever cipher is used:
/// what cannot do one thing right is not to be trusted with others.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sound_code_is_not_talked_about() {
        assert_eq!(failures(), [""; 0]);
        assert!(describe("xts-aes-x").starts_with("the driver xts-aes-x gave wrong bytes"));
    }
}
