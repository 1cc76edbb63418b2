//! Findings of the checks, and what several checks need for them.

use serde::Serialize;

/// One thing that Scrim can use.
#[derive(Serialize)]
pub(super) struct Finding {
    /// Name of the finding, which stays the same from version to version.
    pub(super) name: &'static str,
    pub(super) state: State,
    /// Description of what was found.
    pub(super) found: String,
    /// Consequence of its absence; only where it is missing.
    pub(super) cost: Option<String>,
    /// Advice on how to get it; only where it is missing.
    pub(super) remedy: Option<String>,
}

#[derive(Serialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    /// The machine has it.
    Found,
    /// The machine does not have it, or not enough of it.
    Missing,
    /// The machine does not tell.
    Unknown,
}

impl Finding {
    pub(super) fn found(name: &'static str, found: impl Into<String>) -> Self {
        Self {
            name,
            state: State::Found,
            found: found.into(),
            cost: None,
            remedy: None,
        }
    }

    pub(super) fn missing(
        name: &'static str,
        found: impl Into<String>,
        cost: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            state: State::Missing,
            cost: Some(cost.into()),
            remedy: Some(remedy.into()),
            ..Self::found(name, found)
        }
    }

    pub(super) fn unknown(name: &'static str, found: impl Into<String>) -> Self {
        Self {
            state: State::Unknown,
            ..Self::found(name, found)
        }
    }
}

/// A file of the kernel's, without the end of its line; `None` where it is not there, or not for us.
pub(super) fn read(path: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.trim_end().to_owned())
}
