//! A client of web servers that is never what limits a measurement: HTTP/1.1, plain or over TLS.
//!
//! A [`Connection`] downloads as a browser would and decrypts what comes: with it a server is checked,
//! and `scrim bench serve` measures. A [`Crowd`] asks on many connections from one thread for the same
//! file again and again. It has decrypted one answer on each connection; of later ones it reads the
//! records' lengths, which say as well when an answer is whole, and takes a fraction of the time that the
//! server takes. A [`SlowCrowd`] takes so little at a time that the server has to wait for it.

mod connection;
mod crowd;
mod error;
mod expected;
mod head;
mod silence;
mod slow;
mod trust;
mod url;

pub use connection::Connection;
pub use crowd::{Crowd, Latencies, Tally};
pub use error::WebError;
pub use head::Head;
pub use slow::SlowCrowd;
pub use trust::{Identity, Suite, Trust};
pub use url::Url;

#[cfg(test)]
pub(crate) mod testing {
    pub(crate) use super::connection::tests::{answer, server};
}
