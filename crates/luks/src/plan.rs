//! Writes to a header device, in their order: the crate itself does no I/O.
//!
//! Writes between two [`Step::Sync`] may reach the medium in any order, torn at any sector, or not
//! at all. Each plan says in its constructor what a crash at any point leaves behind.

use std::fmt;
use std::ops::Range;

use crate::random::{self, RandomError};

/// Most random bytes that one write holds.
const RANDOM_PIECE: usize = 1 << 20;

/// One step of a [`Plan`]. Offsets and lengths are bytes on the header device.
#[derive(Debug)]
pub enum Step {
    /// Write these bytes: header bytes, or key material that is already encrypted.
    Write {
        /// Offset of the first byte written.
        offset: u64,
        /// The bytes to write.
        bytes: Vec<u8>,
    },
    /// Overwrite with random bytes, so that earlier key material is gone.
    Randomise {
        /// Offset of the first byte overwritten.
        offset: u64,
        /// Number of bytes to overwrite.
        len: u64,
    },
    /// Make everything before this durable before anything after it is written.
    Sync,
}

impl Step {
    pub(crate) fn randomise(area: Range<u64>) -> Self {
        Self::Randomise {
            offset: area.start,
            len: area.end.saturating_sub(area.start),
        }
    }
}

/// Steps to run in order, all of them.
#[derive(Debug)]
#[must_use = "a plan changes nothing until it is applied"]
pub struct Plan(Vec<Step>);

/// Device to which a [`Plan`] is applied: a file, a block device, or memory in a test.
pub trait Target {
    /// Error of its operations.
    type Error;

    /// Writes all of `bytes` at `offset`; a regular file that is too short grows.
    ///
    /// # Errors
    /// The target's error; the plan stops there.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Self::Error>;

    /// Makes everything written so far durable.
    ///
    /// # Errors
    /// The target's error; the plan stops there.
    fn sync(&mut self) -> Result<(), Self::Error>;
}

impl Plan {
    pub(crate) fn new(steps: Vec<Step>) -> Self {
        Self(steps)
    }

    /// Overwrites these areas with random bytes, then syncs.
    pub(crate) fn randomise(areas: Vec<Range<u64>>) -> Self {
        let mut steps: Vec<Step> = areas.into_iter().map(Step::randomise).collect();
        if !steps.is_empty() {
            steps.push(Step::Sync);
        }
        Self(steps)
    }

    /// Appends the steps of another plan.
    pub(crate) fn then(mut self, next: Self) -> Self {
        self.0.extend(next.0);
        self
    }

    /// Takes a plan apart that overwrites areas before it writes to them, as that of a new header does: what
    /// overwrites them, which may be done earlier, and the rest.
    pub fn apart(self) -> (Self, Self) {
        let is_noise = |step: &Step| matches!(step, Step::Randomise { .. });
        let (mut noise, rest): (Vec<_>, Vec<_>) = self.0.into_iter().partition(is_noise);
        noise.push(Step::Sync);
        (Self(noise), Self(rest))
    }

    /// The steps, in order.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.0
    }

    /// The first byte behind everything the plan writes: the length that the header device needs.
    #[must_use]
    pub fn end(&self) -> u64 {
        let end = |step: &Step| match step {
            Step::Write { offset, bytes } => offset.saturating_add(bytes.len() as u64),
            Step::Randomise { offset, len } => offset.saturating_add(*len),
            Step::Sync => 0,
        };
        self.0.iter().map(end).max().unwrap_or(0)
    }

    /// Leaves out overwriting of old bytes behind the end of a device of `device_len` bytes, where there are
    /// no bytes: a truncated header can still be changed and erased.
    pub fn clipped(mut self, device_len: u64) -> Self {
        for step in &mut self.0 {
            if let Step::Randomise { offset, len } = step {
                *len = device_len.saturating_sub(*offset).min(*len);
                *offset = device_len.min(*offset);
            }
        }
        self
    }

    /// Runs every step on `target`.
    ///
    /// # Errors
    /// The error of the first step that fails; the steps before it have been done.
    pub fn apply<T: Target>(&self, target: &mut T) -> Result<(), ApplyError<T::Error>> {
        for step in &self.0 {
            match step {
                Step::Write { offset, bytes } => {
                    target
                        .write_at(*offset, bytes)
                        .map_err(ApplyError::Target)?;
                }
                Step::Randomise { offset, len } => randomise(target, *offset, *len)?,
                Step::Sync => target.sync().map_err(ApplyError::Target)?,
            }
        }
        Ok(())
    }
}

