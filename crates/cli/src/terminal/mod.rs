//! The user's terminal: output, questions, passphrases and progress.

pub(crate) mod confirm;
mod output;
pub(crate) mod passphrase;
pub(crate) mod progress;

pub(crate) use output::{
    Content, Cursor, flush, note, print, print_json, print_json_text, print_over,
};
