//! Shared code of the fuzz targets: headers that are whole except for the fuzzed part, a client of the NBD
//! server that knows which answers are right, a reader of a site's answers, and a TLS client that has the
//! right key.

#![forbid(unsafe_code)]

pub mod header;
pub mod nbd;
pub mod site;
pub mod tls;
