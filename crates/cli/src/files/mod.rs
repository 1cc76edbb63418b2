//! Files of the file system in a volume, which is not mounted: named as `IMAGE:/path`, shown, and copied.

pub(crate) mod copy;
mod entry;
pub(crate) mod listing;
pub(crate) mod location;
pub(crate) mod running;
pub(crate) mod source;
mod walk;
