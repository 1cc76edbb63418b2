//! LUKS headers and their keys, as commands use them.

pub(crate) mod backup_record;
pub(crate) mod cost;
pub(crate) mod derivation;
pub(crate) mod header;
pub(crate) mod header_change;
pub(crate) mod kernel_key;
pub(crate) mod key_source;
pub(crate) mod new_volume;
mod not_luks;
pub(crate) mod reencryption;
pub(crate) mod token_key;
pub(crate) mod unlock;
