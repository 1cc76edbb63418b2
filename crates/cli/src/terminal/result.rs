//! The last line of a command, as cryptsetup's `--verbose` prints it.

use std::sync::atomic::{AtomicBool, Ordering};

use super::output::print;

/// True once results are to be printed.
static STATED: AtomicBool = AtomicBool::new(false);

/// Has results printed from now on.
pub(crate) fn state_results() {
    STATED.store(true, Ordering::Relaxed);
}

/// Prints the result of a command that ends with this exit code, if results are to be printed.
pub(crate) fn state_result(code: u8) {
    if STATED.load(Ordering::Relaxed) {
        // The exit code says the same where nobody reads it.
        let _ = print((describe(code) + "\n").as_bytes());
    }
}

fn describe(code: u8) -> String {
    let reason = match code {
        0 => return "Command successful.".to_owned(),
        1 => "wrong or missing parameters",
        2 => "no permission or bad passphrase",
        3 => "out of memory",
        4 => "wrong device or file specified",
        5 => "device already exists or device is busy",
        130 => "interrupted",
        _ => "unknown error",
    };
    format!("Command failed with code -{code} ({reason}).")
}
