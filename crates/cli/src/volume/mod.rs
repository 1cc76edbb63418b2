//! Volumes that a command opens: from a LUKS header or a table, with their devices.

pub(crate) mod devices;
pub(crate) mod new_image;
pub(crate) mod opening;
pub(crate) mod plain;
pub(crate) mod table_input;
