//! What `scrim serve` is told, and where it serves.

mod configuration;
mod places;
mod volumes;

pub(crate) use configuration::configuration;
pub(crate) use places::{addresses, listeners};
pub(crate) use volumes::Volumes;
