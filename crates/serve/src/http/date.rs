//! The value of the field `Date`, formatted once a second.

use std::cell::{Cell, RefCell};
use std::time::{SystemTime, UNIX_EPOCH};

use http::HeaderValue;

/// Cache of the formatted time.
pub(crate) struct DateCache {
    second: Cell<u64>,
    text: RefCell<HeaderValue>,
}

impl DateCache {
    pub(crate) fn new() -> Self {
        Self {
            second: Cell::new(u64::MAX),
            text: RefCell::new(HeaderValue::from_static("")),
        }
    }

    /// The value of `Date` for the time `now`.
    pub(crate) fn text(&self, now: SystemTime) -> HeaderValue {
        let second = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        if self.second.replace(second) != second
            && let Ok(text) = HeaderValue::from_str(&httpdate::fmt_http_date(now))
        {
            *self.text.borrow_mut() = text;
        }
        self.text.borrow().clone()
    }
}
