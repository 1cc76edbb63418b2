//! Why a key cannot be derived.

use std::error::Error;
use std::fmt;

/// Why a key cannot be derived.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum KdfError {
    /// A parameter that the function does not take, or with which it would not end in a sensible
    /// time.
    OutOfRange {
        /// Name of the parameter, in the plural, such as "lanes".
        parameter: &'static str,
        /// The value that was asked for.
        value: u64,
        /// The least that is taken.
        least: u64,
        /// The most that is taken.
        most: u64,
    },
    /// More memory than this machine, or the control group of this process, has to give.
    Memory {
        /// Memory that is needed, in KiB.
        need_kib: u64,
        /// Memory that there is, in KiB.
        have_kib: u64,
    },
    /// More memory than the caller allows a header to ask for.
    OverLimit {
        /// Memory that is needed, in KiB.
        need_kib: u64,
        /// Memory that is allowed, in KiB.
        limit_kib: u64,
    },
    /// It took longer than the caller allows.
    TimeLimit {
        /// The limit, in seconds.
        seconds: u64,
    },
    /// The process was asked to end.
    Interrupted,
    /// The kernel refused the memory although there seemed to be enough.
    MemoryRefused {
        /// Memory that is needed, in KiB.
        need_kib: u64,
    },
}

impl fmt::Display for KdfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::OutOfRange {
                parameter,
                value,
                least,
                most,
            } => write!(
                f,
                "key derivation with {value} {parameter} is refused, {least} to {most} are \
                 possible: choose others, or use another key slot if a header asks for them"
            ),
            Self::Memory { need_kib, have_kib } => write!(
                f,
                "key derivation needs {} MiB of memory, and {} MiB are free: free some, raise the \
                 limit of the container, or use a key slot or machine that it fits",
                need_kib.div_ceil(1024),
                have_kib / 1024,
            ),
            Self::OverLimit {
                need_kib,
                limit_kib,
            } => write!(
                f,
                "the header asks for {} MiB of memory to derive a key, and the limit is {} MiB",
                need_kib.div_ceil(1024),
                limit_kib / 1024,
            ),
            Self::TimeLimit { seconds } => write!(
                f,
                "deriving keys as the header asks took longer than the limit of {seconds} s"
            ),
            Self::Interrupted => f.write_str("interrupted; nothing was changed"),
            Self::MemoryRefused { need_kib } => write!(
                f,
                "key derivation was refused {} MiB of memory: raise the limits of this process \
                 (ulimit -v, vm.overcommit_memory), or use a key slot that needs less",
                need_kib.div_ceil(1024),
            ),
        }
    }
}

impl Error for KdfError {}

/// Refuses a `value` outside `least` to `most`.
pub(super) fn check(
    parameter: &'static str,
    value: u64,
    least: u64,
    most: u64,
) -> Result<(), KdfError> {
    if (least..=most).contains(&value) {
        Ok(())
    } else {
        Err(KdfError::OutOfRange {
            parameter,
            value,
            least,
            most,
        })
    }
}
