//! Files, devices and exports that commands read and write.

pub(crate) mod device_names;
mod image;
pub(crate) mod new_file;
pub(crate) mod partitions;

pub(crate) use image::{Manner, Storage, absolute, demand_local, is_remote};
