//! The HTTPS file server: its configuration, its listeners and the volumes whose files it serves.

mod configuration;
mod listeners;
mod machine;
mod qr_code;
mod reading;
pub(crate) mod server;
mod ticket_keys;
mod users;
mod volumes;
