//! The Network Block Device protocol as both sides of it speak it: its numbers, and where a server is.
//!
//! The server is `scrim_export::nbd`.

#![forbid(unsafe_code)]

mod address;
pub mod wire;

pub use address::{Address, AddressError};
