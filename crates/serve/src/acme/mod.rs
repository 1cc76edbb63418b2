//! Certificates from an authority that speaks ACME (RFC 8555), such as Let's Encrypt, and their renewal.
//!
//! The server proves its names to the authority by TLS itself (TLS-ALPN-01, RFC 8737), on the port where HTTPS is
//! served: neither port 80 nor a change of DNS is needed. A [`Keeper`] shows the certificate that its folder has from
//! earlier; once started, it orders and renews on a thread and an event loop of its own, so that no request ever waits
//! for an authority.

mod active_certificates;
mod challenge;
mod client;
mod fault;
mod keeper;
mod order;
mod schedule;
mod settings;
mod state;

pub use active_certificates::ActiveCertificates;
pub use fault::{Fault, StateError};
pub use keeper::{Event, Keeper, KeeperHandle, check};
pub use settings::{Settings, SettingsError};
