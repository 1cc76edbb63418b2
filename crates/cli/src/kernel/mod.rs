//! Volumes that the kernel's dm-crypt runs (`--engine kernel`), by device mapper's ioctls. Those that cryptsetup has opened
//! are volumes like those that Scrim opens: both give a device the same UUID, `CRYPT-LUKS2-…`.

mod forgetting;
mod identity;
mod key;
mod mapper;
mod mounting;
mod node;
mod opening;
mod refresh;
mod reload;
mod resize;
mod stats;
mod status;
mod table;
mod tuning;
mod volume;

pub(crate) use key::KeyQuestion;
pub(crate) use mapper::Mapper;
pub(crate) use mounting::{mounted_on, unmount};
pub(crate) use opening::{KeyPlace, open_luks, open_table};
pub(crate) use stats::{KernelFigures, KernelTraffic};
pub(crate) use status::KernelStatus;
pub(crate) use table::words_of;
pub(crate) use tuning::Tuning;
pub(crate) use volume::KernelVolume;
