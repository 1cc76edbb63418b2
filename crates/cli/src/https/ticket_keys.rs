//! Keys of session tickets in a file that several servers share: reading and rotation.

use std::path::Path;

use scrim_serve::config::Config;
use scrim_serve::tls::{TicketKeys, TicketKeysError, TicketKeysFault, rotate_ticket_keys};

use crate::error::{CliError, Exit};
use crate::terminal::print;

/// The keys of the file that a configuration names.
pub(super) fn read(config: &Config) -> Result<Option<TicketKeys>, CliError> {
    let file = config.tls.ticket_keys.as_deref();
    file.map(TicketKeys::read)
        .transpose()
        .map_err(|error| failed(&error))
}

/// Adds a key to a file, or makes the file.
pub(super) fn rotate(file: &Path) -> Result<(), CliError> {
    let count = rotate_ticket_keys(file).map_err(|error| failed(&error))?;
    let file = file.display();
    let text = format!(
        "{file} has {count} keys: copy it to each server, then reload all of them (SIGHUP)\n"
    );
    print(text.as_bytes())
}

fn failed(error: &TicketKeysError) -> CliError {
    let exit = match error.fault() {
        TicketKeysFault::Busy => Exit::Busy,
        _ => Exit::WrongDevice,
    };
    CliError::new(exit, error.to_string())
}
