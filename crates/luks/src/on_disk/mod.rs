//! Headers as each version of LUKS stores them.

pub(crate) mod fields;
pub(crate) mod luks1;
pub(crate) mod luks2;
pub(crate) mod magic;
pub(crate) mod restore;
