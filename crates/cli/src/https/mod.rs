//! The HTTPS file server: its configuration, its listeners and the volumes whose files it serves.

mod configuration;
mod listeners;
mod machine;
pub(crate) mod server;
mod users;
mod volumes;
