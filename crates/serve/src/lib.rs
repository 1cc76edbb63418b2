//! Serves files to browsers: HTTPS, in user space.
//!
//! [`http`] has requests and answers, whatever version of the protocol carries them; [`site`] has the files that are
//! served; [`tls`] makes handshakes and seals records; [`acme`] obtains certificates. A [`Server`] is a thread that
//! accepts connections, and threads that serve them, each with an event loop and connections of its own.

#![forbid(unsafe_code)]

pub mod acme;
mod address;
mod admission;
pub mod config;
mod connection;
mod counters;
pub mod http;
mod limits;
mod listener;
mod live;
mod log;
mod origin;
mod patience;
mod redirect;
mod server;
pub mod site;
mod status;
pub mod tls;
mod worker;

pub use counters::Figures;
pub use limits::Limits;
pub use listener::{Listener, Service};
pub use live::{Live, SitesError};
pub use log::{AccessLog, LogFormat};
pub use server::{Parts, Server};
pub use status::Volumes;
pub use worker::Trouble;