fn randomise<T: Target>(target: &mut T, start: u64, len: u64) -> Result<(), ApplyError<T::Error>> {
    let piece = usize::try_from(len).map_or(RANDOM_PIECE, |len| len.min(RANDOM_PIECE));
    let mut noise = vec![0; piece];
    let mut done = 0;
    while done < len {
        let now = usize::try_from(len - done).map_or(piece, |left| left.min(piece));
        random::fill(&mut noise[..now]).map_err(ApplyError::Random)?;
        target
            .write_at(start.saturating_add(done), &noise[..now])
            .map_err(ApplyError::Target)?;
        done += now as u64;
    }
    Ok(())
}

/// Why a [`Plan`] stopped.
#[derive(Debug)]
pub enum ApplyError<E> {
    /// The operating system gave no random bytes to overwrite old key material with.
    Random(RandomError),
    /// The target refused a write or a sync.
    Target(E),
}

impl<E: fmt::Display> fmt::Display for ApplyError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Random(error) => error.fmt(f),
            Self::Target(error) => write!(f, "cannot write the LUKS header: {error}"),
        }
    }
}

impl<E: std::error::Error + 'static> std::error::Error for ApplyError<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Random(error) => Some(error),
            Self::Target(error) => Some(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Memory {
        bytes: Vec<u8>,
        calls: Vec<&'static str>,
    }

    impl Target for Memory {
        type Error = std::convert::Infallible;

        fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Self::Error> {
            let start = usize::try_from(offset).unwrap();
            let end = start + bytes.len();
            self.bytes.resize(self.bytes.len().max(end), 0);
            self.bytes[start..end].copy_from_slice(bytes);
            self.calls.push("write");
            Ok(())
        }

        fn sync(&mut self) -> Result<(), Self::Error> {
            self.calls.push("sync");
            Ok(())
        }
    }

    #[test]
    fn steps_run_in_order_and_random_areas_in_pieces() {
        let plan = Plan::new(vec![
            Step::Randomise {
                offset: 10,
                len: RANDOM_PIECE as u64 + 1,
            },
            Step::Sync,
            Step::Write {
                offset: 4,
                bytes: b"LUKS".to_vec(),
            },
        ]);
        assert_eq!(plan.end(), 11 + RANDOM_PIECE as u64);
        let mut memory = Memory::default();
        plan.apply(&mut memory).unwrap();
        assert_eq!(memory.calls, ["write", "write", "sync", "write"]);
        assert_eq!(&memory.bytes[..10], b"\0\0\0\0LUKS\0\0");
        assert_ne!(memory.bytes[10..100], [0; 90]);
    }

    #[test]
    fn noise_may_be_written_before_the_rest() {
        let key = Step::Write {
            offset: 20,
            bytes: b"key".to_vec(),
        };
        let plan = Plan::new(vec![Step::randomise(10..100), Step::Sync, key, Step::Sync]);
        let (noise, rest) = plan.apart();
        let mut memory = Memory::default();
        noise.apply(&mut memory).unwrap();
        rest.apply(&mut memory).unwrap();
        assert_eq!(&memory.bytes[20..23], b"key");
        assert_ne!(memory.bytes[23..100], [0; 77]);
        assert_eq!(memory.calls, ["write", "sync", "sync", "write", "sync"]);
    }

    #[test]
    fn nothing_is_overwritten_behind_the_end_of_a_device() {
        let plan = Plan::randomise(vec![0..50, 90..200, 150..200]).clipped(100);
        assert_eq!(plan.end(), 100);
        let mut memory = Memory::default();
        plan.apply(&mut memory).unwrap();
        assert_eq!(memory.bytes.len(), 100);
        let kept = Step::Write {
            offset: 99,
            bytes: vec![1, 2],
        };
        assert_eq!(Plan::new(vec![kept]).clipped(100).end(), 101);
    }
}
