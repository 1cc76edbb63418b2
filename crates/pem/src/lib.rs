//! Certificates and private keys in PEM files, for all that speaks TLS: reads what is in them, or says in a
//! sentence what is wrong with them. The caller sets the longest size of a file; what was read is wiped from
//! memory.

#![forbid(unsafe_code)]

mod fault;
mod files;

pub use fault::{FileError, FileFault};
pub use files::{certificates, certified_key};
