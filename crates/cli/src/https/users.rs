//! Users of a site: the line of one in a file of users, and warnings about such files.

use std::io::{IsTerminal, stdin};

use scrim_serve::access::{check_name, user_line};
use scrim_serve::config::SiteConfig;
use scrim_serve::site::Settings;
use scrim_sys::memory::SecretBytes;

use crate::error::{CliError, Exit};
use crate::luks::derivation::CostLimits;
use crate::luks::key_source::{KeySource, standard_passphrase};
use crate::terminal::passphrase::prompt;
use crate::terminal::{note, print};

/// Prints the line of a user for a file of users, with a password that is typed twice or read from standard input.
pub(super) fn print_line(name: &str) -> Result<(), CliError> {
    check_name(name).map_err(|reason| CliError::usage(format!("{name:?}: {reason}")))?;
    let password = new_password(name)?;
    if password.is_empty() {
        return Err(CliError::usage(
            "the password is empty; give one of at least one byte",
        ));
    }
    let line = user_line(name, password.expose())
        .map_err(|error| CliError::io("hash the password", &error))?;
    print((line + "\n").as_bytes())
}

fn new_password(name: &str) -> Result<SecretBytes, CliError> {
    if !stdin().is_terminal() {
        let key = KeySource {
            file: None,
            offset: 0,
            size: None,
            options: "keyfile",
            cost: CostLimits::default(),
        };
        return standard_passphrase(&key)?.ok_or_else(|| {
            CliError::usage(
                "standard input has no password: pipe one in, or run the command at a terminal",
            )
        });
    }
    let password = prompt(&format!("Password of {name}: "))?;
    match prompt("The same password again: ")?.expose() == password.expose() {
        true => Ok(password),
        false => Err(CliError::new(
            Exit::NoKey,
            "the two passwords differ; try again",
        )),
    }
}

/// Warns of a file of users that all users of this machine may read, since they could guess at passwords without any
/// limit, and of a file that names nobody.
pub(super) fn warn_of_file(site: &SiteConfig, settings: &Settings) {
    let (Some(path), Some(users)) = (&site.users, &settings.access.users) else {
        return;
    };
    if users.is_empty() {
        note(format_args!(
            "scrim: warning: {} names no user, so nobody can log in; add one by scrim serve --hash-password NAME",
            path.display()
        ));
    }
    if users.is_public() {
        note(format_args!(
            "scrim: warning: {0} can be read by everybody on this machine, who could guess passwords from it; \
             chmod o-r {0}",
            path.display()
        ));
    }
}
