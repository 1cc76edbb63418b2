//! Files, devices and exports that commands read and write.

pub(crate) mod device_names;
mod image;
pub(crate) mod new_file;
mod part;
mod partition_table;
pub(crate) mod partitions;
mod sif;
mod volume_place;

pub(crate) use image::{
    Manner, Storage, absolute, demand_local, demand_whole, file_of, is_named_part, is_remote,
};
pub(crate) use volume_place::{VolumePlace, header_place, name_with, place_of};
