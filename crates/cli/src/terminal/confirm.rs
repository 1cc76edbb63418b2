//! Confirmation by the user before a step that cannot be undone.

use std::io::{self, IsTerminal};

use crate::error::{CliError, Exit};
use crate::terminal::output::{Cursor, show};

/// Something that wants a confirmation.
pub(crate) struct Question<'a> {
    /// Consequences, as whole sentences: shown before the question.
    pub(crate) warning: &'a str,
    /// Reason to refuse where no terminal can be asked, shown before "nothing was changed"; `None` if no question is
    /// needed then.
    pub(crate) unanswered: Option<&'a str>,
}

impl Question<'_> {
    /// Asks at a terminal for a YES in capitals; elsewhere, refuses what has to be confirmed.
    /// With `batch_mode` nothing is asked or refused.
    pub(crate) fn ask(&self, batch_mode: bool) -> Result<(), CliError> {
        if batch_mode {
            return Ok(());
        }
        if io::stdin().is_terminal() {
            let confirmed = confirmed_in_capitals(self.warning)
                .map_err(|error| CliError::io("ask at the terminal", &error))?;
            return if confirmed {
                Ok(())
            } else {
                Err(CliError::usage("not confirmed; nothing was changed"))
            };
        }
        match self.unanswered {
            None => Ok(()),
            Some(why) => Err(CliError::new(
                Exit::Busy,
                format!("{why}; nothing was changed: add --batch-mode to confirm it"),
            )),
        }
    }
}

fn confirmed_in_capitals(question: &str) -> io::Result<bool> {
    let question = format!("{question}\nAre you sure? (Type 'yes' in capital letters): ");
    show(Cursor::Stay, &question)?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(answer.trim_end() == "YES")
}
