//! What `scrim serve` is told, and where it serves.

mod configuration;
mod places;

pub(crate) use configuration::configuration;
pub(crate) use places::{addresses, listeners};
