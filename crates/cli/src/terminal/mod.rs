//! The user's terminal: output, questions, passphrases and progress.

mod command_line;
pub(crate) mod confirm;
mod kept;
mod output;
pub(crate) mod passphrase;
pub(crate) mod progress;
mod result;
pub(crate) mod wrap;

pub(crate) use command_line::{same_command, shell_word};
pub(crate) use kept::{keep_warnings, kept_warnings};
pub(crate) use output::{
    Content, Cursor, flush, note, print, print_json, print_json_text, print_over,
};
pub(crate) use result::{state_result, state_results};
