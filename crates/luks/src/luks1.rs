//! LUKS1: one header of 592 bytes, then eight key slot areas.
//!
//! There is no checksum and no second copy: a damaged header is noticed where a field becomes
//! impossible, and otherwise by a passphrase that no longer opens its key slot.

pub use crate::error::Fault;
pub use crate::header::format_luks1 as format;
pub use crate::on_disk::luks1::{Fix, FormatSpec, Header};
