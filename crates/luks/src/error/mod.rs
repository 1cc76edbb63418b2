//! Errors of all operations on headers. They stand below the operations, because each wraps those of the
//! operations that it is made of.

mod convert;
mod edit;
mod format;
mod header;
mod json;
mod keyslot;
mod luks1;
mod unlock;
mod unsupported;
mod write;

pub use convert::ConvertError;
pub use edit::EditError;
pub use format::FormatError;
pub use header::{CopyFault, HeaderError};
pub use json::{JsonFault, Problem};
pub(crate) use keyslot::named as slots_named;
pub use keyslot::{KeyslotError, SealError};
pub use luks1::Fault;
pub use unlock::UnlockError;
pub use unsupported::Unsupported;
pub use write::WriteError;
