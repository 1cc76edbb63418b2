//! Asking before something is done that cannot be undone.

use std::io::{self, IsTerminal};

use crate::error::{CliError, Exit};
use crate::terminal::{Cursor, show};

/// Something that wants a confirmation.
pub(crate) struct Question<'a> {
    /// What would happen, as whole sentences: shown before the question.
    pub(crate) warning: &'a str,
    /// What to say where nobody can answer, before "nothing was changed"; `None` if it may then be
    /// done unasked.
    pub(crate) unanswered: Option<&'a str>,
    /// The exit code of a "no".
    pub(crate) refused: Exit,
}

impl Question<'_> {
    /// Asks at a terminal for a YES in capitals; elsewhere, refuses what has to be confirmed.
    /// `batch_mode` is the word of whoever knows what he does.
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
                Err(CliError::new(
                    self.refused,
                    "not confirmed; nothing was changed",
                ))
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
