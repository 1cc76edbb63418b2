//! Configuration of `scrim serve`, its addresses and its volumes.

mod configuration;
mod places;
mod volumes;

pub(crate) use configuration::configuration;
pub(crate) use places::{addresses, listeners};
pub(crate) use volumes::Volumes;
