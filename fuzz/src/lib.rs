//! What the fuzz targets share: headers that are whole but for what is fuzzed, a client of the NBD server
//! that knows what must be answered, how to read what a site answers, and a client of TLS that has the
//! right key.

#![forbid(unsafe_code)]

pub mod header;
pub mod nbd;
pub mod site;
pub mod tls;
