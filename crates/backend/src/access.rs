//! Access for which a file is opened.

/// Access for which a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reading only; other readers are welcome, writers are not.
    ReadOnly,
    /// Reading and writing, alone.
    ReadWrite,
}
