//! Certificates and private keys in PEM files, for all that speaks TLS: what is in them, and in a sentence what
//! is wrong with them. How long a file may be is for who asks to say; what was read is wiped from memory.

#![forbid(unsafe_code)]

mod fault;
mod files;

pub use fault::{FileError, FileFault};
pub use files::{certificates, certified_key};
