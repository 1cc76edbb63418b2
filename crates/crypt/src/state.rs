//! Readiness of a driver.

use std::fmt;

/// Readiness of an [`Implementation`](crate::Implementation) in this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// It runs on this CPU and its self-test passed.
    Ready,
    /// `SCRIM_DISABLE` names it; it was not tested.
    Disabled,
    /// This CPU, or the operating system on it, lacks a feature that it needs.
    Unavailable,
    /// Its self-test gave wrong bytes. It is never used.
    SelfTestFailed,
}

impl State {
    /// The state in one word: `ready`, `disabled`, `unavailable` or `failed`.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Disabled => "disabled",
            Self::Unavailable => "unavailable",
            Self::SelfTestFailed => "failed",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ready => "self-test passed",
            Self::Disabled => "disabled by SCRIM_DISABLE",
            Self::Unavailable => "this CPU lacks a feature that it needs",
            Self::SelfTestFailed => "self-test failed",
        })
    }
}
