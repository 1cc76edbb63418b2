//! Carries files to a browser: HTTPS, in user space.
//!
//! [`http`] is what a request says and what an answer is, whatever version of the protocol carries them;
//! [`site`] is what is served; [`tls`] makes handshakes and seals records; [`acme`] obtains certificates. A
//! [`Server`] is a thread that accepts connections and threads that serve them, each with an event loop and
//! connections of its own.

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
