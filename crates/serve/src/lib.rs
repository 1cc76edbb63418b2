//! Serves files to browsers: HTTPS, in user space.
//!
//! [`http`] has requests and answers, whatever version of the protocol carries them; [`files`] has open files, and
//! [`site`] finds them; [`tls`] makes handshakes and records; [`acme`] obtains certificates. A [`Server`] is a thread that
//! accepts connections, and worker threads that serve them, each with its own event loop and connections.
//!
//! Each module imports only from those before it: `address`, `files`, `listener`, `tls`; `acme`, `blocking`, `budget`,
//! `http`, `log`; `counters`, `limits`, `site`; `admission`, `config`, `sites`, `status`, `transport`; `origin`, `redirect`;
//! `worker`; `connection`; `event_loop`; `server`.

#![forbid(unsafe_code)]

pub mod acme;
mod address;
mod admission;
mod blocking;
mod budget;
pub mod config;
mod connection;
mod counters;
mod event_loop;
pub mod files;
pub mod http;
mod limits;
mod listener;
mod log;
mod origin;
mod redirect;
mod server;
pub mod site;
mod sites;
mod status;
pub mod tls;
mod transport;
mod worker;

pub use counters::Figures;
pub use limits::Limits;
pub use listener::{Listener, Service};
pub use log::{AccessLog, LogFormat};
pub use server::{Parts, Server};
pub use sites::{Sites, SitesError};
pub use status::Volumes;
pub use worker::OnFault;
