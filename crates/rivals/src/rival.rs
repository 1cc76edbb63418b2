//! Interface to a library that is compared.

use std::fmt;

use crate::work::{BLOCK, Direction, Work};

/// A library that is compared.
pub(crate) struct Library {
    /// Name, as in the names of results.
    pub(crate) name: &'static str,
    /// Returns the library's name and version, or the reason for which it is not available here.
    pub(crate) version: fn() -> Result<String, Missing>,
    pub(crate) set_up: fn(Work) -> SetUp,
}

/// The key of some work, set up; `None` where the library has no such cipher.
pub(crate) type SetUp = Result<Option<Box<dyn Turns>>, Fault>;

/// Reason for which a library is left out.
#[derive(Clone, Debug)]
pub(crate) struct Missing(pub(crate) String);

/// A key that is set up, with the quickest way that the library's own documentation shows to turn
/// disk sectors: the key schedule once, an IV for each sector.
///
/// A run is whole units from number `first` on, and is turned in place. The last 16 bytes of a record
/// are its tag's.
pub(crate) trait Turns {
    fn turn(&mut self, direction: Direction, first: u64, run: &mut [u8]) -> Result<(), Fault>;
}

/// Reason for which a library cannot be compared at some work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A call did not work.
    Call { call: &'static str, status: i64 },
    /// Its bytes are not those of the other libraries.
    Differs(Direction),
    /// Message of the library itself.
    Said(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call { call, status } => write!(out, "{call} returned {status}"),
            Self::Differs(direction) => {
                let verb = direction.name();
                write!(out, "what it {verb}s are not the bytes of the others")
            }
            Self::Said(text) => out.write_str(text),
        }
    }
}

impl std::error::Error for Fault {}

impl Fault {
    /// Fault of a call that has no status.
    pub(crate) fn of(call: &'static str) -> Self {
        Self::Call { call, status: 0 }
    }

    /// Checks the status of a call, which is `good` when all is well.
    pub(crate) fn unless<T: Copy + PartialEq + Into<i64>>(
        good: T,
        call: &'static str,
        status: T,
    ) -> Result<(), Self> {
        if status == good {
            return Ok(());
        }
        Err(Self::Call {
            call,
            status: status.into(),
        })
    }
}

/// Splits a record into its payload and its tag.
pub(crate) fn tagged(record: &mut [u8]) -> Result<(&mut [u8], &mut [u8; BLOCK]), Fault> {
    let parts = record.split_last_chunk_mut();
    parts.ok_or(Fault::of("a record without a tag"))
}
