//! What is served: folders of files, and what belongs to them.

mod open_file;

pub use open_file::{OpenFile, Patience};
