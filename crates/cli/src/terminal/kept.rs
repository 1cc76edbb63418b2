//! Warnings of a process in the background, which has no terminal to print them on. The command `status` shows them.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Number of warnings that are kept; the oldest makes way for a new one.
const LIMIT: usize = 16;
/// Beginning of a message that is a warning.
const WARNING: &str = "scrim: warning: ";

/// The latest warnings, each once, oldest first. `None` while standard error is somebody's to read.
static KEPT: Mutex<Option<VecDeque<String>>> = Mutex::new(None);

/// Keeps the warnings that are printed from now on.
pub(crate) fn keep_warnings() {
    kept().get_or_insert_default();
}

/// Returns the warnings that were kept, oldest first.
pub(crate) fn kept_warnings() -> Vec<String> {
    kept().iter().flatten().cloned().collect()
}

/// Keeps a printed message if it is a warning.
pub(super) fn keep(message: &str) {
    if let (Some(warning), Some(kept)) = (message.strip_prefix(WARNING), kept().as_mut()) {
        push(kept, warning);
    }
}

fn push(kept: &mut VecDeque<String>, warning: &str) {
    kept.retain(|earlier| earlier != warning);
    if kept.len() == LIMIT {
        kept.pop_front();
    }
    kept.push_back(warning.to_owned());
}

fn kept() -> MutexGuard<'static, Option<VecDeque<String>>> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_warnings_are_kept_each_once() {
        let mut kept = VecDeque::new();
        for number in 0..20 {
            push(&mut kept, &number.to_string());
        }
        push(&mut kept, "10");
        assert_eq!(kept.len(), LIMIT);
        assert_eq!((kept[0].as_str(), kept[15].as_str()), ("4", "10"));
        assert_eq!(kept.iter().filter(|one| *one == "10").count(), 1);
    }
}
