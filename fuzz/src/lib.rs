//! What the fuzz targets share: headers that are whole but for what is fuzzed, and a client of the
//! NBD server that knows what must be answered.

#![forbid(unsafe_code)]

pub mod header;
pub mod nbd;
