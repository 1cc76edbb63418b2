//! Ciphers as commands name them, and warnings of implementations that compute wrongly.

pub(crate) mod options;
pub(crate) mod self_tests;
