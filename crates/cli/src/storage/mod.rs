//! Files, devices and storage on servers that commands read and write.

pub(crate) mod device_names;
mod image;
pub(crate) mod new_file;
mod part;
mod partition_table;
pub(crate) mod partitions;
mod server;
mod sif;
mod volume_place;

pub(crate) use image::{
    Manner, Storage, absolute, demand_local, demand_whole, file_of, is_named_part,
};
pub(crate) use server::{ServerState, is_remote, is_snapshot, name_on_server, scheme_len};
pub(crate) use volume_place::{VolumePlace, header_place, name_with, place_of};
