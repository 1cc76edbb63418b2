//! The field `Authorization` of a request.

use std::fmt;

/// The value of `Authorization` as it was sent; it is never shown.
#[derive(Clone, Copy)]
pub struct Authorization<'a>(&'a [u8]);

impl<'a> Authorization<'a> {
    pub(crate) fn new(value: &'a [u8]) -> Self {
        Self(value)
    }

    /// The value, which has a password in it.
    pub(crate) fn expose(self) -> &'a [u8] {
        self.0
    }
}

impl fmt::Debug for Authorization<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Authorization(…)")
    }
}
