//! LUKS2: two copies of a binary header and a JSON area, then the key slots area.
//!
//! The JSON document is the truth and is kept as it was read, unknown members included;
//! what the crate works with is parsed from it, and parsed again after each change.

pub use crate::error::{JsonFault, Problem};
pub use crate::header::{format_luks2 as format, format_luks2_underway as format_underway};
pub use crate::on_disk::luks2::{FormatSpec, Header};
