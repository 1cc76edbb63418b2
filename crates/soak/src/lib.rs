//! Crash safety by simulation: volumes and headers on a disk that loses power, tears writes and
//! reports errors ([`scrim_backend::sim`]), judged by a model.
//!
//! - [`history::run`] runs a random history of a volume, from a seed.
//! - [`OPERATIONS`] and [`DATA_OPERATIONS`]: operations on headers and volumes, each with a power
//!   cut and an error at every place where there can be one. A new header operation is a new row.
//! - [`table::page`] makes `docs/crash-safety.md`.
//! - [`Canary`]: disks that lie, which must be found out.
//!
//! Tests run a fixed number of histories, `cargo xtask soak` as many as there is time for.

#![forbid(unsafe_code)]

mod broken;
mod canary;
mod changes;
mod data_operation;
mod fixture;
mod header_change;
mod header_model;
pub mod history;
mod life;
mod luks;
mod model;
mod operation;
mod operations;
mod prepared;
mod request;
mod state;
pub mod table;
mod tally;
mod transition;
mod value;
mod way;

pub use broken::Broken;
pub use canary::Canary;
pub use data_operation::{DATA_OPERATIONS, DataOperation};
pub use operation::{Effort, Operation, Outcomes};
pub use operations::OPERATIONS;
pub use tally::Tally;
pub use transition::Between;
