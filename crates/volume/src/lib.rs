//! The heart of Scrim: a [`CryptTable`] says what a mapping is, in dm-crypt's own words, and a
//! [`Volume`] runs it on [`scrim_backend`]s.
//!
//! A [`LuksDevice`] is a LUKS header on a backend; unlocked, it *becomes* a table. Nothing else in
//! the program describes a mapping.

#![forbid(unsafe_code)]

mod crypt_target;
mod data_path;
mod error;
mod fetched;
mod gate;
mod header_session;
mod in_place;
mod luks_device;
mod mapping;
#[cfg(all(test, shuttle))]
mod models;
mod open_flags;
mod path;
pub mod queue;
mod range_lock;
mod stats;
mod sync;
mod table;
mod target;
mod volume;

pub use data_path::{DataPath, Direction, UnknownDataPath};
pub use error::{Errno, OpenError, VolumeError};
pub use fetched::FetchedCiphertext;
pub use header_session::HeaderSession;
pub use in_place::{
    Encrypted, InPlace, InPlaceError, Keep, Prepared, Room, is_half_overwritten, undo, undo_in,
};
pub use luks_device::{LuksDevice, LuksError, Unlocked};
pub use mapping::{Mapping, ResizeError};
pub use open_flags::OpenFlags;
pub use scrim_backend::Durability;
pub use stats::{DirectionStatistics, SAMPLED, Spread, Statistics};
pub use table::{
    CryptOptions, CryptSpec, CryptTable, Difference, Keys, Line, LinearSpec, TableError, TargetSpec,
};
pub use volume::{
    Change, ForgetError, KeyState, LoadError, RecallError, ResumeError, Resumed, Volume,
};
